"""Each flag overrides a setting that exists."""

from __future__ import annotations

from typing import get_type_hints

from tau_trainer.cli.engines import EngineFlags, PairFlags
from tau_trainer.cli.options import RunFlags
from tau_trainer.settings import RunSettings, TauSettings


def test_the_defaults_told_in_the_help_are_the_settings_defaults() -> None:
    run, tau = RunSettings(), TauSettings()
    told: dict[tuple[type, str], object] = {
        (PairFlags, "pairs"): tau.pairs,
        (PairFlags, "agents"): tau.agents,
        (PairFlags, "policy"): tau.policy,
        (PairFlags, "credit"): tau.reward.credit,
        (RunFlags, "results_dir"): run.checkpoint_settings.results_dir,
        **{
            (EngineFlags, name): getattr(run.env_settings, name)
            for name in ("base_port", "timeout_wait", "num_areas", "max_lifetime_restarts", "restarts_rate_limit_n")
        },
        **{
            (EngineFlags, name): getattr(run.engine_settings, name)
            for name in ("width", "height", "quality_level", "target_frame_rate", "capture_frame_rate")
        },
    }
    for (group, name), default in told.items():
        hint = get_type_hints(group, include_extras=True)[name]
        text = next(m.help for m in hint.__metadata__ if hasattr(m, "help"))
        assert text.endswith(f"[default: {default}]"), name

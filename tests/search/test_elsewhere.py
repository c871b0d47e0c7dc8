from __future__ import annotations

import os
import signal

import pytest

from tau_trainer.bridge.protocol import BASE_PORT
from tau_trainer.errors import TauError
from tau_trainer.remote.here import Here
from tau_trainer.search.elsewhere import TrialElsewhere
from tau_trainer.search.trial import TrialResult
from tau_trainer.settings import RunSettings
from tests.search.conftest import quick
from tests.waiting import HANG_S


def test_trials_at_a_time_have_ports_of_their_own() -> None:
    trial = TrialElsewhere(quick(env_settings__base_port=6000), 1)
    env = RunSettings.model_validate(trial.target.arguments["settings"]).env_settings
    assert env.base_port == BASE_PORT, "the first free ports, whichever trial asks first"


def test_a_process_that_is_killed_is_told_of() -> None:
    """Ctrl-C at the terminal is for others."""

    def on_progress(_: TrialResult) -> None:
        assert trial.job.process is not None
        os.kill(trial.job.process.pid, signal.SIGINT)
        trial.job.process.kill()

    trial = TrialElsewhere(quick(), 10**7, on_progress)
    with pytest.raises(TauError, match="the process of a trial ended by SIGKILL"):
        trial.run()


def test_it_ends_with_whoever_asked() -> None:
    """Nobody speaks to it any more where the searcher is gone."""
    process = Here().launch(TrialElsewhere(quick(), 10**7).target)
    try:
        assert process.hear(HANG_S).kind == "progress", "it is under way"
        process.stop()
        while (message := process.hear(HANG_S)).kind == "progress":
            pass
        assert (message.kind, message.data["ending"]) == ("answer", "stopped")
        process.end()
        assert process.exit_code == 0
    finally:
        process.kill()

"""Recording demonstrations: a player, an environment, and a file for each behavior."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tau_trainer.bridge.demonstrations import SUFFIX, Demonstration, write_demonstration
from tau_trainer.envs import Environment, open_source
from tau_trainer.errors import DataError, SettingsError
from tau_trainer.files import safe_name
from tau_trainer.models import Policy
from tau_trainer.settings import RunSettings, resolve_seed
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.playing import RANDOM, Play, Player, PolicyPlayer, ScriptedPlayer, scripted
from tau_trainer.training.stored import stored_policies

Say = Callable[[str], None]


def players(player: str | Path, settings: RunSettings, *, deterministic: bool) -> Callable[[BehaviorSpec], Player]:
    """Makes the player of each behavior: the policies of a run's folder, a function by name, or chance.

    Raises SettingsError, CheckpointError.
    """
    seed = settings.env_settings.seed
    if isinstance(player, Path):
        policies = stored_policies(player, settings)
        return lambda spec: policy_player(policies, spec, seed, deterministic=deterministic)
    function = None if player == RANDOM else scripted(player)
    return lambda spec: ScriptedPlayer(spec, seed, function)


def policy_player(policies: Mapping[str, Policy], spec: BehaviorSpec, seed: int, *, deterministic: bool) -> Player:
    """The player for a behavior of an environment, where there is a policy that fits it. Raises SettingsError."""
    policy = policies.get(spec.short_name)
    if policy is None:
        raise SettingsError(f"the run has no policy for behavior '{spec.short_name}', only for {', '.join(policies)}")
    shown = {sensor.name: sensor.shape for sensor in spec.observations}
    wanted = {sensor.name: sensor.shape for sensor in policy.spec.observations}
    if policy.spec.actions != spec.actions or any(shown.get(name) != shape for name, shape in wanted.items()):
        raise SettingsError(
            f"the run's policy for '{spec.short_name}' was trained with other sensors or actions than this environment "
            "has; name the one that it was trained on with --env"
        )
    return PolicyPlayer(policy, seed, deterministic=deterministic)


@contextmanager
def opened(settings: RunSettings, say: Say = lambda text: None) -> Iterator[Environment]:
    """The environment that settings ask for, not yet started; what an engine writes is thrown away.

    Raises SettingsError, LaunchError, PortInUseError.
    """
    with tempfile.TemporaryDirectory(prefix="tau-train-", ignore_cleanup_errors=True) as logs:
        source = open_source(settings, 1, Path(logs))
        for sentence in (*source.warnings, *([source.invitation] if source.invitation else [])):
            say(sentence)
        yield source.make(0, lambda stat: None, say)


def record(
    settings: RunSettings,
    player: str | Path,
    output: Path,
    *,
    episodes: int,
    most: int | None = None,
    deterministic: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    say: Say = lambda text: None,
) -> list[tuple[Path, Demonstration]]:
    """Play, and write ``output``, or a file for each behavior where there are several.

    Args:
        settings: whose environment is played.
        player: a run's folder, or the name of a player.
        output: the file.
        episodes: of each behavior; those that are open at the end are left out.
        most: decisions after which it ends at any rate; then open episodes are kept.
        deterministic: a run's policy takes its most likely action.
        stopped: asked after every step, whether somebody wants it to end.
        say: told sentences for the person who watches.

    Raises:
        TauError: the environment or the player cannot be had, nothing was recorded, or the file cannot be written.
    """
    settings = resolve_seed(settings)
    player_of = players(player, settings, deterministic=deterministic)

    def enough(play: Play) -> bool:
        return stopped() or play.episodes >= episodes or (most is not None and play.decisions >= most)

    with opened(settings, say) as environment:
        play = Play(environment, player_of, enough)
        asyncio.run(play.run(Lessons(settings.environment_parameters or {}).parameters))
    written = []
    whole = most is None or play.decisions < most
    for name, recording in play.recordings.items():
        path = output if len(play.recordings) == 1 else output.with_stem(f"{output.stem}-{safe_name(name)}")
        if not recording.decisions:
            raise DataError(f"behavior '{name}' made no decision, so there is nothing to write to '{path}'")
        demonstration = recording.demonstration(whole=whole)
        write_demonstration(path.with_suffix(SUFFIX), demonstration)
        written.append((path.with_suffix(SUFFIX), demonstration))
    return written

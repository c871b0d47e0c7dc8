"""Recording demonstrations: a player, an environment, and a file for each behavior."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tau_trainer.bridge.demonstrations import SUFFIX, Demonstration, write_demonstration
from tau_trainer.errors import DataError
from tau_trainer.evaluation.play import Play, Say, opened
from tau_trainer.evaluation.players import make_players
from tau_trainer.evaluation.recording import Recording
from tau_trainer.files import file_name
from tau_trainer.settings import RunSettings, resolve_seed
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.stored import stored_policies


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
    """Play, and write ``output``; with several behaviors, write a file for each.

    Args:
        settings: name the environment to play.
        player: a run's folder, or the name of a player.
        output: the file to write.
        episodes: number of episodes of each behavior; unfinished episodes at the end are left out.
        most: maximum number of decisions; if it is reached, unfinished episodes are kept.
        deterministic: a run's policy takes its most likely action.
        stopped: called after every step; returns True to end the recording.
        say: receives sentences to show to the user.

    Raises:
        TauError: the environment or the player is not available, nothing was recorded, or the file cannot be written.
    """
    settings = resolve_seed(settings)
    policies = stored_policies(player, settings) if isinstance(player, Path) else player
    player_of = make_players(policies, settings.env_settings.seed, deterministic=deterministic)

    def enough(play: Play) -> bool:
        return stopped() or play.ended >= episodes or (most is not None and play.decisions >= most)

    with opened(settings, say) as environment:
        play = Play(environment, player_of, Recording)
        asyncio.run(play.run(Lessons(settings.environment_parameters or {}).parameters, enough))
    written = []
    whole = most is None or play.decisions < most
    for name, side in play.sides.items():
        path = output if len(play.sides) == 1 else output.with_stem(f"{output.stem}-{file_name(name)}")
        if side.recording is None or not side.decisions:
            raise DataError(f"behavior '{name}' made no decision, so there is nothing to write to '{path}'")
        demonstration = side.recording.demonstration(whole=whole)
        write_demonstration(path.with_suffix(SUFFIX), demonstration)
        written.append((path.with_suffix(SUFFIX), demonstration))
    return written

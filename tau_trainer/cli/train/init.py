"""``tau-train init``: a commented settings file to start from, for what a game announces."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tau_trainer.cli.engines import EngineFlags
from tau_trainer.cli.flags import valued
from tau_trainer.cli.messages import (
    show_json,
    show_lines,
)
from tau_trainer.cli.options import Force, OutputFlags
from tau_trainer.cli.resolving import engine_settings, played
from tau_trainer.cli.running import check_seconds, prepare, told
from tau_trainer.cli.train.check import show_sections
from tau_trainer.cli.train.find import watched
from tau_trainer.errors import SettingsError
from tau_trainer.files import (
    atomic_write_text,
    file_name,
    reason,
)

if TYPE_CHECKING:
    from tau_trainer.settings import RunSettings
    from tau_trainer.training.starting import Announced

_NO_GAME = "config"
"""Name of the file for any game."""


def init(
    folder: Annotated[
        Path, Parameter(help="Folder for the file; it is created if it does not exist. [default: .]")
    ] = Path(),
    /,
    *,
    seconds: Annotated[
        float, valued("Seconds of play and learning to choose an algorithm by. [default: 5]", "S")
    ] = 5.0,
    force: Force = False,
    engines: EngineFlags = EngineFlags(),
    output: OutputFlags = OutputFlags(),
) -> int:
    """Write a settings file to start from, with a comment for every key.

    With --env GAME it starts the game once, plays for some seconds, and writes what fits: a section for each behavior,
    the algorithm by the rule of advise, poca for groups, self-play for teams. The file is FOLDER/GAME.yaml. Without
    --env it is FOLDER/config.yaml, for any game. Ctrl-C: nothing is written.
    """
    from tau_trainer.training.starting import starting_text

    prepare(output)
    check_seconds(seconds)
    settings = engine_settings(None, engines, seed=0)
    name = _NO_GAME if engines.env is None else played(engines.env)
    awaited = engines.env is not None and settings.env_settings.awaited
    if not awaited:  # else the file is called after what is announced
        _target(folder, name, force)
    behaviors = [] if engines.env is None else _look(settings, seconds, output)
    target = _target(folder, behaviors[0].name if awaited else name, force)
    _write(target, starting_text(settings, behaviors))
    game = [] if engines.env is not None else ["--env", "GAME"]
    then = [shlex.join(["tau-train", command, str(target), *game]) for command in ("check", "learn")]
    if output.json:
        seen = {each.name: {"seen": each.described(), "trainer_type": each.trainer} for each in behaviors}
        show_json({"file": str(target), "behaviors": seen, "next": then})
    elif not output.quiet:
        _say(target, behaviors, then)
    return 0


def _target(folder: Path, name: str, force: bool) -> Path:
    """The file. Raises SettingsError if it cannot be written."""
    a_file = any(place.exists() and not place.is_dir() for place in (folder, *folder.parents))
    if a_file or folder.suffix in (".yaml", ".yml"):
        raise SettingsError(f"{folder}: init takes a folder, and names the file in it after the game; name a folder")
    path = folder / f"{file_name(name)}.yaml"
    if path.exists() and not force:
        raise SettingsError(f"{path} already exists; name another folder, or add --force to replace the file")
    return path


def _look(settings: RunSettings, seconds: float, output: OutputFlags) -> list[Announced]:
    """The behaviors of the game. Raises TauError, and KeyboardInterrupt if it was stopped."""
    from tau_trainer.search.first_look import FirstLook

    # The editor's user must know when to press Play, even with --quiet.
    looking = FirstLook(settings, seconds, told(output, always=settings.env_settings.awaited))
    try:
        return watched(lambda progress: looking.run(progress.tell), looking.stop, output, "nothing is written")
    finally:
        if looking.stopped:
            raise KeyboardInterrupt


def _write(target: Path, text: str) -> None:
    """Raises SettingsError if the folder cannot be made, TauError if the file cannot be written."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"{target.parent}: cannot be made ({reason(error)}); name another folder") from error
    atomic_write_text(target, text)


def _say(target: Path, behaviors: list[Announced], then: list[str]) -> None:
    """What was seen, what was written, and what to do next."""
    show_sections(
        [
            (each.name, [("seen", each.described()), ("trainer_type", f"{each.trainer}. {each.why}".strip())])
            for each in behaviors
        ]
    )
    hint = [] if behaviors else ["It is for any game; with --env GAME, init looks at yours and writes what fits it."]
    show_lines(["", f"{target} is written.", *hint, "", "Next:", *(f"  {line}" for line in then)])

"""``tau-train animate``: render a run's policy as a GIF or MP4."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tau_trainer.cli.flags import output_to, valued
from tau_trainer.cli.messages import set_up_logging, show_lines, show_status
from tau_trainer.cli.options import Debug, Force, ResultsDir, Run
from tau_trainer.cli.running import check_least, run_folder, writable
from tau_trainer.errors import SettingsError

ANIMATION_NAME = "animation.gif"


def animate_command(
    run: Run,
    /,
    *,
    env: Annotated[str | None, valued("gym:ID, or gym:MODULE:ID. [default: the run's environment]", "ENV")] = None,
    output: Annotated[
        Path | None,
        output_to(
            "File to write: .gif, or .mp4 (needs: pip install 'tau-trainer[video]'). [default: animation.gif in the "
            "run's folder]",
            "FILE",
            "--out",
        ),
    ] = None,
    episodes: Annotated[int, valued("Number of episodes. [default: 1]", "N")] = 1,
    max_steps: Annotated[int, valued("Maximum steps of an episode. [default: 1000]", "N")] = 1000,
    fps: Annotated[
        float | None, Parameter(help="Frames per second, at most 50 in a GIF. [default: the environment's]")
    ] = None,
    deterministic: Annotated[bool, Parameter(help="Take the most likely action instead of a sample.")] = False,
    seed: Annotated[int, valued("Random seed of the first episode. [default: 0]", "N")] = 0,
    force: Force = False,
    results_dir: ResultsDir = "results",
    env_args: Annotated[
        tuple[str, ...] | None,
        Parameter(
            help="Everything after this flag goes to gymnasium.make: NAME=VALUE.",
            metavar="...",
            allow_leading_hyphen=True,
        ),
    ] = None,
    debug: Debug = False,
) -> int:
    """Render a run's policy as a GIF or MP4.

    Plays a Gymnasium environment that can render itself: gym:ID. The run is not changed.
    """
    set_up_logging(debug=debug)
    folder = run_folder(run, results_dir)
    numbers = {"--episodes": episodes, "--max-steps": max_steps, "--fps": 1.0 if fps is None else fps}
    for flag, value in numbers.items():
        if not 0 < value < float("inf"):
            raise SettingsError(f"{flag} {value}: must be more than 0")
    check_least(0, seed=seed)
    target = writable(folder / ANIMATION_NAME if output is None else output, force)
    show_status(f"playing {folder}")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame looks for a screen, which rendering does not need
    from tau_trainer.report.animation import Showing, animate
    from tau_trainer.settings import load_settings
    from tau_trainer.settings.problems import check_chosen

    settings = load_settings(folder / "configuration.yaml")
    if env is None:
        check_chosen(settings, "env_settings")
    given = settings.env_settings
    chosen = env or given.env_path
    if chosen is None:
        raise SettingsError("the run was trained in the editor; name an environment with --env gym:ID")
    words = env_args if env_args is not None else (given.env_args or () if chosen == given.env_path else ())
    showing = Showing(
        episodes=episodes,
        max_steps=max_steps,
        fps=fps,
        deterministic=deterministic,
        seed=seed,
        env_args=words,
    )
    seen = animate(folder, chosen, target, showing)
    lines = [
        f"episode {number}: {steps:,} steps, return {value:.4g}"
        for number, (steps, value) in enumerate(zip(seen.episodes.lengths, seen.episodes.returns, strict=True), 1)
    ]
    show_lines([*lines, f"written: {target} ({target.stat().st_size / 1000:,.0f} kB)"])
    return 0

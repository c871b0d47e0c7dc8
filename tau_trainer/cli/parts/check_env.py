"""``tau-train check-env``: test a batched environment for mistakes, and compare two implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tau_trainer.cli.flags import valued
from tau_trainer.cli.messages import set_up_logging, show_status
from tau_trainer.cli.options import Debug
from tau_trainer.cli.progress import ProgressBar
from tau_trainer.cli.running import check_least
from tau_trainer.errors import SettingsError
from tau_trainer.shown import shown

if TYPE_CHECKING:
    from tau_trainer.envs.batched.findings import Findings

Row = tuple[str, str, list[str]]
"""A verdict, its title, and sentences about faults."""
_INDENT = " " * 11
_COLOURS = {"ok": "green", "fault": "bold red"}


def check_env_command(
    env: Annotated[str, valued("A batched environment's name, or your own MODULE:CLASS.", "NAME|MODULE:CLASS")],
    /,
    *arguments: Annotated[str, valued("Arguments of the environment: NAME=VALUE.", "NAME=VALUE")],
    against: Annotated[
        str | None,
        valued(
            "Batched environment, or twin in numpy, to compare it with, step by step. "
            "[default: its included twin, if it has one]",
            "NAME|MODULE:CLASS",
        ),
    ] = None,
    device: Annotated[str, Parameter(help="Device to play on and to compare with the CPU. [default: cpu]")] = "cpu",
    copies: Annotated[int, valued("Number of copies, at least 2. [default: 8]", "N")] = 8,
    steps: Annotated[int, valued("Steps of each copy. [default: 200]", "N")] = 200,
    seed: Annotated[int, valued("Random seed of copies and actions. [default: 0]", "N")] = 0,
    tolerance: Annotated[
        float, valued("Largest allowed difference, absolute and relative. [default: 0.0001]", "X")
    ] = 1e-4,
    debug: Debug = False,
) -> int:
    """Test a batched environment for mistakes.

    Plays it with random actions and checks shapes, types, masks, random numbers, resets, and that copies do not
    influence each other. Then compares it, step by step, with its twin or --against, and on another --device with
    itself. Exit code: 0 if no fault was found, 1 otherwise.
    """
    set_up_logging(debug=debug)
    check_least(2, copies=copies)
    check_least(1, steps=steps)
    check_least(0, seed=seed)
    if not 0.0 < tolerance < float("inf"):
        raise SettingsError(f"--tolerance {tolerance}: must be more than 0")
    show_status(f"checking {env}")
    import torch

    from tau_trainer.envs.batched import BatchedEnv, Twin, registry
    from tau_trainer.envs.batched.checking import check, compared
    from tau_trainer.envs.threaded import named_arguments

    given = named_arguments(arguments, env, "")

    def make(count: int, *, seed: int = seed, device: str = device) -> BatchedEnv:
        return registry.make(env, count, seed=seed, device=device, **given)

    peers = dict[str, BatchedEnv | Twin]()
    if against is not None:
        peers[against] = registry.other(against, copies, seed=seed, **given)
    elif registry.has_twin(env):
        peers["its twin in numpy"] = registry.twin(env, **given)
    with ProgressBar() as progress:

        def on_step(what: str) -> Callable[[int], None]:
            return lambda step: progress.count(what, step, steps, "steps")

        played = on_step("checking")
        findings = check(make, copies=copies, steps=steps, seed=seed, tolerance=tolerance, on_step=played)
        if torch.device(device).type != "cpu":
            peers["itself on the CPU"] = make(copies, device="cpu")
        rows = [*_checked(findings)]
        for name, peer in peers.items():
            title = f"equal to {name}, within {tolerance:g}"
            if findings.whole:
                how = {"steps": steps, "seed": seed, "tolerance": tolerance, "on_step": on_step("comparing")}
                play = compared(make(copies), peer, name, **how)
                rows.append(("fault" if play else "ok", title, play))
            else:
                rows.append(_unseen(title))
    faults = sum(len(sentences) for _, _, sentences in rows)
    heading = [f"{env}: {findings.about}"] if findings.about else [env]
    heading += [f"{copies} copies, {steps:,} steps each on {device}; {_ended(findings)}"] if findings.whole else []
    _show(heading, rows, f"{env}: {faults} fault{'s' * (faults != 1)} found" if faults else f"{env}: no fault found")
    return 1 if faults else 0


def _checked(findings: Findings) -> Iterator[Row]:
    """A row for each check, with its faults."""
    from tau_trainer.envs.batched.findings import TITLES

    for part, title in TITLES.items():
        sentences = list(findings.faults[part].values())
        if sentences or part in findings.looked:
            yield ("fault" if sentences else "ok", title, sentences)
        elif part not in ("left", "pictures"):  # not every environment has these
            yield _unseen(title)


def _unseen(title: str) -> Row:
    return "-", f"{title}: not checked", []


def _ended(findings: Findings) -> str:
    return f"{findings.episodes:,} episodes ended" if findings.episodes else "no episode ended; also try more --steps"


def _show(heading: list[str], rows: list[Row], verdict: str) -> None:
    from rich.text import Text

    from tau_trainer.console import Console

    console = Console(soft_wrap=False)
    console.print(Text("\n".join(map(shown, heading))), style="bold")
    for mark, title, sentences in rows:
        console.print(Text.assemble("  ", (f"{mark:<7}", _COLOURS.get(mark, "dim")), shown(title)))
        for sentence in sentences:
            console.print(Text(fill(shown(sentence), console.width, initial_indent=_INDENT, subsequent_indent=_INDENT)))
    console.print(Text(shown(verdict), "bold"))

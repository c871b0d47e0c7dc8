"""The commands of `tools/bootstrap.py`: setup, train, check, test, shell-help."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import changed, running
from .environment import WINDOWS, Environment, ensure
from .progress import SetupError

ROOT = Path(__file__).resolve().parents[2]
PAIRS = "4"
QUICK = (
    "settings",
    "metrics",
    "memory",
    "rewards",
    "models",
    "collection",
    "cli",
    "test_columns.py",
    "test_plugins.py",
)
"""The part of `tests/` that `check` runs if nothing has changed: it needs no engine, and about half a minute."""
BUDGET_SECONDS = 50.0
"""Maximum total time of the tests that `check` chooses."""
TYPES = "mypy --strict"
QUICK_MARKS = ("not slow", "not slow and not conformance")
"""pytest markers for the tests named on `check`'s command line, and for those that it chooses."""
NO_TESTS = 5
"""pytest's exit code if no test was selected."""
USAGE = """\
usage: python3 tools/bootstrap.py COMMAND [ARGUMENTS]

  train [ARGUMENTS]   set up, then `tau-train parallel --pairs 4 [ARGUMENTS]`
  test [ARGUMENTS]    set up, then linters, type checker and `pytest [ARGUMENTS]`; with --all also the nightly tests
  check [ARGUMENTS]   the same in a minute: the tests nearest to the changes in git, or those named in ARGUMENTS
  setup               set up only: .venv with the exact versions of constraints.txt
  shell-help          how to use the environment from your own shell
"""


def main(arguments: Sequence[str]) -> int:
    """Runs one command; returns the exit code: 2 for an error in the command line or a failed set-up."""
    name, rest = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    if name in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    if name not in COMMANDS:
        said = f"`{name}` is not a command" if name else "a command is missing"
        print(f"bootstrap: {said}.\n\n{USAGE}", end="", file=sys.stderr)
        return 2
    environment = Environment(ROOT)
    try:
        return COMMANDS[name](environment, rest)
    except SetupError as error:
        print(f"bootstrap: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"bootstrap: {error}: check that the checkout can be written to and the disk has room.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bootstrap: stopped; the next call continues from here.", file=sys.stderr)
        return 130


def train(environment: Environment, arguments: list[str]) -> int:
    """The main job: `tau-train parallel`, with four pairs unless the arguments say otherwise."""
    ensure(environment)
    return running.replace([str(environment.program("tau-train")), *train_arguments(arguments)], environment.root)


def train_arguments(arguments: list[str]) -> list[str]:
    """The arguments of `tau-train`: `--pairs 4` unless the user chose a number."""
    chosen = any(one == "--pairs" or one.startswith("--pairs=") for one in arguments)
    return ["parallel", *([] if chosen else ["--pairs", PAIRS]), *arguments]


def test(environment: Environment, arguments: list[str]) -> int:
    """Linters, type checker and the whole test suite."""
    if not any(one.startswith("--durations") for one in arguments):
        arguments = ["--durations=10", "--durations-min=1", *arguments]
    return _gates(environment, arguments)


def check(environment: Environment, arguments: list[str]) -> int:
    """The same with few tests, to run after every change: the tests in ARGUMENTS, or the nearest to the change."""
    if arguments:
        return _gates(environment, ["-q", "-m", QUICK_MARKS[0], *arguments])
    files = changed.files(environment.root)
    chosen, left = changed.tests(environment.root, files, BUDGET_SECONDS)
    if chosen:
        print(f"bootstrap: files changed: {len(files)}, test files nearest to them: {len(chosen)}")
    if left:
        print(f"bootstrap: omitted: {left} test files that depend on the change only indirectly; `test` runs them")
    code = _gates(environment, ["-q", "-m", QUICK_MARKS[1], *(chosen or [f"tests/{name}" for name in QUICK])])
    return 0 if code == NO_TESTS else code


def _gates(environment: Environment, arguments: list[str]) -> int:
    """Runs all gates, even if one fails; pytest comes last, so that its result is the last line."""
    paths = [one.partition("::")[0] for one in arguments if Path(one).parts[:1] == ("tests",)]
    missing = [path for path in paths if not (environment.root / path).exists()]
    if missing:  # workers would only report that there are no tests
        print(f"bootstrap: {missing[0]} does not exist: name an existing file or folder.", file=sys.stderr)
        return 2
    ensure(environment)
    python = str(environment.python)
    gates = [[python, "-m", "ruff", "check", "."], [python, "-m", "ruff", "format", "--check", "."]]
    codes = []
    for gate in gates:
        print("bootstrap: " + " ".join(gate[2:]), flush=True)
        codes.append(running.call(gate, environment.root))
        if codes[-1] > 128:
            return codes[-1]
    failed = [" ".join(gate[2:]) for gate, code in zip(gates, codes, strict=True) if code]
    if failed:
        print(f"bootstrap: already failed: {', '.join(failed)}", flush=True)
    pytest = [python, "-m", "pytest", "-p", "tools._bootstrap.plugin"]
    print(f"bootstrap: {TYPES}, in parallel with the tests", flush=True)
    ours = [*_workers(arguments), f"--beside={TYPES}"]
    codes.append(running.call([*pytest, *ours, *arguments], environment.root))
    if codes[-1] > 128:
        return codes[-1]
    return next((code for code in codes if code), 0)


def _workers(arguments: list[str]) -> list[str]:
    """Three workers if there are two cores, unless the arguments set the number or need a single process.

    A worker waits for engines and learners in nearly half of its time: two workers leave a fifth of two cores unused.
    """
    own = ("-n", "--numprocesses", "--dist", "--pdb", "--trace", "--co", "--collect-only", "--setup-")
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    if cores < 2 or any(one.startswith(own) or one.endswith("no:xdist") for one in arguments):
        return []
    return ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]


def setup(environment: Environment, arguments: list[str]) -> int:
    """Prepares the environment and prints its folder."""
    if arguments:
        print(f"bootstrap: `setup` takes no arguments, but got `{' '.join(arguments)}`.", file=sys.stderr)
        return 2
    ensure(environment)
    print(f"bootstrap: ready: {environment.folder}")
    return 0


def shell_help(environment: Environment, _arguments: list[str]) -> int:
    """Prints how to activate the environment in the user's shell."""
    scripts = environment.scripts
    if WINDOWS:
        lines = [f"PowerShell:  {scripts / 'Activate.ps1'}", f"cmd.exe:     {scripts / 'activate.bat'}"]
    else:
        lines = [f"bash, zsh:  source {scripts / 'activate'}", f"fish:       source {scripts / 'activate.fish'}"]
    print("\n".join([*lines, "then:       tau-train --help, pytest, ruff check, mypy --strict"]))
    return 0


COMMANDS: dict[str, Callable[[Environment, list[str]], int]] = {
    "train": train,
    "test": test,
    "check": check,
    "setup": setup,
    "shell-help": shell_help,
}

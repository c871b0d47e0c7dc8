"""The commands of `tools/bootstrap.py`: setup, train, check, test, shell-help."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import running
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
"""Of `tests/`, what `check` runs: it needs no engine, and the whole of it about half a minute."""
USAGE = """\
usage: python3 tools/bootstrap.py COMMAND [ARGUMENTS]

  train [ARGUMENTS]   set up, then `tau-train parallel --pairs 4 [ARGUMENTS]`
  test [ARGUMENTS]    set up, then the linters, the type checker and `pytest [ARGUMENTS]`
  check [ARGUMENTS]   the same with the tests that take seconds, or with those that ARGUMENTS name
  setup               set up only: .venv with the exact versions of constraints.txt
  shell-help          how to use the environment from your own shell
"""


def main(arguments: Sequence[str]) -> int:
    """Runs one command; returns the exit code: 2 for a mistake in the command line or a failed set-up."""
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
        print("bootstrap: stopped; the next call goes on from here.", file=sys.stderr)
        return 130


def train(environment: Environment, arguments: list[str]) -> int:
    """The main job: `tau-train parallel`, with four pairs unless the arguments say otherwise."""
    ensure(environment)
    return running.replace([str(environment.program("tau-train")), *train_arguments(arguments)], environment.root)


def train_arguments(arguments: list[str]) -> list[str]:
    """What `tau-train` gets: `--pairs 4` unless the user chose a number."""
    chosen = any(one == "--pairs" or one.startswith("--pairs=") for one in arguments)
    return ["parallel", *([] if chosen else ["--pairs", PAIRS]), *arguments]


def test(environment: Environment, arguments: list[str]) -> int:
    """Linters, type checker and the whole test suite."""
    return _gates(environment, arguments)


def check(environment: Environment, arguments: list[str]) -> int:
    """The same with few tests, to be called after every change."""
    return _gates(environment, ["-q", "-m", "not slow", *(arguments or [f"tests/{name}" for name in QUICK])])


def _gates(environment: Environment, arguments: list[str]) -> int:
    """Every gate in turn, all of them even if one fails; pytest comes last, so that its line closes the output."""
    ensure(environment)
    python = str(environment.python)
    gates = [
        [python, "-m", "ruff", "check", "."],
        [python, "-m", "ruff", "format", "--check", "."],
        [python, "-m", "mypy", "--strict"],
    ]
    codes = []
    for gate in gates:
        print("bootstrap: " + " ".join(gate[2:]), flush=True)
        codes.append(running.call(gate, environment.root))
        if codes[-1] > 128:
            return codes[-1]
    failed = [" ".join(gate[2:]) for gate, code in zip(gates, codes, strict=True) if code]
    if failed:
        print(f"bootstrap: this fails already: {', '.join(failed)}", flush=True)
    codes.append(running.call([python, "-m", "pytest", *arguments], environment.root))
    return next((code for code in codes if code), 0)


def setup(environment: Environment, arguments: list[str]) -> int:
    """Makes the environment ready and says where it is."""
    if arguments:
        print(f"bootstrap: `setup` takes no arguments, but got `{' '.join(arguments)}`.", file=sys.stderr)
        return 2
    ensure(environment)
    print(f"bootstrap: ready: {environment.folder}")
    return 0


def shell_help(environment: Environment, _arguments: list[str]) -> int:
    """Prints how to enter the environment from the user's own shell."""
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

"""From a bare checkout to a running program: `python3 tools/bootstrap.py train` or `... test`.

Standard library only. This file also runs on Python versions that are too old for the rest (down to 3.5), so that it
can print one clear sentence, or hand over to a newer Python on the PATH.
"""

import os
import subprocess
import sys
from typing import List, Optional

OLDEST = (3, 11)
CANDIDATES = ("python3.13", "python3.12", "python3.11", "python3.14", "python3", "python")
PROBE = "import sys, venv, ensurepip; sys.exit(0 if sys.version_info[:2] >= (%d, %d) else 1)" % OLDEST
HANDED_OVER = "TAU_TRAINER_BOOTSTRAP_HANDED_OVER"


def usable_here() -> bool:
    """True if this interpreter is new enough and can make environments (Debian splits `ensurepip` off)."""
    if sys.version_info[:2] < OLDEST:
        return False
    try:
        import ensurepip
        import venv
    except ImportError:
        return False
    return bool(ensurepip and venv)


def answers(command: List[str]) -> bool:
    """True if this command line starts a usable Python (a shim on the PATH can be broken)."""
    with open(os.devnull, "r+b") as nothing:
        try:
            return subprocess.call([*command, "-c", PROBE], stdin=nothing, stdout=nothing, stderr=nothing) == 0
        except OSError:
            return False


def newer_python() -> Optional[List[str]]:
    """The command line of a usable Python on the PATH, or None."""
    launchers = [["py", "-3.%d" % minor] for minor in (13, 12, 11, 14)] if os.name == "nt" else []
    for command in [[name] for name in CANDIDATES] + launchers:
        if answers(command):
            return command
    return None


def complain() -> int:
    """One sentence: what is missing and what to do; returns exit code 2."""
    found = "%d.%d" % sys.version_info[:2]
    if sys.version_info[:2] >= OLDEST:
        text = (
            "Python %s (%s) cannot make virtual environments because its module ensurepip is missing: install it "
            "(on Debian and Ubuntu: `apt install python%s-venv`) and run this command again."
        )
        text = text % (found, sys.executable, found)
    else:
        text = (
            "Tau Trainer needs Python %d.%d or newer, but %s is Python %s and no newer one is on the PATH: "
            "install one from your package manager or python.org and run this command again with it."
        )
        text = text % (OLDEST[0], OLDEST[1], sys.executable, found)
    sys.stderr.write("bootstrap: " + text + "\n")
    return 2


def hand_over() -> int:
    """Runs this script again under a newer Python, if there is one; returns the exit code."""
    command = None if os.environ.get(HANDED_OVER) else newer_python()
    if command is None:
        return complain()
    environment = dict(os.environ)
    environment[HANDED_OVER] = "1"
    arguments = [*command, os.path.abspath(__file__), *sys.argv[1:]]
    sys.stderr.write("bootstrap: continuing with %s\n" % " ".join(command))
    sys.stderr.flush()
    if os.name != "nt":
        os.execvpe(arguments[0], arguments, environment)
    return subprocess.call(arguments, env=environment)


if __name__ == "__main__":
    if not usable_here():
        sys.exit(hand_over())
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from tools._bootstrap.commands import main

    sys.exit(main(sys.argv[1:]))

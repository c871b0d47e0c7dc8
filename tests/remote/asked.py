"""Work that is asked for by lines, in tests: does what it is told to."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from tau_trainer.errors import TauError
from tau_trainer.remote.lines import answer


def _work(asked: dict[str, Any], say: Callable[..., None], on_stop: Callable[[Callable[[], None]], None]) -> None:
    match asked["how"]:
        case "counts":
            sys.stdout.write("this is no answer\n")
            for i in range(3):
                say(progress=i)
            say(sum=3, session=os.getsid(0) == os.getpid())
        case "waits":
            stopped = threading.Event()
            on_stop(stopped.set)
            say(progress="waits")
            stopped.wait()
            say(stopped=True)
        case "refuses":
            raise TauError("this cannot be done; do that")
        case "breaks":
            raise ZeroDivisionError("two\nlines")
        case "dies":
            sys.stderr.write("first\nout of luck\n")
            sys.stderr.flush()
            os._exit(3)
        case "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            threading.Event().wait()


def main() -> None:
    """Be that process."""
    answer(_work)


if __name__ == "__main__":
    main()

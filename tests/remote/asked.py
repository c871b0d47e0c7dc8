"""Work of one answer, in tests: does what it is told to."""

from __future__ import annotations

import os
import sys
import threading

from tau_trainer.errors import TauError
from tau_trainer.remote.process import Parent


def work(parent: Parent) -> None:
    """Do it."""
    match parent.arguments["how"]:
        case "counts":
            sys.stdout.write("this is no answer\n")
            for i in range(3):
                parent.say("progress", {"at": i})
            parent.say("answer", {"sum": 3})
        case "waits":
            stopped = threading.Event()
            parent.listen(gone=stopped.set)
            parent.say("progress", {})
            stopped.wait()
            parent.say("answer", {"stopped": True})
        case "refuses":
            raise TauError("this cannot be done; do that")
        case "breaks":
            raise ZeroDivisionError("two\nlines")
        case "dies":
            sys.stderr.write("first\nout of luck\n")
            sys.stderr.flush()
            os._exit(3)
        case _:
            threading.Event().wait()

"""A process that says what it hears, in tests."""

from __future__ import annotations

import os
import signal
import sys
import time

from tau_trainer.errors import CheckpointError
from tau_trainer.remote import here
from tau_trainer.remote.process import Parent


def work(parent: Parent) -> None:
    """Answer until nobody speaks."""
    sys.stdout.write("this is printed\n")
    sys.stdout.flush()
    if parent.arguments.get("deaf"):
        time.sleep(1000.0)
    while True:
        kind, data, arrays = parent.hear()
        match kind:
            case "weights":
                weights = parent.newest(data)
                parent.say("weights", {"opts": weights.opts, "version": weights.read().version}, weights.read().arrays)
            case "status":
                parent.status[:] = data["numbers"]
                parent.say("status")
            case "refuse":
                raise CheckpointError("of another network")
            case "break":
                raise ZeroDivisionError("two")
            case "garble":
                assert isinstance(parent, here._PipedParent)
                parent._channel._sink.write((5).to_bytes(8, "little") + b"{{{{{")
                parent._channel._sink.flush()
            case "die":
                os.kill(os.getpid(), signal.SIGSEGV)
            case _:
                parent.say(kind, data | {"arguments": parent.arguments}, arrays)

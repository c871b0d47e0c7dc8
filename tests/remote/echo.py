"""A child that says what it hears, in tests."""

from __future__ import annotations

import sys

from tau_trainer.remote.channel import SharedBytes
from tau_trainer.remote.child import streams


def main() -> None:
    """Answer until nobody speaks."""
    source, sink = streams()
    sys.stdout.write("this is printed\n")
    sys.stdout.flush()
    for line in source:
        sink.write(bytes(SharedBytes(sys.argv[1]).view(4)) + b"\n" if line == b"memory\n" else line)
        sink.flush()


if __name__ == "__main__":
    main()

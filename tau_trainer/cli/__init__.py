"""The command line ``tau-train``: one file for each command, imported only when that command runs."""

from __future__ import annotations

TYPE_CHECKING = False  # as in the package's own
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``tau-train`` with ``argv`` (default: this process's arguments); returns the exit code.

    Ctrl-C is handled from the start, before anything else is loaded.
    """
    from tau_trainer.cli.interrupts import Interrupts

    interrupts = Interrupts(whole=argv is None)
    try:
        from tau_trainer.cli.entry import run

        return run(argv)
    except KeyboardInterrupt:
        return interrupts.stop()
    finally:
        interrupts.end()

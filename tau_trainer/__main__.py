"""``python -m tau_trainer`` is ``tau-train``."""

from __future__ import annotations

import sys

from tau_trainer.cli import main

if __name__ == "__main__":
    sys.exit(main())

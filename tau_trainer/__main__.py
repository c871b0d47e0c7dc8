"""``python -m tau_trainer`` is ``tau-train``."""

import sys

from tau_trainer.cli import main

if __name__ == "__main__":
    sys.exit(main())

from __future__ import annotations

import subprocess
import sys

from tests.waiting import HANG_S


def test_the_package_itself_loads_no_numpy() -> None:
    """Else `python -m tau_trainer.headless` could not say how many threads numpy shall use."""
    code = "import sys, tau_trainer.headless; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout.strip() == "False"

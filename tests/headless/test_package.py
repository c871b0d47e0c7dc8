from __future__ import annotations

import subprocess
import sys

import pytest

import tau_trainer.headless


@pytest.mark.parametrize("name", tau_trainer.headless.__all__)
def test_public_names_can_be_imported(name: str) -> None:
    assert getattr(tau_trainer.headless, name) is not None


def test_other_names_cannot() -> None:
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = tau_trainer.headless.nothing_here


def test_the_package_itself_loads_no_numpy() -> None:
    """Else `python -m tau_trainer.headless` could not say how many threads numpy shall use."""
    code = "import sys, tau_trainer.headless; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "False"

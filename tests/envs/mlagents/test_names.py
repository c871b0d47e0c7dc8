"""The names, from wherever they may be had."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tau_trainer.envs
import tau_trainer.envs.mlagents


def test_every_name_can_be_had_from_both_packages() -> None:
    for name in tau_trainer.envs.mlagents.__all__:
        value = getattr(tau_trainer.envs.mlagents, name)
        if name == "__version__":
            assert value == "1.1.0"
        else:
            assert getattr(tau_trainer.envs, name) is value
    for package in (tau_trainer.envs, tau_trainer.envs.mlagents):
        with pytest.raises(AttributeError, match="has no attribute 'Unity'"):
            _ = package.Unity


def test_nothing_that_takes_long_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, tau_trainer.envs; from tau_trainer.envs import ActionTuple, StatsSideChannel\n"
        "print([name for name in ('gymnasium', 'pettingzoo', 'pydantic', 'torch', 'yaml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

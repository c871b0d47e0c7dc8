"""Processes are forked by a server of this test run's, whatever other tests have left in the environment."""

from __future__ import annotations

import os

import pytest

from tau_trainer.remote import forking


@pytest.fixture(autouse=True)
def _the_server_suits() -> None:
    """One that was started with other variables would fork nothing."""
    if forking._server is not None and not forking._server.suits({"OPENBLAS_NUM_THREADS": "1", **os.environ}):
        forking.close()

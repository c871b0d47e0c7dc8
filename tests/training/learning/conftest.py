"""Learners on the hub and the threads of a test."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tau_trainer.metrics import MetricsHub
from tests.training.learners import make_learner
from tests.training.learning.learning import Make


@pytest.fixture
def make(hub: MetricsHub, executor: ThreadPoolExecutor) -> Make:
    return partial(make_learner, hub, executor, summary_freq=32, checkpoint_interval=64)

"""Learners on the hub and the threads of a test."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tau_trainer.metrics import MetricsHub
from tests.training.learners import make_learner, make_loop
from tests.training.learning.learning import Make, MakeLoop


@pytest.fixture
def make(hub: MetricsHub) -> Make:
    return partial(make_learner, hub, summary_freq=32, checkpoint_interval=64)


@pytest.fixture
def make_one(hub: MetricsHub, executor: ThreadPoolExecutor) -> MakeLoop:
    return partial(make_loop, hub, executor, summary_freq=32, checkpoint_interval=64)

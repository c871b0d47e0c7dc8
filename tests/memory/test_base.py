from __future__ import annotations

import json

import numpy as np

from tau_trainer.memory import Work


def test_work_is_the_same_in_another_process() -> None:
    """Numbers go as JSON, arrays beside them; what is asked for goes along."""
    data = {"row": np.arange(3), "horizon": 7}
    work = Work(data, source=2, gradient_steps=0, anew=True)
    facts, arrays = work.sent()
    there = Work.received(json.loads(json.dumps(facts)), arrays)
    assert (there.source, there.gradient_steps, there.anew) == (2, 0, True)
    assert dict(there) == dict(work) == data
    assert Work.received(*Work({}).sent()).gradient_steps is None


def test_plain_data_is_work_that_asks_for_nothing() -> None:
    data = {"horizon": 7}
    assert (Work.of(data).source, Work.of(data).gradient_steps, Work.of(data)["horizon"]) == (0, None, 7)
    work = Work(data, source=1)
    assert Work.of(work) is work

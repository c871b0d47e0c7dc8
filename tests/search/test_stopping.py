from __future__ import annotations

from tau_trainer.search.stopping import Stoppable


def test_a_part_ends_with_the_whole_in_whichever_order() -> None:
    whole = Stoppable()
    first = whole.running(Stoppable())
    assert not first.stopped
    second = whole.running(Stoppable())
    whole.stop()
    assert whole.stopped
    assert second.stopped
    assert not first.stopped, "it ran before"
    assert whole.running(Stoppable()).stopped, "it was asked to end before this part was made"

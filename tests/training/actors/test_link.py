"""When another process takes the place of an actor's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from tau_trainer.errors import ActorError, EngineExitedError, PortInUseError
from tau_trainer.training.actors.link import ActorContext, ActorProcess


def test_an_environment_that_dies_early_is_tried_again_where_another_has_played() -> None:
    status = np.zeros((3, 4), np.int64)
    context = ActorContext.__new__(ActorContext)
    context.place, context._played = cast(Any, SimpleNamespace(status=status)), False
    actor = ActorProcess.__new__(ActorProcess)
    actor.index, actor._context = 1, context
    died = EngineExitedError("engine 1 ended while it should answer the handshake")
    assert not actor.replaceable(died), "nobody knows whether this build works"
    assert actor.replaceable(ActorError("actor 1 ended"))
    status[0, 0] = 5
    assert actor.replaceable(died)
    assert not actor.replaceable(PortInUseError("port 5006 is taken"))
    status[:] = 0
    assert actor.replaceable(died), "the process that has played may have been replaced since"
    status[1, 0] = 3
    assert not actor.replaceable(died), "it had a budget of its own, and has spent it"

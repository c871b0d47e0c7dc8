"""What groups have played, and what their reader makes of it."""

from __future__ import annotations

from typing import Any

import torch

from tau_trainer.algorithms.groups import GroupReader
from tau_trainer.algorithms.poca import POCA
from tau_trainer.memory import Rollout
from tau_trainer.specs import ActionSpec
from tests.algorithms.experience import behavior
from tests.algorithms.grouped import AGENTS, Decided, History, poca

ALWAYS = [(["asks"] * AGENTS, [1, 1, 1, 2, 2, 0])]


FORGETS = {"memory": {"memory_size": 4, "sequence_length": 3}}


DYING = [(["dies", "asks", "cut", "asks", "dies and asks", "asks"], [1, 1, 1, 2, 2, 0])]


def played(kind: type[POCA], actions: ActionSpec, messages: Any, **options: Any) -> tuple[POCA, History, Any]:
    learner = poca(behavior(actions, *options.pop("more", ())), kind, **options)
    with torch.no_grad():  # what begins at zero says nothing
        for parameter in learner.network.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(parameter))))
    history = History(learner, learner.snapshot())
    return learner, history, history.play(messages)


@torch.no_grad()
def read(learner: POCA, work: Any) -> tuple[GroupReader, Any, Any, Any, Any]:
    """The reader, its samples, what the critic says of them, and advantages and returns."""
    reader = learner.read(Rollout(work))
    assert isinstance(reader, GroupReader)
    learner.policy_update._reader = reader
    samples = reader.samples(learner.network)
    values = learner.policy_update.values(samples.inputs)
    return reader, samples, values, *reader.advantages(values, learner.policy_update)


def records(reader: GroupReader, history: History) -> list[Decided]:
    """What was decided, as samples lie."""
    known = [record for record in history.decided if record.known]
    return [known[i] for i in reader._order]

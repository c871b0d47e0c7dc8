"""The loop: what it stores is what was played, for every policy its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from typing_extensions import override

from tau_trainer.algorithms.batched import Acted, ActorInput, TensorActor
from tau_trainer.collection.batched import UNSEEN, BatchedCollector
from tau_trainer.errors import EngineError
from tests.envs.batched.counting import Counting


class Drawn(TensorActor):
    """Draws among what is allowed; remembers what it was shown."""

    def __init__(self, seed: int) -> None:
        self.seen: list[torch.Tensor] = []
        self.present: list[torch.Tensor] = []
        self.generator = torch.Generator().manual_seed(seed)

    @override
    def act(self, seen: ActorInput, *, deterministic: bool = False) -> Acted:
        assert seen.mask is not None
        assert seen.present is not None
        self.seen.append(seen.observations)
        self.present.append(seen.present)
        drawn = torch.rand(seen.mask.shape, generator=self.generator) * seen.mask
        return Acted(drawn.argmax(dim=2), {"best": drawn.amax(dim=2)})


@pytest.mark.parametrize("shares", [{"both": (0, 1)}, {"one": (1,), "other": (0,)}], ids=["one policy", "two"])
def test_rollouts_are_what_was_played(shares: dict[str, tuple[int, ...]]) -> None:
    learners = {name: Drawn(i) for i, name in enumerate(shares)}
    env, twin = Counting(3), Counting(3)
    collector = BatchedCollector(env, {name: (learners[name], agents) for name, agents in shares.items()})
    first, second = collector.collect(7), collector.collect(5)
    assert collector.steps == 12
    observations = twin.reset()
    for part, steps in ((first, 7), (second, 5)):
        for t in range(steps):
            actions = torch.zeros(3, 2, dtype=torch.int64)
            for name, agents in shares.items():
                columns, rollout = list(agents), part[name]
                assert (rollout.observations[t] == observations[:, columns]).all()
                assert rollout.mask is not None
                assert (rollout.mask[t] == twin.mask[:, columns]).all()  # type: ignore[index]
                assert (rollout.present[t] == twin.state["present"][:, columns]).all()
                actions[:, columns] = rollout.actions[t]
            step = twin.step(actions)
            for name, agents in shares.items():
                columns, rollout = list(agents), part[name]
                assert rollout.final is not None
                assert (rollout.rewards[t] == step.rewards[:, columns]).all()
                assert (rollout.terminated[t] == step.terminated[:, columns]).all()
                assert (rollout.truncated[t] == step.truncated[:, columns]).all()
                assert (rollout.final[t] == step.final_observations[:, columns]).all()
            observations = step.observations
        for name, agents in shares.items():
            assert (part[name].after == observations[:, list(agents)]).all()
            assert len(part[name]) == steps * 3 * len(agents)
            begin = 0 if part is first else 7
            assert (part[name].present == torch.stack(learners[name].present[begin : begin + steps])).all()
            assert part[name].kept["best"].shape == (steps, 3, len(agents))


def test_no_final_observations_where_nothing_is_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "truncates", False)
    rollout = BatchedCollector(Counting(2), {"all": (Drawn(0), (0, 1))}).collect(3)["all"]
    assert rollout.final is None


def test_scores_are_of_the_episodes_that_ended() -> None:
    collector = BatchedCollector(Counting(4, limit=3), {"all": (Drawn(0), (0, 1))})
    rollout = collector.collect(20)["all"]
    wanted, returns = torch.zeros(2, 4), [list[float](), list[float]()]
    for copy in range(4):
        for agent in range(2):
            total = length = 0.0
            for t in range(20):
                total += float(rollout.rewards[t, copy, agent])
                length += float(rollout.present[t, copy, agent])
                if rollout.terminated[t, copy, agent] or rollout.truncated[t, copy, agent]:
                    wanted[agent] += torch.tensor([1.0, total, total**2, length])
                    returns[agent].append(total)
                    total = length = 0.0
    assert wanted[:, 0].min() > 3.0
    assert collector.scores.take().tolist() == wanted.tolist()
    assert collector.scores.take().tolist() == [[0.0] * 4] * 2
    assert collector.scores.take_extremes().T.tolist() == [[min(ended), -max(ended)] for ended in returns]
    assert len({*returns[0]}) > 2
    assert collector.scores.take_extremes().tolist() == [[UNSEEN] * 2] * 2


def test_another_goes_on_where_one_stood() -> None:
    learners = [Drawn(0), Drawn(0)]
    one, other = (BatchedCollector(Counting(3), {"all": (learner, (0, 1))}) for learner in learners)
    one.collect(7)
    learners[1].generator.set_state(learners[0].generator.get_state())
    state = {name: values.clone() for name, values in one.scores.state().items()}
    other.go_on(one.steps, dict(one._env.state), state)
    rollouts = [collector.collect(9)["all"] for collector in (one, other)]
    assert torch.equal(rollouts[0].observations, rollouts[1].observations)
    assert torch.equal(rollouts[0].actions, rollouts[1].actions)
    assert torch.equal(one.scores.take(), other.scores.take())
    assert torch.equal(one.scores.take_extremes(), other.scores.take_extremes())
    assert one.steps == other.steps == 16


def test_only_what_is_kept_is_stored() -> None:
    learners = {"one": (Drawn(0), (0,)), "other": (Drawn(1), (1,))}
    assert BatchedCollector(Counting(3), learners, kept=["other"]).collect(2).keys() == {"other"}


class Failing(Counting):
    """Raises at its third step."""

    def advance(self, state: Any, actions: torch.Tensor, draws: Any) -> Any:
        if int(state["step"].max()) == 3:
            raise self.error
        return super().advance(state, actions, draws)

    error: Exception = ValueError("no board")


def test_what_an_authors_environment_raises_is_said_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = BatchedCollector(Failing(3), {"both": (Drawn(0), (0, 1))})
    with pytest.raises(
        EngineError, match=r"^environment Failing failed: ValueError: no board \(in advance, test_batched"
    ):
        collector.collect(4)
    full = MemoryError()
    monkeypatch.setattr(Failing, "error", full)
    with pytest.raises(MemoryError):
        BatchedCollector(Failing(3), {"both": (Drawn(0), (0, 1))}).collect(4)

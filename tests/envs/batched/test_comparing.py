"""Two implementations of one game: the first difference is named, by step, copy, agent, quantity and both values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tau_trainer.envs.batched import Draws, Outcome, State
from tau_trainer.envs.batched.checking import compared
from tau_trainer.envs.batched.comparing import Difference, compare, sampled
from tests.envs.batched.counting import Counting

GAME: dict[str, Any] = {"steps": 40, "seed": 0, "tolerance": 1e-4}


class CountingTwin:
    """As Counting, in plain numpy; ``wrong`` says in what it errs."""

    def __init__(self, *, limit: int = 6, wrong: str = "") -> None:
        self.limit, self.wrong = limit, wrong

    def advance(self, state: dict[str, Any], actions: Any) -> Any:
        total = state["sum"] + (actions * state["present"]).sum()
        over = (total >= 10) | (actions == 2)
        rewards = actions.astype(np.float32)
        late = np.full(2, state["step"] >= self.limit)
        if self.wrong == "rewards":
            rewards[1] += 0.5 * (state["step"] == 3)
        if self.wrong == "terminated":
            over = (total >= 11) | (actions == 2)
        if self.wrong == "truncated":
            late |= state["step"] >= self.limit - 1
        if self.wrong == "sum":
            total = total + (actions[0] == 2)
        return {"sum": total}, rewards, over, late

    def observe(self, state: dict[str, Any]) -> Any:
        right = state["step"] if self.wrong != "observations" else state["step"] * 2
        return np.array([[state["sum"], state["step"]], [state["sum"], right]], np.float32)


class Shifted(Counting):
    """Differs where ``wrong`` says so."""

    def __init__(self, num_envs: int, *, wrong: str = "", more: bool = False, **options: Any) -> None:
        super().__init__(num_envs, **options)
        self.wrong, self.more = wrong, more

    def begin(self, draws: Draws) -> State:
        return super().begin(draws) | ({"more": draws.integers(5, 0, 3)} if self.more else {})

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        found = super().advance(state, actions, draws)
        if self.wrong == "sum":
            found = found._replace(state={"sum": found.state["sum"] + (state["step"] == 2)})
        if self.wrong == "raises" and self.wrong:
            raise ValueError("no")
        return found

    def allowed(self, state: State) -> torch.Tensor:
        wanted = super().allowed(state)
        return ~wanted if self.wrong == "allowed" else wanted


def test_equal_games_do_not_differ() -> None:
    assert compare(Counting(4), CountingTwin(), **GAME) is None
    assert compare(Counting(4, limit=3), CountingTwin(limit=3), **GAME) is None
    assert compare(Counting(4), Counting(4), **GAME) is None
    assert compare(Counting(4, starts="pool", pool=3), Counting(4, starts="pool", pool=3), **GAME) is None
    assert compare(Counting(4), Shifted(4, more=True), **GAME) is None, "from its own states"


@pytest.mark.parametrize(
    ("wrong", "step", "agent", "quantity"),
    [
        ("rewards", 3, "right", "rewards"),
        ("terminated", None, None, "terminated"),
        ("truncated", 5, None, "truncated"),
        ("observations", 1, "right", "final_observations"),
    ],
)
def test_the_first_difference_to_a_twin(wrong: str, step: int | None, agent: str | None, quantity: str) -> None:
    found = compare(Counting(4), CountingTwin(wrong=wrong), **GAME)
    assert found is not None
    assert found.quantity == quantity
    assert step is None or found.step == step
    assert agent is None or found.agent == agent
    if wrong == "rewards":
        assert found.values[1] == found.values[0] + 0.5
        assert compare(Counting(4), CountingTwin(wrong=wrong), **GAME | {"tolerance": 0.6}) is None


def test_a_state_that_differs_is_found_where_observations_do_not_show_it() -> None:
    class Blind(CountingTwin):
        def observe(self, state: dict[str, Any]) -> Any:
            return CountingTwin().observe(state | {"sum": state["sum"] * 0})

    class Hidden(Counting):
        def observe(self, state: State) -> torch.Tensor:
            return super().observe(state | {"sum": state["sum"] * 0})

    found = compare(Hidden(4), Blind(wrong="sum"), **GAME)
    assert found is not None
    assert (found.quantity, found.agent) == ("state['sum']", None)
    assert found.values[1] == found.values[0] + 1


def test_the_first_difference_to_another_environment() -> None:
    found = compare(Counting(4), Shifted(4, wrong="sum"), **GAME)
    assert found is not None
    assert found.step == 2
    assert found.values[1] == found.values[0] + 1
    masked = compare(Counting(4), Shifted(4, wrong="allowed"), **GAME)
    assert masked is not None
    assert (masked.step, masked.quantity, masked.agent, masked.place) == (1, "allowed", "left", (0,))
    begun = compare(Counting(4, seed=1), Counting(4, seed=2), **GAME)
    assert begun is not None
    assert (begun.step, begun.quantity) == (0, "observations")


class Growing(Counting):
    """Its state grows a little faster, or slower, in every step."""

    def __init__(self, num_envs: int, *, rate: float, **options: Any) -> None:
        super().__init__(num_envs, limit=100, **options)
        self.rate = rate

    def begin(self, draws: Draws) -> State:
        return {"sum": draws.integers(0, 0, 1), "size": draws.uniform(0, low=100.0, high=101.0)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        found = super().advance(state, actions * 0, draws)
        return found._replace(state=found.state | {"size": state["size"] * self.rate})


def test_each_step_begins_where_the_first_stands_so_that_rounding_does_not_add_up() -> None:
    assert compare(Growing(3, rate=1.0), Growing(3, rate=1.00003), **GAME) is None
    found = compare(Growing(3, rate=1.0), Growing(3, rate=1.0003), **GAME)
    assert found is not None
    assert (found.step, found.quantity) == (1, "state['size']")


def test_a_difference_is_one_sentence() -> None:
    of_agent = Difference(3, 1, "left", "rewards", (), (1.0, 2.5))
    assert of_agent.sentence("here", "in x") == "step 3, copy 1, agent left: rewards is 1 here and 2.5 in x"
    of_copy = Difference(3, 1, None, "state['sum']", (4, 0), (1.0, float("nan")))
    assert of_copy.sentence("here", "in x") == "step 3, copy 1: state['sum'][4, 0] is 1 here and nan in x"


def test_what_cannot_be_compared_is_told() -> None:
    assert compared(Counting(2), Counting(2), name="it", **GAME) == []
    raising = compared(Counting(2), Shifted(2, wrong="raises"), name="it", **GAME)
    assert len(raising) == 1
    assert raising[0].startswith("it raises ValueError: no (test_comparing.py:")
    other = Counting(2)
    other.action_space = spaces.Discrete(4)
    assert compared(Counting(2), other, name="it", **GAME) == ["action_space is Discrete(3) here and Discrete(4) in it"]
    shaped = Counting(2)
    shaped.observe = lambda state: Counting.observe(shaped, state)[:, :, None]  # type: ignore[method-assign]
    (text,) = compared(Counting(2), shaped, name="it", **GAME)
    assert text == "step 0, copy 0: the number of dimensions or rows of observations is 3 here and 4 in it"


@pytest.mark.parametrize(
    "space", [spaces.Discrete(5), spaces.MultiDiscrete([2, 3]), spaces.Box(np.array([-1, 5], np.float32), 6.0, (2,))]
)
def test_actions_are_drawn_evenly_from_the_whole_space(space: Any) -> None:
    env = Counting(400)
    env.action_space = space
    actions = sampled(env, None, torch.Generator().manual_seed(0))
    assert actions.dtype == (torch.float32 if isinstance(space, spaces.Box) else torch.int64)
    assert actions.shape == (400, 2, *space.shape)
    flat = actions.flatten(0, 1).numpy()
    assert all(one in space for one in flat)
    if isinstance(space, spaces.Box):
        assert (np.ptp(flat, axis=0) > [6.8, 0.98]).all()
    else:
        sizes = [5] if isinstance(space, spaces.Discrete) else [2, 3]
        for size, column in zip(sizes, flat.reshape(800, -1).T, strict=True):
            assert np.bincount(column, minlength=size).min() > 0.75 * 800 / size


def test_only_what_is_allowed_is_drawn() -> None:
    env = Counting(400)
    mask = torch.tensor([True, False, True]).expand(400, 2, 3)
    assert set(sampled(env, mask, torch.Generator().manual_seed(0)).flatten().tolist()) == {0, 2}


@pytest.mark.gpu
def test_the_cpu_and_the_gpu_play_the_same() -> None:
    from tau_trainer.envs.batched import registry

    for name in ("cartpole", "acrobot", "mountain_car", "mountain_car_continuous", "pendulum", "tau"):
        pair = [registry.make(name, 8, seed=1, device=device) for device in ("cpu", "cuda")]
        assert compare(*pair, steps=200, seed=0, tolerance=1e-4) is None

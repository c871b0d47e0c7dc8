"""From outputs to actions: samples follow their distribution, and environments get what their spaces say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tau_trainer.algorithms.batched.acting import ActionSpace, Drawn, ToEnv, draw, inputs_of, noise_of, spec_of
from tau_trainer.envs.spaces import arrays
from tau_trainer.errors import SettingsError
from tau_trainer.models import ActorCritic
from tau_trainer.models.distributions import forbidden_of
from tau_trainer.settings import NetworkSettings
from tau_trainer.specs import ActionSpec

SEEN = spaces.Box(-1.0, 1.0, (2, 3), np.float32)


def network(space: ActionSpace, levels: int | None = None) -> ActorCritic:
    settings = NetworkSettings(hidden_units=4, num_layers=1, action_levels=levels)
    return ActorCritic(
        spec_of("p", SEEN, space), settings, {"extrinsic": 1}, generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *((np.uint8, shape) for shape in ((6, 7, 2), (2, 6, 7), (7, 7, 9), (5, 6), (4, 4, 4), (9,))),
        *((np.float32, shape) for shape in ((6, 7, 2), (2, 6, 7), (5, 6), (4, 4, 2), (8, 8, 8))),
        *((np.int64, shape) for shape in ((6, 7, 2), (3,))),
    ],
)
def test_a_network_sees_what_it_would_see_of_any_other_environment(dtype: type, shape: tuple[int, ...]) -> None:
    box = spaces.Box(0, 200, shape, dtype)
    spec = spec_of("p", box, spaces.Discrete(2))
    settings = NetworkSettings(hidden_units=4, num_layers=1, vis_encode_type="fully_connected")
    network = ActorCritic(spec, settings, {"extrinsic": 1}, generator=torch.Generator().manual_seed(0))
    rows = np.stack([box.sample() for _ in range(3)])
    (wanted,) = arrays(box, rows)
    assert wanted.shape == (3, *spec.observations[0].shape)
    found = inputs_of(torch.from_numpy(rows))
    for got, known in zip(network.normalize(found), network.prepare((wanted,)), strict=True):
        assert got.dtype == known.dtype
        assert torch.equal(got, known)
    assert found[-1].dtype == (torch.uint8 if dtype is np.uint8 and len(shape) > 1 else torch.float32)


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        (spaces.Box(0, 9, (2,), np.int64), "are whole numbers; use Discrete or MultiDiscrete"),
        (spaces.Box(-np.inf, np.inf, (2,)), "have no bounds; give the Box a low and a high"),
        (spaces.Discrete(3, start=1), "start at 1; let them start at 0"),
        (spaces.MultiBinary(3), "are neither Discrete, MultiDiscrete nor a Box"),
    ],
)
def test_actions_that_no_network_has_are_refused(space: ActionSpace, sentence: str) -> None:
    with pytest.raises(SettingsError, match="policy 'p': its actions ") as error:
        spec_of("p", SEEN, space)
    assert sentence in str(error.value)


def test_what_sees_nothing_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"^policy 'p': its observations Box\(.*\) have size 0, so there is nothing"
    ):
        spec_of("p", spaces.Box(-1, 1, (0,)), spaces.Discrete(2))


def test_branches_are_drawn_as_likely_as_they_are() -> None:
    head = network(spaces.MultiDiscrete([3, 2])).action
    probabilities = torch.tensor([0.6, 0.3, 0.1, 0.25, 0.75])
    rows, generator = 20000, torch.Generator().manual_seed(4)
    drawn = draw(head, probabilities.log().expand(rows, 5), None, noise_of(head, rows, generator))
    for branch, (begin, end) in enumerate(((0, 3), (3, 5))):
        share = torch.bincount(drawn.discrete[:, branch], minlength=end - begin) / rows
        np.testing.assert_allclose(share, probabilities[begin:end], rtol=0.1)
        wanted = probabilities[begin:end].log()[drawn.discrete[:, branch]]
        torch.testing.assert_close(drawn.log_prob[:, branch], wanted)
    both = (drawn.discrete[:, 0] == 0) & (drawn.discrete[:, 1] == 0)
    assert float(both.float().mean()) == pytest.approx(0.6 * 0.25, rel=0.1)
    best = draw(head, probabilities.log().expand(1, 5), None, None)
    assert best.discrete.tolist() == [[0, 1]]


def test_what_is_forbidden_is_never_drawn() -> None:
    head = network(spaces.MultiDiscrete([3, 2])).action
    mask = torch.tensor([[True, False, True, False, False]]).expand(5000, 5)
    forbidden = forbidden_of(mask, (3, 2))
    assert forbidden[0].tolist() == [False, True, False, False, False]  # a branch that allows nothing is free
    outputs = torch.tensor([[0.0, 9.0, 0.0, 0.0, 0.0]]).expand(5000, 5)
    drawn = draw(head, outputs, forbidden, noise_of(head, 5000, torch.Generator().manual_seed(1)))
    assert torch.bincount(drawn.discrete[:, 0]).tolist()[1] == 0
    assert set(drawn.discrete[:, 1].tolist()) == {0, 1}
    assert float(drawn.log_prob[0, 0].exp()) == pytest.approx(0.5)
    others = forbidden_of(torch.tensor([[False, True, False, True, False]]), (3, 2))
    for least_and_most in (torch.zeros(1, 2), torch.full((1, 2), 1.0 - 2.0**-24)):
        assert draw(head, outputs[:1], others, least_and_most).discrete.tolist() == [[1, 0]]


def test_gaussians_have_their_width() -> None:
    head = network(spaces.Box(-1.0, 1.0, (2,), np.float32)).action
    with torch.no_grad():
        head.log_sigma.copy_(torch.tensor([0.0, -1.0]))
        outputs = torch.tensor([[1.0, -2.0]]).expand(50000, 2)
        drawn = draw(head, outputs, None, noise_of(head, 50000, torch.Generator().manual_seed(1)))
        assert torch.equal(draw(head, outputs, None, None).continuous, outputs)
    np.testing.assert_allclose(drawn.continuous.mean(dim=0), [1.0, -2.0], atol=0.02)
    np.testing.assert_allclose(drawn.continuous.std(dim=0), [1.0, np.exp(-1.0)], rtol=0.02)


def test_whoever_moves_and_chooses_has_numbers_for_each() -> None:
    spec = replace(spec_of("p", SEEN, spaces.Discrete(2)), actions=ActionSpec(2, (4,)))
    settings = NetworkSettings(hidden_units=4, num_layers=1)
    head = ActorCritic(spec, settings, {"extrinsic": 1}, generator=torch.Generator()).action
    assert noise_of(head, 7, torch.Generator().manual_seed(0)).shape == (7, 3)
    with torch.no_grad():
        head.log_sigma.zero_()
        drawn = draw(head, torch.zeros(1, 6), None, torch.tensor([[-2.0, 0.0, 0.6]]))
    assert drawn.continuous.tolist() == [[-2.0, 0.0]]
    assert drawn.discrete.tolist() == [[2]]


def test_boxes_get_their_own_bounds() -> None:
    box = spaces.Box(np.array([-1.0, 2.0], np.float32), np.array([1.0, 6.0], np.float32))
    to_env = ToEnv(box, network(box).action, torch.device("cpu"))
    nothing = torch.zeros(4, 0, dtype=torch.int64)
    raw = torch.tensor([[0.0, 0.0], [3.0, -3.0], [9.0, -9.0], [1.5, 1.5]])
    wanted = [[0.0, 4.0], [1.0, 2.0], [1.0, 2.0], [0.5, 5.0]]
    assert to_env(Drawn(raw, nothing, raw), 2, 2).tolist() == [wanted[:2], wanted[2:]]


def test_levels_are_spread_over_the_bounds() -> None:
    box = spaces.Box(2.0, 6.0, (1,), np.float32)
    to_env = ToEnv(box, network(box, levels=5).action, torch.device("cpu"))
    level = torch.arange(5)[:, None]
    assert to_env(Drawn(torch.zeros(5, 0), level, torch.zeros(5, 1)), 5, 1).flatten().tolist() == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(("space", "shape"), [(spaces.Discrete(3), (2, 3)), (spaces.MultiDiscrete([2, 2]), (2, 3, 2))])
def test_choices_keep_the_shape_of_their_space(space: ActionSpace, shape: tuple[int, ...]) -> None:
    branches = 1 if isinstance(space, spaces.Discrete) else 2
    chosen = torch.arange(6 * branches).view(6, branches)
    drawn = Drawn(torch.zeros(6, 0), chosen, torch.zeros(6, branches))
    found = ToEnv(space, network(space).action, torch.device("cpu"))(drawn, 2, 3)
    assert found.shape == shape
    assert found.flatten().tolist() == list(range(6 * branches))

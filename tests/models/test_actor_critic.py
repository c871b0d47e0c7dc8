from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.errors import SettingsError
from tau_trainer.models import ActorCritic
from tau_trainer.models.blocks import Past
from tau_trainer.settings import MemorySettings, NetworkSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec, ObservationType
from tests.networks import IMAGE, LIST, make_network, observations, unplug

HYBRID = ActionSpec(2, (3, 4))
FIRST, SECOND = ObservationSpec("first", (3,)), ObservationSpec("second", (2,))
VECTORS = BehaviorSpec("Walker", (FIRST, SECOND), HYBRID)
ALL = BehaviorSpec("Walker", (FIRST, IMAGE, SECOND, LIST), HYBRID)
CONDITIONED = BehaviorSpec(
    "Walker", (FIRST, IMAGE, ObservationSpec("goal", (2,), (), ObservationType.GOAL_SIGNAL)), HYBRID
)
MEMORY = MemorySettings(memory_size=6)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_forward_equals_plain_layers(layers: int, normalize: bool, shared: bool) -> None:
    network = make_network(
        VECTORS, streams={"extrinsic": 6, "more": 1}, shared_critic=shared, num_layers=layers, normalize=normalize
    )
    obs, p = observations(VECTORS, 6), dict(network.named_parameters())
    x = torch.from_numpy(np.concatenate(obs, axis=1))
    if network.normalizer is not None:
        x = ((x.double() - network.normalizer.mean) / network.normalizer.std).clamp(-5, 5).float()
    hidden = [x, x]
    for layer in range(layers):
        weight, bias = p[f"body.{layer}.weight"], p[f"body.{layer}.bias"]
        for tower in range(2):
            z = hidden[tower] @ weight[-tower] + bias[-tower, 0]
            hidden[tower] = z * torch.sigmoid(z)
    answer = network(network.prepare(obs))
    torch.testing.assert_close(answer.outputs, hidden[0] @ p["action.weight"] + p["action.bias"])
    torch.testing.assert_close(answer.values, hidden[1] @ p["value.weight"] + p["value.bias"])
    assert (answer.outputs.shape, answer.values.shape) == ((6, 2 + 7), (6, 7))
    assert answer.state.shape == (6, network.towers, 0)
    assert network.plain
    assert network.state_columns == ()


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("shared", [False, True])
def test_actor_and_critic_have_encoders_and_memories_of_their_own(shared: bool) -> None:
    network = make_network(ALL, shared_critic=shared, memory=MEMORY)
    towers = 1 if shared else 2
    (column,) = network.state_columns
    assert (column.name, column.shape) == ("memory", (towers, 6))
    assert not network.plain
    inputs = network.prepare(observations(ALL, 4))
    state = torch.randn(4, towers, 6)
    answer = network(inputs, Past(state))
    for tower, answered in ((0, network.outputs), (-1, network.values)):
        encoder: Any = network.encoders[tower]
        memory: Any = network.memories[tower]
        seen = torch.cat([inputs[0], encoder.images[0](inputs[1])], dim=1)
        features = torch.cat([seen, encoder.lists([inputs[2]], seen)], dim=1)
        x, after = memory(network.body(features, tower), state[:, tower])
        head = network.action if tower == 0 else network.value
        torch.testing.assert_close(answered(inputs, Past(state)), head(x))
        torch.testing.assert_close(answer.state[:, tower], after)
    torch.testing.assert_close(answer.outputs, network.outputs(inputs, Past(state)))
    torch.testing.assert_close(answer.values, network.values(inputs, Past(state)))
    if not shared:
        assert not torch.equal(answer.state[:, 0], answer.state[:, 1])


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("shared", [False, True])
def test_a_goal_makes_the_weights_of_the_last_hidden_layer(shared: bool) -> None:
    network = make_network(CONDITIONED, shared_critic=shared, num_layers=3)
    inputs = network.prepare(observations(CONDITIONED, 4))
    answer = network(inputs)
    for tower, answered, head in ((0, answer.outputs, network.action), (-1, answer.values, network.value)):
        encoder: Any = network.encoders[tower]
        features, goal = encoder(inputs)
        torch.testing.assert_close(goal, inputs[0][:, 3:])
        assert network.normalizer is not None
        assert network.normalizer.mean.shape == (5,), "a goal's numbers are normalised as well"
        assert network.hyper is not None
        assert len(network.body) == 2
        torch.testing.assert_close(answered, head(network.hyper(network.body(features, tower), goal, tower)))
    assert not network.plain


@pytest.mark.usefixtures("toys")
def test_no_state_means_the_beginning_of_an_episode() -> None:
    network = make_network(VECTORS, memory=MEMORY)
    inputs = network.prepare(observations(VECTORS, 4))
    first, second = network(inputs), network(inputs, Past(torch.zeros(4, 2, 6)))
    assert torch.equal(first.outputs, second.outputs)
    assert torch.equal(first.state, second.state)
    assert not torch.equal(first.outputs, network(inputs, Past(first.state)).outputs)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vectors_are_joined_in_order_and_the_rest_stays_as_it_is(dtype: torch.dtype) -> None:
    network = make_network(ALL, normalize=False).to(dtype)
    obs = observations(ALL, 4)
    vectors, image, entities = network.prepare(obs)
    assert vectors.tolist() == np.concatenate((obs[0], obs[2]), axis=1).tolist()
    assert (vectors.dtype, image.dtype, entities.dtype) == (dtype, torch.uint8, dtype)
    assert (image.tolist(), entities.tolist()) == (obs[1].tolist(), obs[3].tolist())
    assert network([vectors, image, entities]).outputs.dtype == dtype


def test_a_hidden_sensor_is_not_seen() -> None:
    sensors = ObservationSpec("a", (2,)), ObservationSpec("kept", (3,), hidden=True), ObservationSpec("b", (1,))
    network = make_network(BehaviorSpec("B", sensors, ActionSpec(1)))
    obs = observations(network.spec, 4)
    np.testing.assert_array_equal(network.vectors(obs), np.concatenate((obs[0], obs[2]), axis=1))
    assert len(network.arrange(obs)) == 1
    assert [network.part_of(0), network.part_of(2)] == [slice(0, 2), slice(2, 3)]
    with pytest.raises(ValueError, match="1 is not in list"):
        network.part_of(1)


def test_read_only_observations_are_taken_without_a_warning() -> None:
    network, obs = make_network(VECTORS), observations(VECTORS, 3)
    for values in obs:
        values.flags.writeable = False
    single = make_network(BehaviorSpec("Walker", (FIRST,), HYBRID), normalize=False)
    assert network.prepare(obs)[0].shape == (3, 5)
    single.prepare(obs[:1])[0].zero_()
    assert obs[0].any(), "read-only memory is not written to"


@pytest.mark.usefixtures("toys")
def test_initial_weights_follow_the_generator_alone() -> None:
    def made(seed: int) -> dict[str, torch.Tensor]:
        torch.rand(seed)  # torch's own random numbers do not matter
        settings = NetworkSettings(memory=MEMORY)
        return ActorCritic(
            ALL, settings, {"extrinsic": 1}, generator=torch.Generator().manual_seed(seed % 10)
        ).state_dict()

    first, again, other = made(1), made(11), made(2)
    drawn = [name for name, tensor in first.items() if tensor.any()]
    assert {"encoders.0.images.0.layer.weight", "encoders.1.lists.layers.0.weight", "memories.1.kept.weight"} <= set(
        drawn
    )
    for name in drawn:
        assert torch.equal(first[name], again[name]), name
        assert not torch.equal(first[name], other[name]), name


def test_biases_widths_and_values_begin_at_zero() -> None:
    network = ActorCritic(VECTORS, NetworkSettings(), {"extrinsic": 1}, generator=torch.Generator().manual_seed(0))
    zero = {name for name, parameter in network.named_parameters() if not parameter.any()}
    assert zero == {"body.0.bias", "body.1.bias", "action.bias", "action.log_sigma", "value.weight", "value.bias"}


def test_what_this_version_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    unplug(monkeypatch)
    with pytest.raises(SettingsError, match="'lstm' is not one of the memories"):
        make_network(VECTORS, memory=MEMORY)

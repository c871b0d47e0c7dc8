"""Hidden layers by hironaka's grammar: what it expands to, what they compute, and what a model file holds of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tau_trainer.errors import SettingsError
from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.heads import Acting
from tau_trainer.models.net_arch import BatchNorm, Dense, NetArch, ResidualLayers
from tau_trainer.settings import NetworkSettings
from tau_trainer.settings.networks import expanded
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.models.graphs import run_graph


def read(net_arch: Any) -> Any:
    return NetworkSettings(net_arch=net_arch).net_arch


def made(net_arch: Any, *, towers: int = 2, inputs: int = 5) -> NetArch:
    generator = torch.Generator().manual_seed(0)
    body = NetArch(inputs, read(net_arch), towers, generator)
    with torch.no_grad():
        for name, one in body.named_parameters():
            if not name.endswith("weight") or "second" in name:
                one.normal_(1.0 if name.endswith("scale") else 0.0, 0.5, generator=generator)
        for name, kept in body.named_buffers():
            kept.uniform_(0.1 if name.endswith("variance") else -1.0, 2.0, generator=generator)
    return body


def textbook(layers: torch.nn.Sequential, x: torch.Tensor, parts: list[int | str], *, learning: bool) -> torch.Tensor:
    """One tower in float64, by the grammar's words."""

    def linear(layer: Dense, rows: torch.Tensor) -> torch.Tensor:
        return rows @ layer.weight.double().T + layer.bias.double()

    remaining = [layer for layer in layers if isinstance(layer, Dense | BatchNorm | ResidualLayers)]
    x = x.double()
    for index, layer in enumerate(remaining):
        if isinstance(layer, BatchNorm):
            mean = x.mean(dim=0) if learning else layer.mean.double()
            variance = x.var(dim=0, correction=0) if learning else layer.variance.double()
            x = (x - mean) / torch.sqrt(variance + 1e-5) * layer.scale.double() + layer.shift.double()
        elif isinstance(layer, ResidualLayers):
            skipped = x if layer.skip is None else linear(layer.skip, x)
            x = skipped + linear(layer.second, linear(layer.first, x).clamp(min=0))
        else:
            assert isinstance(layer, Dense)
            x = linear(layer, x)
        ends = index + 1 == len(parts) or parts[index + 1] != "b"
        if ends and any(one != "b" for one in parts[: index + 1]):
            x = x.clamp(min=0)
    assert len(remaining) == len(parts)
    return x


EACH: list[Any] = [[], ["b"], [7], [7, "b"], ["b", 7, 6], ["r5"], ["r7", "b", "r7"], [6, "b", "r6", 4, "b"]]


@pytest.mark.parametrize("net_arch", EACH, ids=str)
@pytest.mark.parametrize("tower", [0, 1])
@pytest.mark.parametrize("learning", [False, True])
def test_layers_compute_what_the_grammar_says(net_arch: Any, tower: int, learning: bool) -> None:
    body, x = made(net_arch), torch.randn(6, 5)
    layers, parts = body[tower], expanded(read(net_arch))
    assert isinstance(layers, torch.nn.Sequential)
    wanted = textbook(layers, x, parts, learning=learning)
    with torch.set_grad_enabled(learning):
        found = body(x, tower)
    torch.testing.assert_close(found.detach(), wanted.float().detach(), rtol=1e-4, atol=1e-5)
    assert body.size == wanted.shape[1]


def test_running_statistics_follow_what_is_learned_from_alone() -> None:
    norm, x = BatchNorm(3), torch.randn(50, 3) * 2 + 1
    with torch.no_grad():
        norm(x)
    assert norm.mean.tolist() == [0.0] * 3
    norm(x)
    torch.testing.assert_close(norm.mean, 0.1 * x.mean(dim=0))
    torch.testing.assert_close(norm.variance, 0.9 + 0.1 * x.var(dim=0))
    norm(x[:1])  # one row has no variance
    torch.testing.assert_close(norm.mean, 0.1 * x.mean(dim=0))


def test_towers_together_are_towers_one_by_one() -> None:
    body, x = made([6, "b", "r7"]), torch.randn(2, 4, 5, requires_grad=True)
    with torch.no_grad():
        one_by_one = torch.stack([body(x[0], 0), body(x[1], 1)])
        torch.testing.assert_close(body.together(x), one_by_one)
    body.together(x, frozen=True).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
    assert all(one.grad is None for one in body.parameters())
    body.together(x).sum().backward()  # type: ignore[no-untyped-call]
    assert all(one.grad is not None for one in body.parameters())


@pytest.mark.parametrize("net_arch", EACH, ids=str)
def test_the_graph_says_the_same(net_arch: Any) -> None:
    body, x = made(net_arch), torch.randn(6, 5)

    def write(graph: Any) -> list[str]:
        return [graph.add("Identity", [body.write(graph, "x", 1)], "out")]

    (found,) = run_graph(write, {"x": x.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(found), body(x, 1), rtol=1e-4, atol=1e-5)


def test_a_block_begins_as_what_it_skips() -> None:
    x = torch.randn(4, 6).abs()
    body = NetArch(6, ["r6", "r6"], 1, torch.Generator().manual_seed(0))
    torch.testing.assert_close(body(x, 0), x)


def test_networks_have_such_a_body() -> None:
    spec = BehaviorSpec("Agent", (ObservationSpec("x", (5,)),), ActionSpec(0, (3,)))
    generator = torch.Generator().manual_seed(0)
    network = ActorCritic(spec, NetworkSettings(net_arch=[9, "b", "r4"]), {"extrinsic": 1}, generator=generator)
    assert not network.plain
    assert network.action.weight.shape == (4, 3)
    with pytest.raises(SettingsError, match="noisy"):
        ActorCritic(spec, NetworkSettings(net_arch=[9]), {}, acting=Acting(noisy=True), generator=generator)

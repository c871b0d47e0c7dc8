"""What mlagents 1.1.0 said of small batches (``tools/mlagents_signals.py``), and its weights in our modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from tau_trainer.rewards.learned import Experience
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec

DATA = Path(__file__).parent / "data"
HYBRID = ActionSpec(2, (3, 2))
SMALL = {"hidden_units": 16, "num_layers": 2}
BODY = ("_body_endoder.seq_layers.0", "_body_endoder.seq_layers.2")
"""Its two hidden layers."""

Case = dict[str, torch.Tensor]
Layers = dict[str, list[str]]
"""Our layer, by the beginning of its parameters' names: those of the peer whose outputs are its, side by side."""


def spec_of(actions: ActionSpec) -> BehaviorSpec:
    return BehaviorSpec("Peer", (ObservationSpec("vector", (5,)),), actions)


def case_of(name: str) -> Case:
    """Everything of a case, as tensors."""
    with np.load(DATA / f"{name}.npz") as arrays:
        return {key: torch.from_numpy(arrays[key]) for key in arrays.files}


def experience_in(case: Case, side: str = "") -> Experience:
    values = {name: case[side + name] for name in ("obs", "next", "continuous", "discrete", "done")}
    forbidden = torch.zeros(len(values["obs"]), 0, dtype=torch.bool)
    actions = values["continuous"], values["discrete"], forbidden
    return Experience([values["obs"]], [values["next"]], 1.0 - values["done"], *actions, torch.zeros(0))


def layers(ours: str, theirs: str) -> Layers:
    """Both hidden layers of a network."""
    return {f"{ours}.{place}": [theirs + name] for place, name in enumerate(BODY)}


def parameters(case: Case, kind: str, named: Layers) -> dict[str, torch.Tensor]:
    """Ours by name, from its ``w`` (weights) or ``g`` (gradients); matrices lie the other way round here."""
    found: dict[str, torch.Tensor] = {}
    for layer, sources in named.items():
        found[f"{layer}.weight"] = torch.cat([case[f"{kind}.{source}.weight"] for source in sources]).T
        found[f"{layer}.bias"] = torch.cat([case[f"{kind}.{source}.bias"] for source in sources])
    return found


def take_over(module: torch.nn.Module, case: Case, named: Layers, **more: torch.Tensor) -> None:
    """Give the module the peer's weights, all of them."""
    values = parameters(case, "w", named) | more
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(values.pop(name).reshape(parameter.shape))
    assert not values


def same_gradients(module: torch.nn.Module, wanted: dict[str, torch.Tensor]) -> None:
    """The gradients that were worked out are those, of every parameter that learns."""
    left = dict(wanted)
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and parameter.grad is not None:
            same(parameter.grad, left.pop(name).reshape(parameter.shape), name)
    assert not left


def same(ours: Any, theirs: torch.Tensor, what: str = "") -> None:
    torch.testing.assert_close(
        torch.as_tensor(ours).detach().double(),
        theirs.double(),
        rtol=1e-5,
        atol=1e-5,
        msg=lambda text: f"{what}: {text}",
    )

from __future__ import annotations

import numpy as np
import pytest
import torch

from tau_trainer.models.features import Features, Readout
from tau_trainer.settings import NetworkSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType

LIST = (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)
SENSORS = (
    ObservationSpec("vector", (4,)),
    ObservationSpec("camera", (3, 6, 6), dtype=np.uint8),
    ObservationSpec("others", (5, 2), LIST),
    ObservationSpec("goal", (2,), observation_type=ObservationType.GOAL_SIGNAL),
)
SPEC = BehaviorSpec("Sees", SENSORS, ActionSpec(2))


def seen(rows: int = 6) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    vectors, lists = (torch.randn(rows, *shape, generator=generator) for shape in ((6,), (5, 2)))
    return [vectors, torch.randint(256, (rows, 3, 6, 6), dtype=torch.uint8, generator=generator), lists]


def features(beside: int = 0, **options: object) -> Features:
    given = {"hidden_units": 8, "num_layers": 2, "vis_encode_type": "match3", "memory": {}} | options
    return Features(SPEC, NetworkSettings.model_validate(given), torch.Generator().manual_seed(1), beside)


@pytest.mark.parametrize("goal", ["hyper", "none"])
def test_every_sensor_and_what_stands_beside_counts(goal: str) -> None:
    made, inputs, beside = features(3, goal_conditioning_type=goal), seen(), torch.ones(6, 3)
    before = made(made.prepare(inputs), beside)
    assert before.shape == (6, made.size) == (6, 8)
    assert bool((made.prepare(inputs)[1] == inputs[1] / 255.0).all())
    for place in range(3):
        moved = [values if place != other else values.flip(0) for other, values in enumerate(inputs)]
        assert not torch.allclose(made(made.prepare(moved), beside), before)
    assert not torch.allclose(made(made.prepare(inputs), -beside), before)
    names = [name for name, _ in made.named_parameters()]
    assert not any("lstm" in name or "memor" in name for name in names), "it sees single steps"


def test_vectors_are_normalised_where_that_is_asked_for() -> None:
    plain, made, inputs = features(), features(normalize=True), seen()
    plain.take_in(inputs[0])
    assert plain.normalizer is None
    torch.testing.assert_close(plain.prepare(inputs)[0], inputs[0])
    for _ in range(500):
        made.take_in(inputs[0])
    vectors = made.prepare(inputs)[0]
    torch.testing.assert_close(vectors.mean(dim=0), torch.zeros(6), rtol=0, atol=1e-2)
    torch.testing.assert_close(vectors.var(dim=0, correction=0), torch.ones(6), rtol=0, atol=1e-2)


def test_a_readout_is_linear_behind_a_hidden_layer_or_none() -> None:
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(2))
    none, hidden = (Readout(4, units, 3, torch.Generator().manual_seed(1), 0.5) for units in (0, 7))
    torch.testing.assert_close(none(x), x @ none.weight + none.bias)
    layer = hidden.body.layers[0]
    inside = torch.nn.functional.silu(x @ layer.weight[0] + layer.bias[0])
    torch.testing.assert_close(hidden(x), inside @ hidden.weight + hidden.bias)
    wide = Readout(400, 0, 300, torch.Generator().manual_seed(1), 0.5)
    assert float(wide.weight.detach().std()) == pytest.approx(0.5 / 20.0, rel=0.02)

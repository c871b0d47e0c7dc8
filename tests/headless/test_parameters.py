from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.bridge.side_channels import Sampler, SamplerKind
from tau_trainer.errors import DecodeError
from tau_trainer.headless.parameters import EnvironmentParameters


def test_numbers_have_defaults_and_can_change() -> None:
    parameters = EnvironmentParameters({"gravity": 5.0})
    assert parameters.get("gravity", 9.81) == 5.0
    assert parameters.get("mass", 1.0) == 1.0
    assert "gravity" in parameters
    assert "mass" not in parameters
    parameters.set("gravity", 6.0)
    np.testing.assert_array_equal(parameters.draw("gravity", 9.81, 3), [6.0, 6.0, 6.0])


def test_a_sampler_is_drawn_at_each_use_and_repeats_with_its_seed() -> None:
    sampler = Sampler(SamplerKind.UNIFORM, 3, (2.0, 4.0))
    first, second = EnvironmentParameters({"scale": sampler}), EnvironmentParameters({"scale": sampler})
    values = [first.get("scale", 1.0) for _ in range(200)]
    assert len(set(values)) == 200
    assert 2.0 <= min(values) < 2.2
    assert 3.8 < max(values) <= 4.0
    np.testing.assert_array_equal(second.draw("scale", 1.0, 200), values)


def test_a_number_takes_a_samplers_place_and_back() -> None:
    parameters = EnvironmentParameters({"scale": Sampler(SamplerKind.UNIFORM, 3, (2.0, 4.0))})
    parameters.set("scale", 7.0)
    assert parameters.get("scale", 1.0) == 7.0
    parameters.set("scale", Sampler(SamplerKind.UNIFORM, 3, (9.0, 9.0)))
    assert parameters.get("scale", 1.0) == 9.0


def test_gaussian_has_its_mean_and_deviation() -> None:
    draws = EnvironmentParameters({"x": Sampler(SamplerKind.GAUSSIAN, 1, (5.0, 0.5))}).draw("x", 0.0, 20_000)
    assert abs(draws.mean() - 5.0) < 0.02
    assert abs(draws.std() - 0.5) < 0.02


def test_multi_range_draws_each_range_by_its_width() -> None:
    sampler = Sampler(SamplerKind.MULTI_RANGE_UNIFORM, 1, (0.0, 1.0, 10.0, 13.0))
    draws = EnvironmentParameters({"x": sampler}).draw("x", 0.0, 20_000)
    low, high = draws[draws <= 1.0], draws[draws >= 10.0]
    assert len(low) + len(high) == 20_000
    assert abs(len(high) / 20_000 - 0.75) < 0.02
    assert high.max() <= 13.0


def test_multi_range_of_points_draws_them_all() -> None:
    sampler = Sampler(SamplerKind.MULTI_RANGE_UNIFORM, 1, (2.0, 2.0, 5.0, 5.0))
    assert set(EnvironmentParameters({"x": sampler}).draw("x", 0.0, 100)) == {2.0, 5.0}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (SamplerKind.UNIFORM, (2.0, 1.0)),
        (SamplerKind.UNIFORM, (1.0, float("nan"))),
        (SamplerKind.GAUSSIAN, (0.0, -1.0)),
        (SamplerKind.MULTI_RANGE_UNIFORM, ()),
        (SamplerKind.MULTI_RANGE_UNIFORM, (0.0, 1.0, 2.0)),
    ],
)
def test_a_senseless_sampler_is_refused_by_name(kind: SamplerKind, values: tuple[float, ...]) -> None:
    with pytest.raises(DecodeError, match="'scale'"):
        EnvironmentParameters({"scale": Sampler(kind, 0, values)})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_must_be_finite(value: float) -> None:
    with pytest.raises(DecodeError, match="'gravity'"):
        EnvironmentParameters({"gravity": value})

"""The real `UnityEnvironment` (mlagents-envs 1.1.0) sees in our engine's images what our own reading of them sees."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.codec import TrainerCodec, parse_engine_message
from tau_trainer.bridge.engine_codec import encode_engine_message
from tau_trainer.headless.build import write_build
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.specs import Observations, StepBatch
from tests.conformance import pictures
from tests.conformance.conftest import Json, Peer, digest, fixed_actions, masks, observed, play_build

pytestmark = pytest.mark.conformance

STEPS = 12


def as_there(sensors: Observations) -> list[Any]:
    """Bytes as the reference makes floats of them: a grey image is the mean of a file's three channels."""
    return [
        sensor
        if sensor.dtype != np.uint8
        else np.mean(np.repeat(sensor.astype(np.float32) / 255.0, 3, axis=1), axis=1, keepdims=True)
        if sensor.shape[1] == 1
        else sensor.astype(np.float32) / 255.0
        for sensor in sensors
    ]


def read_by_us(codec: TrainerCodec, batch: StepBatch) -> Json:
    """One exchange over our own wire."""
    specs = {pictures.SPEC.name: pictures.SPEC}
    data = encode_engine_message(specs=[pictures.SPEC], steps=[batch], observation_specs=specs)
    (found,) = codec.steps(parse_engine_message(data))
    seen = observed(batch)
    seen["masks"] = masks(pictures.SPEC.actions, batch)
    seen["observations"] = digest(as_there(found.obs))
    seen["ended_observations"] = digest(as_there(found.terminals.obs))
    return seen


def test_images_are_the_same_for_both(peer: Peer, tmp_path: Path) -> None:
    """One to six channels, as PNG files with and without a mapping and as floats, beside vectors; ends too."""
    build = write_build(tmp_path / "build", "basic")
    build.write_text(build.read_text().replace("-m tau_trainer.headless", shlex.quote(pictures.__file__)))
    seen = play_build(peer, build, tmp_path, steps=STEPS, parameters={"num_agents": 3.0})
    spec = seen["specs"][pictures.SPEC.name]
    for sensor, own in zip(spec["observations"], pictures.SPEC.observations, strict=True):
        assert (sensor["name"], tuple(sensor["shape"])) == (own.name, own.shape)
        assert sensor["dimensions"] == [int(flag) for flag in own.dimension_property]
    parameters, codec = EnvironmentParameters({"num_agents": 3.0}), TrainerCodec()
    game = pictures.create(None, parameters, seed=3)
    (batch,) = game.reset(parameters)
    wanted = [read_by_us(codec, batch)]
    for step in range(STEPS):
        (batch,) = game.step({batch.behavior: fixed_actions(game, batch, step)})
        wanted.append(read_by_us(codec, batch))
    assert codec.specs == {pictures.SPEC.name: pictures.SPEC}
    found = [one[pictures.SPEC.name] for one in seen["exchanges"]]
    assert found == wanted
    assert any(one["ended"] for one in found)
    assert len({one["observations"] for one in found}) == len(found)

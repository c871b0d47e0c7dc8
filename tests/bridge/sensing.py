"""A step with sensors, as an engine of a package writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.bridge.codec import EngineInitialization
from tau_trainer.specs import ActionSpec, BehaviorSpec, FloatArray
from tests.bridge.oracle import PACKED, Messages, announce
from tests.bridge.test_engine_editor import editor, zeros
from tests.waiting import run

C, H, W = 3, 4, 5


PICTURE: FloatArray = np.arange(C * H * W, dtype=np.float32).reshape(C, H, W)


FIRST, LAST = (1, 2, 2), (2, 2, 1)


class Writer:
    """``ObservationWriter`` on a list, as it behaves: numbers go where the package's ``Index`` says."""

    def __init__(self, shape: tuple[int, int, int], *, last: bool) -> None:
        self.numbers = [0.0] * int(np.prod(shape))
        self._shape, self._last = shape, last

    def __setitem__(self, place: tuple[int, int, int], value: float) -> None:
        (c, h, w), (channels, height, width) = place, self._shape
        at = h * width * channels + w * channels + c if self._last else c * height * width + h * width + w
        self.numbers[at] = float(value)

    def picture(self, image: NDArray[Any], channel: int = 0) -> Writer:
        """As a camera does it."""
        for place, value in np.ndenumerate(image):
            c, h, w = place
            self[channel + c, h, w] = value
        return self


def through_indexer(image: NDArray[Any], *, last: bool) -> list[float]:
    channels, height, width = image.shape
    return Writer((channels, height, width), last=last).picture(image).numbers


Sensor = tuple[str, tuple[int, ...], Sequence[int], list[float] | bytes]


def step(*sensors: Sensor, messages: Messages = PACKED) -> bytes:
    """An engine's step: one agent of behavior B with these sensors."""
    message = messages.UnityMessage()
    message.header.status = 200
    announce(message, BehaviorSpec("B?team=0", (), ActionSpec(1)))
    agent = message.unity_output.rl_output.agent_infos["B?team=0"].value.add(id=4)
    for name, shape, properties, sent in sensors:
        observation = agent.observations.add(name=name, shape=shape, dimension_properties=properties)
        if isinstance(sent, bytes):
            observation.compression_type, observation.compressed_data = 1, sent
        else:
            observation.float_data.data.extend(sent)
    return bytes(message.SerializeToString())


def seen(package: str, message: bytes, **options: Any) -> tuple[tuple[NDArray[Any], ...], list[str]]:
    """What the trainer sees of the one agent, over the wire, and what it notes."""
    told: list[Any] = []

    async def main() -> None:
        async with editor(**options) as script:
            await script.greets(EngineInitialization(package_version=package))
            answer = script.says(message)
            batches = await script.resetting
            told.append(([sensor[0] for sensor in batches[0].obs], list(script.engine.notes)))
            script.engine.answer(zeros(script.engine, batches))
            await answer

    run(main())
    ((found, notes),) = told
    return tuple(found), notes


CAMERA = ("camera", (C, H, W), FIRST)

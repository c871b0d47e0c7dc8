"""Uncompressed images: written as each version of com.unity.ml-agents writes them, and read as what the game saw."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tau_trainer.bridge import demonstrations
from tau_trainer.bridge.codec import Capabilities, EngineInitialization
from tau_trainer.bridge.codec import parse_engine_message as parsed
from tau_trainer.bridge.demonstrations import Demonstration, read_demonstration, write_demonstration
from tau_trainer.bridge.engine_codec import AgentEncoder, MessageReader, encode_engine_message
from tau_trainer.bridge.package import ImageOrder, order_of, order_of_recordings
from tau_trainer.settings import load_settings
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, DimensionProperty, ObservationSpec
from tests.bridge.oracle import PACKED, expected
from tests.bridge.oracle import Agent as Told
from tests.bridge.sensing import CAMERA, FIRST, LAST, PICTURE, C, H, W, seen, step, through_indexer

"""Alike in no two places: what an agent sees, and what inference fills into the model's input."""
"""Dimension properties of [C, H, W] and of [H, W, C]."""


"""Name, shape, dimension properties, and numbers or PNG files."""


@pytest.mark.parametrize(
    ("package", "shape", "properties", "last"),
    [
        ("1.0.8", (H, W, C), (), True),
        ("2.0.1", (H, W, C), LAST, True),
        ("2.3.0-exp.3", (H, W, C), LAST, True),
        ("2.3.0-exp.3", (H, W, C), (), True),
        ("3.0.0-exp.1", (C, H, W), FIRST, True),
        ("3.0.0", (C, H, W), FIRST, True),
        ("3.0.0", (C, H, W), (), True),
        ("4.0.0", (C, H, W), FIRST, True),
        ("4.0.1", (C, H, W), FIRST, False),
        ("4.0.3", (C, H, W), FIRST, False),
        ("5.0.0-pre.1", (C, H, W), FIRST, False),
    ],
)
def test_the_picture_is_the_games_with_every_package(
    package: str, shape: tuple[int, ...], properties: Sequence[int], last: bool
) -> None:
    numbers = through_indexer(PICTURE, last=last)
    (found,), _ = seen(package, step(("camera", shape, properties, numbers)))
    np.testing.assert_array_equal(found, PICTURE)
    assert found.flags.c_contiguous


def test_a_sensor_that_writes_flat_is_read_in_declared_order_beside_one_that_does_not() -> None:
    flat, indexed = PICTURE.ravel().tolist(), through_indexer(PICTURE, last=True)
    message = step((*CAMERA, indexed), ("heat", (C, H, W), FIRST, flat))
    found, notes = seen("3.0.0", message, flat_sensors=("heat",))
    for sensor in found:
        np.testing.assert_array_equal(sensor, PICTURE)
    assert notes == []
    found, _ = seen("3.0.0", message, flat_sensors=("heat",), image_order="channels_last")
    np.testing.assert_array_equal(found[1], PICTURE)
    found, _ = seen("3.0.0", message)
    assert not np.array_equal(found[1], PICTURE)


def test_a_flat_sensor_that_is_not_there_is_told() -> None:
    message = step((*CAMERA, through_indexer(PICTURE, last=True)), ("size", (1,), (1,), [1.0]))
    _, notes = seen("3.0.0", message, flat_sensors=("kamera", "camera"))
    assert notes == ["collection.flat_sensors names 'kamera', but the sensors are camera, size"]


@pytest.mark.parametrize("package", ["2.0.1", "3.0.0", "4.0.0", "4.0.3", ""])
@pytest.mark.parametrize("choice", ["declared", "channels_last"])
def test_the_setting_beats_the_package(package: str, choice: str) -> None:
    numbers = through_indexer(PICTURE, last=choice == "channels_last")
    message = step((*CAMERA, numbers), ("older", (H, W, C), LAST, through_indexer(PICTURE, last=True)))
    found, notes = seen(package, message, image_order=choice)
    for sensor in found:  # what is declared channels last has no other order
        np.testing.assert_array_equal(sensor, PICTURE)
    assert notes == []


@pytest.mark.parametrize(("package", "last"), [("4.0.0", True), ("", False), ("a build of ours", False)])
def test_where_the_version_does_not_settle_it_that_is_told_once_with_the_way_out(package: str, last: bool) -> None:
    numbers = through_indexer(PICTURE, last=last)
    (first, second), notes = seen(package, step((*CAMERA, numbers), ("rear", (C, H, W), FIRST, numbers)))
    np.testing.assert_array_equal(first, PICTURE)
    np.testing.assert_array_equal(second, PICTURE)
    (note,) = notes
    assert note.startswith(
        "sensor 'camera' of behavior 'B' sends uncompressed images, and their order is not known in package"
    )
    assert f"they are read {'as height, width, channels' if last else 'channels first, as declared'};" in note
    assert f"--image-order {'declared' if last else 'channels_last'} (collection.image_order)" in note
    assert "PNG" in note


@pytest.mark.parametrize(
    ("package", "last", "settled"),
    [
        ("3.0.0-exp.1", True, True),
        ("3.1.2", True, True),
        ("4.0.0", True, False),
        ("4.0.1-pre.2", False, True),
        ("4.1.0", False, True),
        ("", False, False),
    ],
)
def test_what_versions_settle(package: str, last: bool, settled: bool) -> None:
    assert order_of(package, "auto", ("a",)) == ImageOrder(False, last, ("a",), settled)


SPEC = BehaviorSpec(
    "B?team=0",
    (
        ObservationSpec("camera", (C, H, W), tuple(map(DimensionProperty, FIRST))),
        ObservationSpec("grid", (4, H, W), tuple(map(DimensionProperty, FIRST)), dtype=np.uint8),
    ),
    ActionSpec(1),
)
GRID = np.arange(4 * H * W, dtype=np.uint8).reshape(4, H, W)


def test_the_headless_engine_writes_as_the_version_does_that_it_calls_itself() -> None:
    """Bytes too, where the trainer cannot put several PNG files together."""
    assert EngineInitialization().package_version == "3.0.0"
    batch = expected(SPEC, [Told(4, (PICTURE, GRID)), Told(5, (PICTURE + 1, GRID), done=True)])
    blind = Capabilities(concatenated_png=False)
    data = encode_engine_message(
        specs=[SPEC], steps=[batch], observation_specs={SPEC.name: SPEC}, reader=MessageReader(capabilities=blind)
    )
    agents = parsed(data).agent_lists[SPEC.name]
    told = PACKED.AgentInfos.FromString(agents)
    for info, image in zip(told.value, (PICTURE + 1, PICTURE), strict=True):
        camera, grid = info.observations
        assert list(camera.shape) == [C, H, W]
        assert list(camera.float_data.data) == through_indexer(image, last=True)
        np.testing.assert_allclose(grid.float_data.data, through_indexer(GRID / 255, last=True), rtol=1e-6)
    (found, grid), _ = seen("3.0.0", data)
    np.testing.assert_array_equal(found, PICTURE)
    np.testing.assert_allclose(grid, GRID / np.float32(255), rtol=1e-6)


class TestRecordings:
    IMAGES = np.stack([PICTURE, PICTURE + 1, PICTURE + 2])

    def file(self, path: Path, monkeypatch: pytest.MonkeyPatch, *, last: bool, unitys: bool = True) -> Path:
        """Three records; ``unitys``: without our mark."""
        spec = BehaviorSpec("B", SPEC.observations[:1], ActionSpec(1))
        begins, ended = np.array([True, False, False]), np.array([False, False, True])
        actions, none = Actions.zeros(spec.actions, 3), np.zeros(3, np.bool_)
        made = Demonstration(spec, (self.IMAGES,), np.zeros(3, np.float32), begins, ended, none, actions)
        with monkeypatch.context() as patch:
            if unitys:
                patch.setattr(demonstrations, "OWN_ACTIONS", 1001)
            if last:
                patch.setattr(demonstrations, "AgentEncoder", lambda of: AgentEncoder(of, channels_last=True))
            write_demonstration(path, made)
        return path

    @pytest.mark.parametrize(("choice", "last"), [("auto", True), ("channels_last", True), ("declared", False)])
    def test_the_setting_decides(
        self, choice: str, last: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = self.file(tmp_path / "a.demo", monkeypatch, last=last)
        images = order_of_recordings(load_settings(None, {"collection.image_order": choice}).collection)
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                np.testing.assert_array_equal(read_demonstration(path, images).obs[0], self.IMAGES)
        told = [record.getMessage() for record in caplog.records]
        assert len(told) == (choice == "auto")  # once, however often it is read
        for sentence in told:
            assert f"demonstration '{path}' holds uncompressed images of sensor 'camera'" in sentence
            assert "--image-order declared (collection.image_order)" in sentence

    def test_a_sensor_that_writes_flat(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = self.file(tmp_path / "a.demo", monkeypatch, last=False)
        images = order_of_recordings(load_settings(None, {"collection.flat_sensors": ["camera"]}).collection)
        np.testing.assert_array_equal(read_demonstration(path, images).obs[0], self.IMAGES)

    @pytest.mark.parametrize("choice", ["auto", "channels_last", "declared"])
    def test_what_we_write_we_read_whatever_is_set(
        self, choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = self.file(tmp_path / "a.demo", monkeypatch, last=False, unitys=False)
        images = order_of_recordings(load_settings(None, {"collection.image_order": choice}).collection)
        with caplog.at_level(logging.WARNING):
            np.testing.assert_array_equal(read_demonstration(path, images).obs[0], self.IMAGES)
        assert not caplog.records

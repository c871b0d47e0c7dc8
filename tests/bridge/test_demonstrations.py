from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tau_trainer.bridge.codec import ActionEncoder
from tau_trainer.bridge.demonstrations import (
    Demonstration,
    demonstration_files,
    joined,
    read_demonstration,
    read_demonstrations,
    write_demonstration,
)
from tau_trainer.bridge.engine_codec import ActionDecoder
from tau_trainer.errors import DataError
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, ObservationSpec
from tests.bridge.demos import HYBRID, made_up

DATA = Path(__file__).parent / "data"


def same(one: Demonstration, other: Demonstration) -> None:
    assert one.spec.actions == other.spec.actions
    for name in ("reward", "begins", "ended", "truncated"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    np.testing.assert_array_equal(one.actions.continuous, other.actions.continuous)
    np.testing.assert_array_equal(one.actions.discrete, other.actions.discrete)
    for mine, theirs in zip(one.obs, other.obs, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    nothing = np.zeros((len(one), one.spec.actions.mask_size), np.bool_)
    np.testing.assert_array_equal(
        nothing if one.mask is None else one.mask, nothing if other.mask is None else other.mask
    )


@pytest.mark.parametrize(
    "spec",
    [
        HYBRID,
        BehaviorSpec("Vector", (ObservationSpec("a", (3,)),), ActionSpec(2)),
        BehaviorSpec("Branches", (ObservationSpec("a", (3,)),), ActionSpec(0, (2, 3))),
        BehaviorSpec(
            "Image", (ObservationSpec("a", (3, 8, 9), dtype=np.uint8), ObservationSpec("b", (2,))), ActionSpec(0, (4,))
        ),
    ],
    ids=lambda spec: spec.name,
)
def test_what_was_written_is_read_again(spec: BehaviorSpec, tmp_path: Path) -> None:
    demo = made_up(spec)
    write_demonstration(tmp_path / "a.demo", demo)
    read = read_demonstration(tmp_path / "a.demo")
    assert read.spec.name == spec.name
    assert [(s.name, s.shape, np.dtype(s.dtype)) for s in read.spec.observations] == [
        (s.name, s.shape, np.dtype(s.dtype)) for s in spec.observations
    ]
    same(read, demo)


def test_returns_are_of_whole_episodes_and_of_what_came_after_their_first_observation() -> None:
    demo = made_up(lengths=(3, 2, 2))
    np.testing.assert_allclose(demo.returns, [demo.reward[1:3].sum(), demo.reward[4]], rtol=1e-6)


def test_a_folder_means_all_its_files_which_are_joined_in_order(tmp_path: Path) -> None:
    first, second = made_up(lengths=(4,)), replace(made_up(lengths=(3, 3), seed=1), mask=None)
    write_demonstration(tmp_path / "b.demo", second)
    write_demonstration(tmp_path / "a.demo", first)
    (tmp_path / "notes.txt").write_text("no demonstration")
    both = read_demonstrations([tmp_path])
    same(both, joined([first, second]))
    assert both.begins[4]  # the first file's last episode is open, and the second file does not continue it
    assert both.mask is not None
    assert not both.mask[4:].any()
    same(read_demonstrations([tmp_path / "a.demo", str(tmp_path / "b.demo")]), both)


def test_a_name_that_is_long_leaves_the_meta_data_in_its_place(tmp_path: Path) -> None:
    demo = made_up(lengths=(300, 2))
    write_demonstration(tmp_path / "a.demo", demo, "a/very: long name, longer than anybody needs")
    assert b"avery long name" not in (tmp_path / "a.demo").read_bytes()[:10]
    assert len(read_demonstration(tmp_path / "a.demo")) == 302


def test_answers_of_unitys_recorder_stand_one_record_later() -> None:
    """`unity_order.demo` was written by mlagents' own `write_demo`, in the order of Unity's recorder."""
    demo = read_demonstration(DATA / "unity_order.demo")
    assert demo.spec.name == "Theirs?team=0"
    np.testing.assert_array_equal(demo.ended, [False, False, True] * 2)
    np.testing.assert_array_equal(demo.truncated, [False] * 5 + [True])
    np.testing.assert_allclose(demo.actions.continuous[:, 0], [0.25, 0.5, 0, 0.25, 0.5, 0])
    np.testing.assert_array_equal(demo.actions.discrete[:, 0], [1, 2, 0, 1, 2, 0])
    np.testing.assert_allclose(demo.reward, np.arange(6) / 4)
    assert demo.mask is not None
    np.testing.assert_array_equal(demo.mask[:2], [[False] * 3, [False, True, False]])


def test_a_file_without_our_mark_whose_episodes_begin_with_an_action_is_taken_as_it_is(tmp_path: Path) -> None:
    data = (DATA / "unity_order.demo").read_bytes()
    # The first action of the second episode becomes 0.75: nothing that Unity's recorder would write.
    place = data.rindex(np.array([0, 0], "<f4").tobytes())
    changed = data[:place] + np.array([0.75, 0], "<f4").tobytes() + data[place + 8 :]
    (tmp_path / "a.demo").write_bytes(changed)
    demo = read_demonstration(tmp_path / "a.demo")
    np.testing.assert_allclose(demo.actions.continuous[:, 0], [0, 0.25, 0, 0.75, 0.25, 0])


def test_a_path_that_is_not_there_is_said() -> None:
    with pytest.raises(DataError, match=r"there is no demonstration 'nowhere.demo'"):
        demonstration_files(["nowhere.demo"])


def test_an_empty_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no .demo file"):
        demonstration_files([tmp_path])
    with pytest.raises(DataError, match="no demonstration is named"):
        read_demonstrations([])


def test_every_cut_and_every_damaged_byte_is_refused_or_read(tmp_path: Path) -> None:
    path = tmp_path / "a.demo"
    write_demonstration(path, made_up(lengths=(3, 3)))
    whole = path.read_bytes()
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"'.*a\.demo' is damaged or invalid \(.*\); record it again$"):
            read_demonstration(path)
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            read_demonstration(path)
        except DataError:
            refused += 1
    assert refused > 20


def test_an_action_that_the_behavior_does_not_have_is_refused(tmp_path: Path) -> None:
    demo = made_up()
    demo.actions.discrete[1, 0] = 3
    write_demonstration(tmp_path / "a.demo", demo)
    with pytest.raises(DataError, match="the action of record 2 is not one"):
        read_demonstration(tmp_path / "a.demo")


def test_nothing_recorded_is_nothing_written(tmp_path: Path) -> None:
    whole, nothing = made_up(), np.zeros(0, np.bool_)
    none = Actions.zeros(HYBRID.actions, 0)
    obs = tuple(sensor[:0] for sensor in whole.obs)
    demo = Demonstration(HYBRID, obs, whole.reward[:0], nothing, nothing, nothing, none)
    with pytest.raises(DataError, match="no decision was recorded"):
        write_demonstration(tmp_path / "a.demo", demo)
    assert list(tmp_path.iterdir()) == []


def test_sensors_and_actions_that_do_not_fit_are_named() -> None:
    demo = made_up()
    text = r"its actions are 2 continuous and branches of \[3, 200\], those of behavior 'Live' are 2"
    with pytest.raises(DataError, match=text):
        demo.fitting(BehaviorSpec("Live", HYBRID.observations, ActionSpec(2)), "here")
    with pytest.raises(DataError, match=r"it has 2 sensors \(a, b\), behavior 'Live' has 1 \(a\)"):
        demo.fitting(BehaviorSpec("Live", HYBRID.observations[:1], HYBRID.actions), "here")
    changed = (ObservationSpec("a", (4,)), HYBRID.observations[1])
    with pytest.raises(DataError, match=r"here: its sensor 'a' is float32 \[3\], sensor 'a' of behavior 'Live' is"):
        demo.fitting(BehaviorSpec("Live", changed, HYBRID.actions), "here")
    assert demo.fitting(BehaviorSpec("Live", HYBRID.observations, HYBRID.actions), "here").spec.name == "Live"


def test_old_files_have_nothing_but_the_deprecated_actions() -> None:
    spec = ActionSpec(2, (3,))
    new = ActionEncoder(spec, legacy=True).encode(Actions(np.array([[0.5, -1]], np.float32), np.array([[2]], np.int32)))
    old = b"\x0a\x0e" + new[2:16]
    read = ActionDecoder(spec, legacy=True).decode(old)
    np.testing.assert_array_equal(read.continuous, [[0.5, -1]])
    np.testing.assert_array_equal(read.discrete, [[2]])
    assert not ActionDecoder(spec).decode(old).continuous.any()

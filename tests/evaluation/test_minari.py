"""Demonstrations become Minari's data sets and come back; Minari itself writes and reads the other side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
import pytest
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

from tau_trainer.bridge.demonstrations import Demonstration, read_demonstration
from tau_trainer.cli import main
from tau_trainer.errors import DataError, SettingsError
from tau_trainer.evaluation.minari import MinariStore
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.demonstrations import CARTPOLE, PENDULUM, balance, played, swing

VECTOR, MORE = ObservationSpec("seen", (3,)), ObservationSpec("a/b", (2,))
IMAGE = ObservationSpec("camera", (3, 8, 6), dtype=np.uint8)
LENGTHS = (3, 2, 4)
"""Decisions of each episode; the second is cut by a limit."""
UNKNOWN_AUTHOR = pytest.mark.filterwarnings("ignore:.*(is set to None|env_spec is None):UserWarning")


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))


def demonstration(sensors: tuple[ObservationSpec, ...], actions: ActionSpec, *, masked: bool = False) -> Demonstration:
    rng = np.random.default_rng(0)
    count = sum(LENGTHS) + len(LENGTHS)
    ends = np.cumsum(np.array(LENGTHS) + 1) - 1  # rows of last records
    begins, ended, truncated = (np.zeros(count, np.bool_) for _ in range(3))
    begins[[0, *(ends[:-1] + 1)]], ended[ends], truncated[ends[1]] = True, True, True
    branches = np.array(actions.discrete_branches, np.int64)
    acted = Actions(
        rng.uniform(-1, 1, (count, actions.continuous_size)).astype(np.float32),
        rng.integers(0, branches, (count, len(branches))).astype(np.int32),
    )
    acted.continuous[ended], acted.discrete[ended] = 0, 0
    mask = rng.random((count, actions.mask_size)) < 0.4 if masked else None
    obs = tuple((rng.random((count, *sensor.shape)) * 255).astype(sensor.dtype) for sensor in sensors)
    reward = np.where(begins, 0.0, rng.normal(size=count)).astype(np.float32)
    return Demonstration(BehaviorSpec("Walker", sensors, actions), obs, reward, begins, ended, truncated, acted, mask)


def assert_same(found: Demonstration, wanted: Demonstration) -> None:
    for name in ("reward", "begins", "ended", "truncated", "mask"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
    np.testing.assert_allclose(found.actions.continuous, wanted.actions.continuous, atol=1e-6)
    np.testing.assert_array_equal(found.actions.discrete, wanted.actions.discrete)
    assert found.spec.actions == wanted.spec.actions
    names = [sensor.name for sensor in wanted.spec.observations]
    if len(names) > 1:  # a single one has no name there
        ordered = names == sorted(names)
        known = names if ordered else [f"{i:02d}_{name.replace('/', '_')}" for i, name in enumerate(names)]
        assert [sensor.name for sensor in found.spec.observations] == known
    fitting = found.fitting(wanted.spec, "it").obs  # sensors of other ranks lie flat there
    for sensor, values, expected in zip(found.spec.observations, fitting, wanted.obs, strict=True):
        assert (values.dtype, sensor.dtype) == (expected.dtype, expected.dtype)
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize(
    ("sensors", "actions", "masked"),
    [
        ((VECTOR,), ActionSpec(2), False),
        ((VECTOR, MORE, IMAGE), ActionSpec(0, (3,)), True),
        ((IMAGE, VECTOR), ActionSpec(1), False),
        ((IMAGE,), ActionSpec(0, (2, 4)), True),
        ((VECTOR,), ActionSpec(1, (3,)), False),
        ((VECTOR,), ActionSpec(2, (2, 2)), True),
        ((ObservationSpec("entities", (4, 3)),), ActionSpec(1), False),
        ((ObservationSpec("board", (3, 4, 2)),), ActionSpec(1), False),
        ((ObservationSpec("tiny", (3, 4, 4), dtype=np.uint8),), ActionSpec(1), False),
    ],
)
def test_what_was_recorded_comes_back(sensors: tuple[ObservationSpec, ...], actions: ActionSpec, masked: bool) -> None:
    made = demonstration(sensors, actions, masked=masked)
    assert MinariStore().write("ball/walker-v0", made) == len(LENGTHS)
    assert_same(MinariStore().read("ball/walker-v0"), made)
    dataset = minari.load_dataset("ball/walker-v0")
    assert (dataset.total_episodes, dataset.total_steps) == (len(LENGTHS), sum(LENGTHS))
    for episode in dataset.iterate_episodes():
        for step in range(len(episode)):
            assert dataset.action_space.contains(_at(dataset.action_space, episode.actions, step))
        assert dataset.observation_space.contains(_at(dataset.observation_space, episode.observations, 0))


def _at(space: Any, values: Any, row: int) -> Any:
    return {key: part[row] for key, part in values.items()} if isinstance(space, spaces.Dict) else values[row]


def test_an_episode_without_its_end_is_cut_before_its_last_decision() -> None:
    made = demonstration((VECTOR,), ActionSpec(1))
    rows = slice(None, len(made) - 1)  # the last record, which ended the last episode
    columns = {name: getattr(made, name)[rows] for name in ("reward", "begins", "ended", "truncated")}
    actions = Actions(made.actions.continuous[rows], made.actions.discrete[rows])
    opened = Demonstration(made.spec, (made.obs[0][rows],), **columns, actions=actions)
    MinariStore().write("open-v0", opened)
    last = list(minari.load_dataset("open-v0").iterate_episodes())[-1]
    assert (len(last), bool(last.terminations[-1]), bool(last.truncations[-1])) == (LENGTHS[-1] - 1, False, True)


def stored(name: str, seen: Any, acted: Any, **spaces_of: Any) -> None:
    """One episode, as Minari writes it; its rewards count from 1."""
    rewards = [float(number) for number in range(1, len(acted) + 1)]
    no = np.zeros(len(acted), np.bool_)
    episode = EpisodeBuffer(id=0, observations=seen, actions=acted, rewards=rewards, terminations=no, truncations=no)
    minari.create_dataset_from_buffers(name, [episode], **spaces_of)


@UNKNOWN_AUTHOR
def test_a_data_set_of_an_environment_is_read_in_our_ranges() -> None:
    """Actions of another range become [-1, 1], as the trainer decides them for that environment."""
    torque = np.array([[-2.0], [0.0], [1.0]], np.float32)
    seen = np.arange(12, dtype=np.float32).reshape(4, 3) / 12
    stored("swing-v3", seen, torque, env=gymnasium.make("Pendulum-v1"))
    found = MinariStore().read("swing-v3")
    assert found.spec == PENDULUM
    np.testing.assert_allclose(found.actions.continuous[:, 0], [-1.0, 0.0, 0.5, 0.0])
    np.testing.assert_array_equal(found.reward, [0.0, 1.0, 2.0, 3.0])
    np.testing.assert_array_equal(found.truncated, [False, False, False, True])


def test_nothing_is_taken_away_or_left_half_written(monkeypatch: pytest.MonkeyPatch) -> None:
    made, store = demonstration((VECTOR,), ActionSpec(1)), MinariStore()
    store.write("kept-v0", made)
    with pytest.raises(DataError, match=r"data set 'kept-v0' already exists in '.*'; choose another name"):
        store.write("kept-v0", made)
    for name in ("kept", "a b-v0", "../kept-v0"):
        with pytest.raises(DataError, match="is not a valid name of a data set; use a name like expert-v0 or"):
            store.write(name, made)
    with pytest.raises(DataError, match="fetch it with `minari download gone-v1`"):
        store.read("gone-v1")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("minari.dataset.minari_storage.MinariStorage.update_metadata", full)
    with pytest.raises(DataError, match="cannot be written"):
        store.write("half-v0", made)
    assert list(minari.list_local_datasets()) == ["kept-v0"]
    with pytest.raises(DataError, match="fetch it with"):
        store.read("half-v0")


@UNKNOWN_AUTHOR
def test_what_nothing_can_learn_from_is_refused() -> None:
    odd = demonstration((ObservationSpec("odd", (5, 5, 3), dtype=np.uint8),), ActionSpec(1))
    with pytest.raises(DataError, match=r"sensor 'odd' \[5, 5, 3\] is an image whose axes Minari cannot tell"):
        MinariStore().write("odd-v0", odd)
    seen = np.zeros((2, 3), np.float32)
    stored("text-v0", seen, ["go"], observation_space=spaces.Box(0, 1, (3,)), action_space=spaces.Text(5))
    with pytest.raises(DataError, match="'text-v0' cannot be converted: the environment has the action space Text"):
        MinariStore().read("text-v0")


def test_the_command_converts_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tau_trainer.bridge.demonstrations import write_demonstration

    for name, made in (
        ("cart", played(CARTPOLE, balance, copies=2)),
        ("swing", played(PENDULUM, swing, copies=2)),
    ):
        source, back = tmp_path / f"{name}.demo", tmp_path / f"{name}-back.demo"
        write_demonstration(source, made)
        assert main(["demo", "convert", str(source), f"minari:{name}-v0"]) == 0
        assert f" to the Minari data set '{name}-v0'" in capsys.readouterr().out
        assert main(["demo", "convert", f"minari:{name}-v0", str(back)]) == 0
        assert "  episodes " in capsys.readouterr().out
        found, wanted = read_demonstration(back), read_demonstration(source)
        whole = np.flatnonzero(wanted.ended)[-1] + 1  # what came after was cut
        np.testing.assert_array_equal(found.obs[0][:whole], wanted.obs[0][:whole])
        np.testing.assert_allclose(found.actions.continuous[:whole], wanted.actions.continuous[:whole], atol=1e-6)
        np.testing.assert_array_equal(found.reward[:whole], np.where(wanted.begins, 0, wanted.reward)[:whole])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.demo", "b.demo"], "one of 'a.demo' and 'b.demo' must be a Minari data set: minari:NAME"),
        (["minari:a-v0", "minari:b-v0"], "must be a Minari data set"),
        (["minari:a-v0", "b.txt"], "'b.txt' is not a valid name for a recording; it must end in .demo"),
        (["minari:a-v0", "there.demo"], "the file 'there.demo' already exists; choose another name"),
        (["missing.demo", "minari:a-v0"], "there is no demonstration 'missing.demo'"),
    ],
)
def test_what_cannot_be_converted_is_said(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.demo").write_bytes(b"x")
    assert main(["demo", "convert", *words]) == 2
    captured = capsys.readouterr()
    assert said in " ".join((captured.out + captured.err).split())


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(SettingsError, match=r"pip install 'tau-trainer\[minari\]'"):
        MinariStore()


@UNKNOWN_AUTHOR
def test_actions_of_half_lines_whole_numbers_and_higher_ranks_are_read(caplog: pytest.LogCaptureFixture) -> None:
    cases: list[tuple[spaces.Box, Any, Any]] = [
        (spaces.Box(0, np.inf, (1,)), [[0.0], [1.0], [2.0]], [[-1.0], [0.0], [1.0]]),
        (spaces.Box(0, 3, (1,), np.int8), [[0], [1], [3]], [[-0.75], [-0.25], [0.75]]),
        (spaces.Box(-2, 2, (2, 1)), [[[-2.0], [2.0]]] * 3, [[-1.0, 1.0]] * 3),
    ]
    for number, (space, acted, wanted) in enumerate(cases):
        name, seen = f"odd-v{number}", np.zeros((4, 2, 3), np.float32)
        acted = np.array(acted, space.dtype)
        stored(name, seen, acted, observation_space=spaces.Box(-1, 1, (2, 3)), action_space=space)
        found = MinariStore().read(name)
        assert found.obs[0].shape == (4, 6)
        assert found.actions.continuous[:-1].tolist() == wanted
    assert [record.message.partition(" leaves ")[2] for record in caplog.records] == [
        "1 of 1 actions without a bound; policies reach -1 to 1 if there is no bound, and 2 from the bound if there is "
        "one; give the space the bounds that the game needs"
    ]

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

from tau_trainer.files import file_name
from tau_trainer.metrics import MetricsHub, TensorBoard
from tau_trainer.metrics.tensorboard import MOST_PAIRS, TEXT_TAG, EventFile, folder_name, messages
from tau_trainer.specs import Aggregation
from tests.waiting import until


def load(folder: Path) -> EventAccumulator:
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
    reader.Reload()
    return reader


def test_names_values_steps_and_times_come_back(tmp_path: Path) -> None:
    before = time.time()
    with MetricsHub([TensorBoard(tmp_path)]) as hub:
        for step in (100, 200):
            hub.episode("TauAgent?team=0", 3, [step / 100, step / 100 + 2], [9, 11])
            hub.add("TauAgent?team=0", "Losses/Policy Loss", step / 1000)
            hub.add("TauAgent?team=0", "Tau/Decisions", [1, 2, 3], Aggregation.SUM)
            hub.flush("TauAgent?team=0", step)
    assert [path.name for path in tmp_path.iterdir()] == ["TauAgent"]
    reader = load(tmp_path / "TauAgent")
    assert set(reader.Tags()["scalars"]) == {
        "Environment/Cumulative Reward",
        "Environment/Episode Length",
        "Pair 3/Cumulative Reward",
        "Pair 3/Episode Length",
        "Losses/Policy Loss",
        "Tau/Decisions",
        "Perf/Decisions per Second",
    }
    rewards = reader.Scalars("Environment/Cumulative Reward")
    assert [(one.step, one.value) for one in rewards] == [(100, 2.0), (200, 3.0)]
    assert all(before - 1 <= one.wall_time <= time.time() + 1 for one in rewards)
    assert [one.value for one in reader.Scalars("Tau/Decisions")] == [6.0, 6.0]


def test_a_histogram_has_mlagents_suffix(tmp_path: Path) -> None:
    with MetricsHub([TensorBoard(tmp_path)]) as hub:
        hub.episode("A", None, [1.0, 1.0, 3.0, 5.0], [1, 1, 1, 1])
        hub.flush("A", 10)
    reader = load(tmp_path / "A")
    assert reader.Tags()["histograms"] == ["Environment/Cumulative Reward_hist"]
    [event] = reader.Histograms("Environment/Cumulative Reward_hist")
    got = event.histogram_value
    assert (got.min, got.max, got.num, got.sum, got.sum_squares) == (1.0, 5.0, 4.0, 10.0, 36.0)
    assert sum(got.bucket) == 4
    assert len(got.bucket) == len(got.bucket_limit)
    assert (got.bucket_limit[0], got.bucket_limit[-1]) == (1.0, 5.0)


def test_hyperparameters_are_text(tmp_path: Path) -> None:
    with MetricsHub([TensorBoard(tmp_path)]) as hub:
        hub.begin("A", hyperparameters={"gamma": 0.0, "network": {"hidden_units": 64, "extra": {}}, "name": "a|b"})
    [event] = load(tmp_path / "A").Tensors(TEXT_TAG)
    text = event.tensor_proto.string_val[0].decode()
    assert text.splitlines() == [
        "| setting | value |",
        "| --- | --- |",
        "| gamma | 0.0 |",
        "| network.hidden_units | 64 |",
        "| network.extra | {} |",
        '| name | "a\\|b" |',
    ]
    assert event.step == 0


def test_values_are_on_disk_within_seconds_of_a_flush(tmp_path: Path) -> None:
    recorder = TensorBoard(tmp_path)
    hub = MetricsHub([recorder])
    hub.add("A", "x", 1.0)
    hub.flush("A", 1)
    hub.drain()

    def written() -> bool:
        hub.flush("A", 2)
        hub.drain()
        return bool(load(tmp_path / "A").Tags()["scalars"])

    until(written)
    hub.close()


def test_many_pairs_stay_out_of_tensorboard(tmp_path: Path) -> None:
    with MetricsHub([TensorBoard(tmp_path)]) as hub:
        for pair in range(MOST_PAIRS + 1):
            hub.add("A", "Tau/Mean Reward", 1.0, pair=pair)
        hub.flush("A", 1)
        hub.add("B", "Pair 0/Mean Reward", 7.0)
        hub.add("B", "Tau/Mean Reward", 1.0, pair=0)
        hub.flush("B", 1)
    assert load(tmp_path / "A").Tags()["scalars"] == ["Tau/Mean Reward", "Perf/Decisions per Second"]
    own = load(tmp_path / "B").Scalars("Pair 0/Mean Reward")
    assert [one.value for one in own] == [1.0], "a pair's own number wins over an engine's"


def test_nothing_recorded_leaves_nothing(tmp_path: Path) -> None:
    with MetricsHub([TensorBoard(tmp_path)]) as hub:
        hub.event("checkpoint", step=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("behavior", "folder"),
    [
        ("TauAgent?team=0", "TauAgent"),
        ("a/b\\c:d", file_name("a/b\\c:d")),
        ("..?team=1", file_name("..")),
        ("My Behavior", "My Behavior"),
    ],
)
def test_folders_exist_on_every_system(behavior: str, folder: str) -> None:
    assert folder_name(behavior) == folder


def test_neither_torch_nor_tensorflow_is_imported(tmp_path: Path) -> None:
    program = f"""
import pathlib, sys
from tau_trainer.metrics import MetricsHub, TensorBoard
with MetricsHub([TensorBoard(pathlib.Path({str(tmp_path)!r}))]) as hub:
    hub.flush("A", 1)
sys.exit(any(name in sys.modules for name in ("torch", "tensorflow", "matplotlib")))
"""
    assert subprocess.run([sys.executable, "-W", "error", "-c", program], check=False).returncode == 0
    assert list((tmp_path / "A").iterdir())


def test_tensorboard_reads_every_record_also_of_two_files_of_one_second(tmp_path: Path) -> None:
    files = [EventFile(tmp_path / "Behavior") for _ in range(2)]
    for file in files:
        for step in range(5):
            file.write(messages().event.Event(step=step, wall_time=1.0).SerializeToString())
        file.close()
        raw = list(RawEventFileLoader(str(file.path)).Load())
        events = [messages().event.Event.FromString(one) for one in raw]
        assert events[0].file_version == "brain.Event:2"
        assert [event.step for event in events[1:]] == list(range(5))
    assert len(list((tmp_path / "Behavior").glob("events.out.tfevents.*"))) == 2

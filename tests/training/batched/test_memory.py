"""Batched runs with a memory, and of environments that show pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from tau_trainer.metrics import keys
from tau_trainer.settings import load_batched
from tau_trainer.training.batched.playing import Playing
from tau_trainer.training.batched.run import CopiesCollector
from tau_trainer.training.stored import evaluate_copies, export_run
from tests.training.batched.test_run import counting, cut, same, train
from tests.training.fakes import newest

NETWORK: dict[str, Any] = {
    "hidden_units": 8,
    "num_layers": 1,
    "normalize": True,
    "memory": {"memory_size": 4, "sequence_length": 4},
}
LEFT = {"trainer_type": "ppo", "hyperparameters": {"buffer_size": 32, "batch_size": 8}, "network_settings": NETWORK}
RIGHT = {"trainer_type": "a2c", "hyperparameters": {"buffer_size": 64}, "network_settings": NETWORK}
PICTURES = {"name": "tests.envs.batched.recalling:Pictures", "num_envs": 8}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return short(tmp_path, behaviors={"left": LEFT | {"agents": ["left"]}, "right": RIGHT | {"agents": ["right"]}})


def short(folder: Path, **changes: Any) -> Path:
    """A run of two rounds, evaluated after the first."""
    every = dict.fromkeys(("max_steps", "summary_freq", "checkpoint_interval"), 16 * 16)
    return counting(folder, default_settings=every, evaluation={"episodes": 3, "interval": 16 * 8}, **changes)


@pytest.mark.parametrize("frozen", [False, True], ids=["both learn", "one is frozen"])
def test_what_is_remembered_goes_on_equal(file: Path, frozen: bool) -> None:
    """Episodes are open where a run is cut, and evaluations between updates change nothing."""
    more: dict[str, Any] = {"behaviors__left__to_train": False} if frozen else {}
    straight = train(file, "straight", **more, evaluation__interval=0)
    cut(file, "cut", steps=8, **more)
    resumed = train(file, "cut", **more, checkpoint_settings__resume=True)
    first = newest(resumed.folder, "right" if frozen else "left")
    same(newest(straight.folder, "right"), newest(resumed.folder, "right"))
    same(newest(straight.folder, first.name), first)
    for name in ("left", "right"):
        state = first.tensors[f"environment.memory.{name}"]
        assert state.shape == (8, 1, 2, 4)
        assert np.abs(state).max() > 0.0


def test_checkpoints_without_it_are_resumed_with_nothing_remembered(file: Path) -> None:
    playing = Playing(load_batched(file))
    playing.advance()
    found = playing.copies_state()
    assert any(values.abs().max() > 0.0 for values in playing.collector.states.values())
    playing.load_copies(4, {name: values for name, values in found.items() if not name.startswith("memory.")})
    assert all(torch.equal(values, torch.zeros(8, 1, 2, 4)) for values in playing.collector.states.values())
    playing.load_copies(4, found)
    for name, values in playing.collector.states.items():
        assert torch.equal(values, found[f"memory.{name}"])
    assert playing.collector.states.keys() == {"left", "right"}
    playing.begin_anew()
    assert all(torch.equal(values, torch.zeros(8, 1, 2, 4)) for values in playing.collector.states.values())


def test_a_model_and_an_evaluation_remember(file: Path) -> None:
    report = train(file, "first")
    scores = evaluate_copies(report.folder)
    assert scores is not None
    for path in report.models:
        worth = newest(report.folder, path.stem)
        session = onnxruntime.InferenceSession(path)
        assert "recurrent_in" in {value.name for value in session.get_inputs()}
        assert worth.step == 128
    [left] = [path for path, _ in export_run(report.folder) if path.stem == "left"]
    assert left in report.models
    assert scores["left"][keys.EPISODE_RETURN] >= 0.0


def test_pictures_are_seen_by_an_encoder_and_go_on_equal(tmp_path: Path) -> None:
    """The encoder learns; a model takes channels first; normalize leaves pictures alone."""
    network = {"hidden_units": 8, "num_layers": 1, "normalize": True, "vis_encode_type": "match3"}
    file = short(tmp_path, environment=PICTURES, behaviors={"both": LEFT | {"network_settings": network}})
    seen: list[Any] = []
    announce = CopiesCollector.announce

    def look(copies: CopiesCollector) -> None:
        seen.append({name: value.copy() for name, value in copies.saved[0].algorithm.state()[0].items()})
        announce(copies)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CopiesCollector, "announce", look)
        straight = train(file, "straight")
    last = newest(straight.folder, "both")
    moved = [name for name in seen[0] if name.startswith("model.encoders.")]
    assert len(moved) > 4
    for name in moved:
        assert not np.array_equal(seen[0][name], last.tensors[name]), name
    assert not [name for name in last.tensors if "normalizer" in name]
    cut(file, "cut", steps=8)
    same(last, newest(train(file, "cut", checkpoint_settings__resume=True).folder, "both"))
    assert onnxruntime.InferenceSession(straight.models[0]).get_inputs()[0].shape[1:] == [2, 6, 5]
    assert evaluate_copies(straight.folder) is not None


def test_deep_q_learning_sees_vectors(tmp_path: Path) -> None:
    values = {"trainer_type": "dqn", "hyperparameters": {"buffer_size": 64, "batch_size": 8}}
    [entry] = Playing(load_batched(short(tmp_path, environment=PICTURES, behaviors={"both": values}))).policies
    assert entry.spec.observations[0].shape == (60,)

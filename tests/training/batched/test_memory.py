"""Batched runs with a memory, and of environments that show pictures."""

from __future__ import annotations

import json
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
from tests.training.batched.test_run import cut, newest, same, train

NETWORK: dict[str, Any] = {
    "hidden_units": 8,
    "num_layers": 1,
    "normalize": True,
    "memory": {"memory_size": 4, "sequence_length": 4},
}
LEFT = {
    "agents": ["left"],
    "trainer_type": "ppo",
    "hyperparameters": {"buffer_size": 32, "batch_size": 8},
    "network_settings": NETWORK,
}
RIGHT = {
    "agents": ["right"],
    "trainer_type": "a2c",
    "hyperparameters": {"buffer_size": 64},
    "network_settings": NETWORK,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "counting.yaml"
    values = {
        "environment": {"name": "tests.envs.batched.counting:Counting", "num_envs": 8, "arguments": {"limit": 5}},
        "default_settings": {"max_steps": 16 * 16, "summary_freq": 16 * 16, "checkpoint_interval": 16 * 16},
        "behaviors": {"left": LEFT, "right": RIGHT},
        "evaluation": {"episodes": 3, "interval": 16 * 8},
        "checkpoint_settings": {"results_dir": str(tmp_path / "results")},
        "env_settings": {"seed": 3},
    }
    path.write_text(json.dumps(values))  # YAML too, without references
    return path


@pytest.mark.parametrize("frozen", [False, True], ids=["both learn", "one is frozen"])
def test_what_is_remembered_goes_on_equal(file: Path, frozen: bool) -> None:
    """Episodes are open where a run is cut, and evaluations between updates change nothing."""
    more: dict[str, Any] = {"behaviors__left__to_train": False} if frozen else {}
    straight = train(file, "straight", **more, evaluation__interval=0)
    cut(file, "cut", steps=8, **more)
    resumed = train(file, "cut", **more, checkpoint_settings__resume=True)
    first = newest(resumed, "right" if frozen else "left")
    same(newest(straight, "right"), newest(resumed, "right"))
    same(newest(straight, first.name), first)
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
        worth = newest(report, path.stem)
        session = onnxruntime.InferenceSession(path)
        assert "recurrent_in" in {value.name for value in session.get_inputs()}
        assert worth.step == 128
    [left] = [path for path, _ in export_run(report.folder) if path.stem == "left"]
    assert left in report.models
    assert scores["left"][keys.EPISODE_RETURN] >= 0.0


def test_pictures_are_seen_by_an_encoder_and_go_on_equal(file: Path) -> None:
    """The encoder learns; a model takes channels first; normalize leaves pictures alone."""
    values = json.loads(file.read_text())
    values["environment"]["name"], values["environment"]["arguments"] = "tests.envs.batched.recalling:Pictures", {}
    network = {"hidden_units": 8, "num_layers": 1, "normalize": True, "vis_encode_type": "match3"}
    values["behaviors"] = {"both": {key: LEFT[key] for key in ("trainer_type", "hyperparameters")}}
    values["behaviors"]["both"]["network_settings"] = network
    file.write_text(json.dumps(values))
    seen: list[Any] = []
    announce = CopiesCollector.announce

    def look(copies: CopiesCollector) -> None:
        seen.append({name: value.copy() for name, value in copies.saved[0].algorithm.state()[0].items()})
        announce(copies)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CopiesCollector, "announce", look)
        straight = train(file, "straight")
    last = newest(straight, "both")
    moved = [name for name in seen[0] if name.startswith("model.encoders.")]
    assert len(moved) > 4
    for name in moved:
        assert not np.array_equal(seen[0][name], last.tensors[name]), name
    assert not [name for name in last.tensors if "normalizer" in name]
    cut(file, "cut", steps=8)
    same(last, newest(train(file, "cut", checkpoint_settings__resume=True), "both"))
    assert onnxruntime.InferenceSession(straight.models[0]).get_inputs()[0].shape[1:] == [2, 6, 5]
    assert evaluate_copies(straight.folder) is not None


def test_deep_q_learning_sees_vectors(file: Path) -> None:
    values = json.loads(file.read_text())
    values["environment"]["name"], values["environment"]["arguments"] = "tests.envs.batched.recalling:Pictures", {}
    values["behaviors"] = {"both": {"trainer_type": "dqn", "hyperparameters": {"buffer_size": 64, "batch_size": 8}}}
    file.write_text(json.dumps(values))
    [entry] = Playing(load_batched(file)).policies
    assert entry.spec.observations[0].shape == (60,)

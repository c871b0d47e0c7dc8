"""MA-POCA and MAPPO in whole runs: groups over the wire's tables, checkpoints, what a run begins with, model files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tau_trainer.algorithms.groups import GroupReader
from tau_trainer.errors import CheckpointError
from tau_trainer.metrics import keys
from tau_trainer.settings import RunSettings, load_settings
from tests.training.fakes import Memory, Stage, train
from tests.training.pairs.test_collector import cut_off, hashes

SMALL = {
    "max_steps": 1500,
    "checkpoint_interval": 400,
    "keep_checkpoints": 0,
    "summary_freq": 500,
    "time_horizon": 16,
    "hyperparameters.batch_size": 50,
    "hyperparameters.buffer_size": 200,
    "network_settings.hidden_units": 16,
    "network_settings.normalize": True,
}


def dungeon(results: Path, run_id: str = "whole", trainer: str = "poca", **more: Any) -> RunSettings:
    given: dict[str, Any] = {f"behaviors.DungeonEscape.{key}": value for key, value in SMALL.items()}
    given |= {
        "behaviors.DungeonEscape.trainer_type": trainer,
        "checkpoint_settings.results_dir": str(results),
        "checkpoint_settings.run_id": run_id,
        "collection.deterministic": True,
        "env_settings.env_path": "headless:dungeon",
        "env_settings.seed": 1,
    }
    return load_settings("DungeonEscape", given | {key.replace("__", "."): value for key, value in more.items()})


@pytest.mark.parametrize("trainer", ["poca", "mappo"])
def test_a_run_escapes_and_is_the_same_again(stage: Stage, tmp_path: Path, memory: Memory, trainer: str) -> None:
    """Also where it was cut off and resumed: equal to the bit; one of them with a memory, the other one curious."""
    curious = {"curiosity": {"strength": 0.1, "network_settings": {"hidden_units": 16}}} if trainer == "mappo" else {}
    remembers = {} if trainer == "mappo" else {"memory_size": 8, "sequence_length": 10}
    more: dict[str, Any] = {"behaviors__DungeonEscape__reward_signals": {"extrinsic": {}} | curious}
    more["behaviors__DungeonEscape__network_settings__memory"] = remembers or None
    whole = train(dungeon(tmp_path, trainer=trainer, **more), memory, "learn")
    assert whole.outcome == "completed"
    assert not [text for text in memory.warnings if "group" in text]
    statistics = memory.summaries[-1].statistics
    wanted = [keys.GROUP_CUMULATIVE_REWARD, keys.VALUE_LOSS, keys.value_estimate("extrinsic")]
    wanted += [keys.BASELINE_LOSS, keys.baseline_estimate("extrinsic")] if trainer == "poca" else []
    assert {name for name in wanted if name not in statistics} == set()
    assert (keys.BASELINE_LOSS in statistics) == (trainer == "poca")
    assert (keys.episode_reward("curiosity") in statistics) == bool(curious)
    got = [summary.statistics[keys.GROUP_CUMULATIVE_REWARD].mean for summary in memory.summaries]
    assert 0.0 < max(got) < 1.0, "some groups escape by chance"
    # Members that leave tell nothing of their group's reward: else one that escapes without them would count less.
    counts = [
        [each.statistics[name].count for each in memory.summaries] for name in (wanted[0], keys.CUMULATIVE_REWARD)
    ]
    assert all(0.5 < groups / agents < 1.0 for groups, agents in zip(*counts, strict=True))
    cut_off(whole, tmp_path / "cut", 2)
    resumed = train(dungeon(tmp_path, "cut", trainer, checkpoint_settings__resume=True, **more), None, "learn")
    assert hashes(resumed) == hashes(whole)

    # The model is the actor alone; agents decide by what they see themselves.
    model = onnxruntime.InferenceSession(whole.models[0])
    asked = {"obs_0": np.random.default_rng(0).normal(size=(5, 19)).astype(np.float32)}
    asked |= {"action_masks": np.ones((5, 5), np.float32)}
    asked |= {"recurrent_in": np.zeros((5, 1, 8), np.float32)} if remembers else {}
    assert [entry.name for entry in model.get_inputs()] == list(asked)
    (chosen,) = model.run(["deterministic_discrete_actions"], asked)
    assert chosen.shape == (5, 1)


def test_a_run_begins_with_what_another_one_learned_of_its_kind(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    train(dungeon(tmp_path, "first"), None, "learn")
    begun = dungeon(tmp_path, "second", checkpoint_settings__initialize_from="first")
    assert train(begun, memory, "learn").outcome == "completed"
    assert any("starts with the weights of" in (event.message or "") for event in memory.events)
    other = dungeon(tmp_path, "third", "mappo", checkpoint_settings__initialize_from="first")
    with pytest.raises(CheckpointError, match=r"The checkpoint's trainer type is 'poca', behavior .* needs 'mappo'"):
        train(other, None, "learn")


def test_a_group_of_two_engines_is_not_one(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both number their groups from 1, and feed one learner."""
    largest: list[int] = []
    samples = GroupReader.samples

    def watched(self: GroupReader, network: Any) -> Any:
        found = samples(self, network)
        largest.append(int(self.seating.sizes.max()))
        return found

    monkeypatch.setattr(GroupReader, "samples", watched)
    train(dungeon(tmp_path, env_settings__num_envs=2), None, "learn")
    assert set(largest) == {3}

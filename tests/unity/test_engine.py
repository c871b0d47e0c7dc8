"""The C# engine, the Unity project's own core over the real wire, beside our Python engine and our trainer."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.engine import Engine, EngineOptions
from tau_trainer.bridge.launcher import LaunchSpec
from tau_trainer.bridge.side_channels import Sampler, SamplerKind, SideChannelHub, Stat
from tau_trainer.headless import EnvironmentParameters, create_scene
from tau_trainer.headless.args import parse_args
from tau_trainer.settings import dump_settings, load_settings
from tau_trainer.specs import Actions, BehaviorSpec, FloatArray, StepBatch, Terminals
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.profiles import get_profile
from tau_trainer.tau.targets import targets

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tau_trainer" / "tau" / "data" / "tau.json"
BEHAVIOR = "TauAgent?team=0"
WAIT = 50.0
ACTION_SCALE = 1.4
"""Actions reach beyond what the engine clips to."""
NONE, INTERRUPTED = 0, 2


@dataclass
class Wishes:
    """What a trainer asks of an engine: ``steps`` exchanges, with a reset instead of a step at some of them."""

    steps: int
    seed: int = 3
    areas: int = 1
    resets: Sequence[int] = ()
    parameters: Mapping[str, float | Sampler] = field(default_factory=dict)
    later: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    listen: str | None = None


@dataclass
class Seen:
    """What the trainer has met."""

    batches: list[StepBatch] = field(default_factory=list)
    actions: list[FloatArray | None] = field(default_factory=list)
    """Answer to each batch; None: a reset."""
    specs: dict[str, BehaviorSpec] = field(default_factory=dict)
    stats: list[Stat] = field(default_factory=list)
    exit_code: int | None = None
    log: str = ""


def actions_of(step: int, batch: StepBatch, size: int) -> FloatArray:
    """Thousandths, the same in every program, in both directions beyond what is clipped."""
    agents, index = batch.agent_ids.astype(np.int64)[:, None], np.arange(size)[None, :]
    thousandths = (step * 7919 + agents * 104729 + index * 1299709) % 2001 - 1000
    return (ACTION_SCALE * thousandths / 1000.0).astype(np.float32)


def as_actions(values: FloatArray) -> Actions:
    return Actions(values, np.zeros((len(values), 0), np.int32))


async def _step(engine: Engine, seen: Seen, step: int, wishes: Wishes) -> StepBatch:
    """One exchange; an engine may send a message whose list of agents is empty, but never here."""
    engine.channels.send_environment_parameters(dict(wishes.later.get(step, {})))
    last = seen.batches[-1]
    if step in wishes.resets:
        seen.actions.append(None)
        (batch,) = await engine.reset()
    else:
        values = actions_of(step, last, engine.specs[BEHAVIOR].actions.continuous_size)
        seen.actions.append(values)
        (batch,) = await engine.step({BEHAVIOR: as_actions(values)})
    return batch


def play(build: Path, folder: Path, flags: Sequence[str], wishes: Wishes) -> Seen:
    """Let our trainer's side of the wire start the engine and play."""
    seen = Seen()

    async def main() -> None:
        options = EngineOptions(seed=wishes.seed, num_areas=wishes.areas, timeout_s=20.0, listen=wishes.listen)
        launch = LaunchSpec((str(build),), env_args=("--tau-data", str(DATA), *flags), log_folder=folder)
        engine = Engine(0, 0, launch, options, SideChannelHub(seen.stats.append))
        await engine.start()
        seen.batches += await engine.reset(dict(wishes.parameters))
        for step in range(wishes.steps):
            seen.batches.append(await _step(engine, seen, step, wishes))
        seen.specs.update(engine.specs)
        await engine.close()
        assert engine.process is not None
        seen.exit_code = engine.process.returncode

    asyncio.run(asyncio.wait_for(main(), WAIT))
    seen.log = (folder / "Player-0.log").read_text("utf-8")
    assert seen.exit_code == 0, seen.log
    return seen


def play_here(flags: Sequence[str], wishes: Wishes) -> list[StepBatch]:
    """The same game by our Python scene in this process."""
    names = {"--tau-max-decisions": "--max-decisions", "--tau-pairs": "--agents", "--tau-seed": "--seed"}
    told = EnvironmentParameters(wishes.parameters)
    options = parse_args(["--scene", "tau", *(names.get(flag, flag) for flag in flags)])
    scene = create_scene(options, told, seed=wishes.seed, areas=wishes.areas)
    batches = [scene.reset(told)]
    for step in range(wishes.steps):
        changes = wishes.later.get(step, {})
        for name, value in changes.items():
            told.set(name, value)
        if step in wishes.resets:
            if "seed" in told:
                scene.seed(int(told.get("seed", 0.0)))
            batches.append(scene.reset(told))
            continue
        if changes:
            scene.update(told)
        size = scene.spec.actions.continuous_size
        batches.append(scene.step(as_actions(actions_of(step, batches[-1], size))))
    return batches


def fields_of(part: StepBatch | Terminals) -> dict[str, Any]:
    """All arrays as bytes, so that equal means equal bit for bit."""
    same = {
        "ids": part.agent_ids.tolist(),
        "reward": part.reward.tobytes(),
        "observations": [sensor.tobytes() for sensor in part.obs],
        "groups": part.group_id.tolist(),
    }
    if isinstance(part, Terminals):
        return {**same, "truncated": part.truncated.tolist()}
    return {**same, "ended": fields_of(part.terminals)}


def assert_same(over_wire: Sequence[StepBatch], here: Sequence[StepBatch]) -> None:
    assert len(over_wire) == len(here)
    for step, (left, right) in enumerate(zip(over_wire, here, strict=True)):
        ours, theirs = fields_of(left), fields_of(right)
        for name in ours:
            assert ours[name] == theirs[name], f"{name} differs in exchange {step}"


# --- the same game as our Python engine -------------------------------------------------------------------------------

LATER: Mapping[int, Mapping[str, float]] = {
    60: {"max_decisions": 3.0, "reward_type": 0.0},
    100: {"split": 1.0, "reward_threshold": -2.0, "reward_type": 2.0},
    130: {"columns": 2.0, "faithful_terminal": 1.0},
    150: {"max_decisions": 5.0, "columns": 1.0},  # together with a reset
    170: {"max_decisions": 0.0, "threshold": 0.4},
}
EVENTFUL = Wishes(220, resets=(40, 41, 90, 150), parameters={"threshold": 0.3}, later=LATER)
GAMES = {
    "short episodes": (["--tau-pairs", "5", "--tau-max-decisions", "7", "--tau-target-sensor"], EVENTFUL),
    "reward threshold": (["--tau-agents", "4", "--tau-reward-threshold", "-5"], EVENTFUL),
    "faithful": (["--tau-agents", "3", "--tau-max-decisions", "9", "--tau-faithful-terminal"], EVENTFUL),
    "tau384": (["--tau-agents", "3", "--tau-profile", "tau384", "--tau-max-decisions", "5"], EVENTFUL),
    "held-out rows": (["--tau-agents", "2", "--tau-split", "evaluation", "--tau-seed", "11"], Wishes(200)),
    "ids of two bytes": (["--tau-agents", "200", "--tau-max-decisions", "2"], Wishes(12)),
    "the usual number": ([], Wishes(3)),
    "told by parameters": (
        [],
        Wishes(
            20,
            areas=2,
            parameters={"num_agents": 3.0, "profile": 0.0, "target_sensor": 1.0, "seed": 8.0},
            resets=(7, 8),
        ),
    ),
    "grpcio's server": (["--tau-agents", "60", "--tau-max-decisions", "4"], Wishes(60, listen="localhost")),
}


@pytest.mark.parametrize("name", GAMES)
def test_the_game_is_our_python_engines_bit_for_bit(engine_build: Path, tmp_path: Path, name: str) -> None:
    flags, wishes = GAMES[name]
    seen = play(engine_build, tmp_path, flags, wishes)
    assert_same(seen.batches, play_here(flags, wishes))


def test_the_behavior_is_described_as_our_python_engine_does(engine_build: Path, tmp_path: Path) -> None:
    for profile in ("tau3", "tau384"):
        for sensor in ([], ["--tau-target-sensor"]):
            flags = ["--tau-agents", "2", "--tau-profile", profile, *sensor]
            scene = create_scene(parse_args(["--scene", "tau", *flags]), EnvironmentParameters())
            assert play(engine_build, tmp_path, flags, Wishes(0)).specs == {BEHAVIOR: scene.spec}


def test_ends_are_told_apart(engine_build: Path, tmp_path: Path) -> None:
    """Cut by a limit, or over because of the reward; a reset ends nothing."""
    seen = play(engine_build, tmp_path, ["--tau-agents", "4", "--tau-max-decisions", "6"], Wishes(30, resets=(20,)))
    cut = [batch.terminals for batch in seen.batches if len(batch.terminals)]
    assert len(cut) == 4  # at 6, 12, 18 and, as the reset begins all anew, 27
    assert all(end.truncated.all() and end.agent_ids.tolist() == [0, 1, 2, 3] for end in cut)
    assert [step for step, batch in enumerate(seen.batches) if len(batch.terminals)] == [6, 12, 18, 27]
    lost = play(engine_build, tmp_path, ["--tau-agents", "4", "--tau-reward-threshold", "-3"], Wishes(30))
    over = [batch.terminals for batch in lost.batches if len(batch.terminals)]
    assert over
    assert not any(end.truncated.any() for end in over)


def test_a_large_message_passes_the_servers_windows(engine_build: Path, tmp_path: Path) -> None:
    flags = ["--tau-agents", "4000", "--tau-profile", "tau384"]
    wishes = Wishes(2, listen="localhost")
    seen = play(engine_build, tmp_path, flags, wishes)
    assert seen.batches[0].obs[0].nbytes > 4 * 2**20
    assert_same(seen.batches, play_here(flags, wishes))


def test_statistics_are_those_of_our_python_engine(engine_build: Path, tmp_path: Path) -> None:
    flags, wishes = ["--tau-agents", "50"], Wishes(45)
    seen = play(engine_build, tmp_path, flags, wishes)
    scene = create_scene(parse_args(["--scene", "tau", *flags]), EnvironmentParameters(), seed=wishes.seed)
    batch = scene.reset(EnvironmentParameters())
    wanted: list[Stat] = []
    for step in range(wishes.steps):
        batch = scene.step(as_actions(actions_of(step, batch, 3)))
        wanted += scene.stats()
    found = [stat for stat in seen.stats if stat.key not in ("Tau/Engine Success Rate", "Tau/Engine Aggregated Reward")]
    assert [(stat.key, stat.aggregation) for stat in found] == [(stat.key, stat.aggregation) for stat in wanted]
    assert [stat.value for stat in found] == pytest.approx([stat.value for stat in wanted], rel=1e-6)
    assert [stat.value for stat in found if stat.key == "Tau/Decisions"] == [1000.0, 2000.0]
    assert len(seen.stats) == len(found) + 4


def test_a_sampler_is_drawn_within_its_range(engine_build: Path, tmp_path: Path) -> None:
    """Limits of three to five decisions: every end is cut, and none comes at another time."""
    limit = Sampler(SamplerKind.UNIFORM, 5, (3.0, 5.99))
    wishes = Wishes(40, parameters={"max_decisions": limit}, later={10: {"unheard": 1.0}, 20: {"unheard": 2.0}})
    seen = play(engine_build, tmp_path, ["--tau-agents", "1"], wishes)
    ends = [step for step, batch in enumerate(seen.batches) if len(batch.terminals)]
    assert len(ends) >= 6
    assert set(np.diff([0, *ends])) <= {3, 4, 5}


# --- rewards ----------------------------------------------------------------------------------------------------------


@dataclass
class Decisions:
    """An engine's own log of every decision, see DecisionLog.cs."""

    exchange: Any
    pair: Any
    split: Any
    row: Any
    end: Any
    reward: Any
    action: Any

    @staticmethod
    def read(path: Path) -> Decisions:
        data = path.read_bytes()
        magic, version, size = data[:4], *np.frombuffer(data, "<i4", 2, 4)
        assert (magic, version) == (b"TAUD", 1)
        names = ("exchange", "pair", "split", "row", "end")
        kind = np.dtype([*((name, "<i4") for name in names), ("reward", "<f4"), ("action", "<f4", (int(size),))])
        table = np.frombuffer(data, kind, offset=12)
        return Decisions(**{name: table[name] for name in kind.names or ()})

    def expected(self, profile: str, formula: str, threshold: float = 0.1, columns: int | None = None) -> FloatArray:
        """What our formulas pay for these actions."""
        dataset = load_dataset(None)
        vectors = targets(dataset, get_profile(profile))
        wanted = np.empty_like(self.action)
        for number, name in enumerate(("train", "evaluation")):
            mine = self.split == number
            wanted[mine] = vectors[dataset.split(name).answer_index[self.row[mine]]]  # type: ignore[arg-type]
        output = np.clip(self.action, -1.0, 1.0)
        return REWARDS[formula](output, wanted, threshold, columns).astype(np.float32)


def rewards_over_wire(seen: Seen) -> FloatArray:
    """The reward of every decision as the trainer received it, in the order of its answers."""
    received: list[float] = []
    for asked, batch in zip(seen.batches, seen.batches[1:], strict=False):
        ended = dict(zip(batch.terminals.agent_ids.tolist(), batch.terminals.reward, strict=True))
        going = dict(zip(batch.agent_ids.tolist(), batch.reward, strict=True))
        paid = {**going, **ended}
        received += [paid[agent] for agent in asked.agent_ids.tolist()]
    return np.array(received, np.float32)


@pytest.mark.parametrize(
    ("profile", "formula", "threshold", "columns"),
    [
        ("tau3", "incremental", 0.1, None),
        ("tau384", "binary", 0.1, None),
        ("tau384", "difference", 0.1, None),
        ("tau384", "incremental", 0.1, 200),
        ("tau3", "binary", 0.35, None),
        ("tau3", "binary", 0.2, 2),
        ("tau3", "difference", 0.1, 1),
        ("tau3", "binary_strict", 0.6, None),
        ("tau3", "binary01", 0.6, 2),
    ],
)
def test_every_reward_is_what_our_formulas_pay(
    engine_build: Path, tmp_path: Path, profile: str, formula: str, threshold: float, columns: int | None
) -> None:
    """2,080 decisions each, float32 equality: in the engine's own log, and as the trainer received them."""
    log = tmp_path / "decisions.bin"
    flags = ["--tau-agents", "40", "--tau-profile", profile, "--tau-max-decisions", "11", "--report-file", str(log)]
    flags += ["--tau-reward", formula, "--tau-threshold", str(threshold)]
    flags += [] if columns is None else ["--tau-columns", str(columns)]
    seen = play(engine_build, tmp_path, flags, Wishes(52))
    decisions = Decisions.read(log)
    assert len(decisions.pair) == 2080
    sent = np.concatenate([values for values in seen.actions if values is not None])
    assert np.array_equal(decisions.action, sent)
    assert np.array_equal(decisions.pair, np.tile(np.arange(40), 52))
    assert np.array_equal(decisions.reward, decisions.expected(profile, formula, threshold, columns))
    assert np.array_equal(decisions.reward, rewards_over_wire(seen))
    assert len(np.unique(decisions.reward)) >= 2
    assert set(decisions.end) == {NONE, INTERRUPTED}


# --- more pairs than may train at once --------------------------------------------------------------------------------


def test_six_pairs_two_at_a_time(engine_build: Path, tmp_path: Path) -> None:
    """Three couples in turn have 50 decisions each, then the next round begins: nobody falls silent."""
    flags = ["--tau-pairs", "6", "--tau-max-concurrent", "2", "--tau-decisions", "50", "--tau-max-decisions", "20"]
    seen = play(engine_build, tmp_path, flags, Wishes(320))
    asked = [batch.agent_ids.tolist() for batch in seen.batches]
    assert asked == ([[0, 1]] * 50 + [[2, 3]] * 50 + [[4, 5]] * 50) * 2 + [[0, 1]] * 21
    ends = [(step, batch.terminals) for step, batch in enumerate(seen.batches) if len(batch.terminals)]
    assert [(step, end.agent_ids.tolist()) for step, end in ends if step <= 150] == [
        *((step, [0, 1]) for step in (20, 40, 50)),
        *((step, [2, 3]) for step in (70, 90, 100)),
        *((step, [4, 5]) for step in (120, 140, 150)),
    ]
    assert all(end.truncated.all() for _, end in ends)
    assert len(rewards_over_wire(seen)) == 640, "the reward of a pair's last decision arrives too"
    first = [batch.obs[0][0].tobytes() for batch in seen.batches]
    assert first[0:50] != first[150:200], "a second round has prompts of its own"
    assert seen.log.count("round 1 of 6 pairs is over") == 1
    report = seen.log.split("round 1 of 6 pairs is over")[1]
    assert report.count("Completed") >= 6
    assert "peak concurrency 2" in report


# --- the whole trainer ------------------------------------------------------------------------------------------------

SMALL = {
    "summary_freq": 500,
    "max_steps": 2000,
    "hyperparameters.buffer_size": 256,
    "hyperparameters.batch_size": 64,
    "hyperparameters.num_epoch": 1,
    "network_settings.hidden_units": 32,
    "network_settings.num_layers": 1,
}


@pytest.mark.slow
@pytest.mark.parametrize("engines", [1, 2])
def test_tau_train_trains_the_c_sharp_engine(engine_build: Path, tmp_path: Path, engines: int) -> None:
    """From the command line to an exported, evaluated policy; every reward on the way is what our formulas pay."""
    given: dict[str, Any] = {f"behaviors.*.{key}": value for key, value in SMALL.items()}
    given |= {"checkpoint_settings.results_dir": str(tmp_path), "checkpoint_settings.run_id": "run"}
    given |= {"env_settings.seed": 7, "env_settings.env_path": str(engine_build), "tau.pairs": engines, "tau.agents": 8}
    given["env_settings.env_args"] = ["--report-file", str(tmp_path / "decisions-{port}.bin")]
    settings = load_settings(ROOT / "configs" / "tau3.yaml", given)
    (tmp_path / "small.yaml").write_text(dump_settings(settings))
    done = subprocess.run(
        [sys.executable, "-m", "tau_trainer", "parallel", "small.yaml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TAU_DATA": str(DATA), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    run = tmp_path / "run"
    assert (run / "TauAgent.onnx").is_file()
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert evaluation["decisions"] == 2000
    assert f"{100 * evaluation['accuracy']:.1f} %" in done.stdout
    played = [Decisions.read(path) for path in sorted(tmp_path.glob("decisions-*.bin"))]
    assert len(played) == engines
    assert sum(len(one.pair) for one in played) >= 2000
    for one in played:
        assert np.array_equal(one.reward, one.expected("tau3", "incremental"))
    logs = [path.read_text("utf-8") for path in sorted((run / "run_logs").glob("Player-*.log"))]
    assert len(logs) == engines
    counted = [re.search(r"^ *all +(\d+) +\d+ +[-+0]", log, re.MULTILINE) for log in logs]
    assert sorted(int(found[1]) for found in counted if found) == sorted(len(one.pair) for one in played)

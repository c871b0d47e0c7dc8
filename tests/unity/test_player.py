"""The Unity project without Unity: its own scripts and ML-Agents 3.0.0 itself, over the real wire, for our trainer.

What is stood in for is the core of the engine (`player/UnityEngine.*.cs`) and gRPC's client (`player/Grpc.Core.cs`,
over .NET's HTTP/2). The agents' life, the academy's steps, messages and side channels are ML-Agents' own.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.engine import Engine
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.bridge.side_channels import SideChannelHub, Stat
from tau_trainer.errors import EngineExitedError
from tau_trainer.headless.args import parse_args
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import create_scene
from tau_trainer.settings import dump_settings, load_settings
from tau_trainer.specs import Actions, BehaviorSpec, FloatArray, StepBatch, Terminals
from tau_trainer.tau.data import embed
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.encoder import HashingEncoder
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.unity_file import export_unity
from tests.trainers import ran
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[2]
BEHAVIOR = "TauAgent?team=0"
WAIT = HANG_S
ACTION_SCALE = 1.4
"""Actions reach beyond what the game clips to."""


@dataclass
class Wishes:
    """What a trainer asks of an engine: ``steps`` exchanges, with a reset instead of a step at some of them."""

    steps: int
    areas: int = 1
    resets: Sequence[int] = ()
    parameters: Mapping[str, float] = field(default_factory=dict)
    later: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    diverged: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Agents whose action is NaN, by step."""
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

    def sensor(self, batch: StepBatch | Terminals, name: str) -> FloatArray:
        """What one sensor saw: the order of sensors is a matter of the machine's culture."""
        names = [spec.name for spec in self.specs[BEHAVIOR].observations]
        return batch.obs[names.index(name)]

    def decisions(self) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """(targets, actions, rewards) of each exchange's agents; needs the sensor `target`."""
        found = []
        for asked, values, batch in zip(self.batches, self.actions, self.batches[1:], strict=False):
            if values is not None:
                paid = dict(zip(batch.agent_ids.tolist(), batch.reward, strict=True))
                paid |= dict(zip(batch.terminals.agent_ids.tolist(), batch.terminals.reward, strict=True))
                rewards = np.array([paid[agent] for agent in asked.agent_ids.tolist()], np.float32)
                found.append((self.sensor(asked, "target"), values, rewards))
        return found


def actions_of(step: int, batch: StepBatch, size: int) -> FloatArray:
    """Thousandths, the same in every program, in both directions beyond what is clipped."""
    agents, index = batch.agent_ids.astype(np.int64)[:, None], np.arange(size)[None, :]
    thousandths = (step * 7919 + agents * 104729 + index * 1299709) % 2001 - 1000
    return (ACTION_SCALE * thousandths / 1000.0).astype(np.float32)


def as_actions(values: FloatArray) -> Actions:
    return Actions(values, np.zeros((len(values), 0), np.int32))


async def _step(engine: Engine, seen: Seen, step: int, wishes: Wishes) -> StepBatch:
    engine.channels.send_environment_parameters(dict(wishes.later.get(step, {})))
    last = seen.batches[-1]
    if step in wishes.resets:
        seen.actions.append(None)
        (batch,) = await engine.reset()
    else:
        values = actions_of(step, last, engine.specs[BEHAVIOR].actions.continuous_size)
        values[np.isin(last.agent_ids, wishes.diverged.get(step, ()))] = np.nan
        seen.actions.append(values)
        (batch,) = await engine.step({BEHAVIOR: as_actions(values)})
    return batch


def play(player: Path, folder: Path, flags: Sequence[str], wishes: Wishes, code: int = 0) -> Seen:
    """Let our trainer's side of the wire start the player and play, or see it end by itself with another code."""
    seen = Seen()

    async def main() -> None:
        options = EngineOptions(seed=3, num_areas=wishes.areas, timeout_s=HANG_S, listen=wishes.listen)
        launch = LaunchSpec((str(player),), env_args=tuple(flags), no_graphics=True, log_folder=folder)
        engine = Engine(0, 0, launch, options, SideChannelHub(seen.stats.append))
        try:
            await engine.start()
            seen.batches += await engine.reset(dict(wishes.parameters))
            for step in range(wishes.steps):
                seen.batches.append(await _step(engine, seen, step, wishes))
        except EngineExitedError:
            assert code != 0, (folder / "Player-0.log").read_text("utf-8")
        finally:
            seen.specs.update(engine.specs)
            await engine.close()
        assert engine.process is not None
        seen.exit_code = engine.process.returncode

    asyncio.run(asyncio.wait_for(main(), WAIT))
    seen.log = (folder / "Player-0.log").read_text("utf-8")
    assert seen.exit_code == code, seen.log
    assert "Exception" not in seen.log
    return seen


def play_here(flags: Sequence[str], wishes: Wishes) -> list[StepBatch]:
    """The same game by our Python scene in this process."""
    names = {"--tau-max-decisions": "--max-decisions", "--tau-pairs": "--agents", "--tau-seed": "--seed"}
    told = EnvironmentParameters(wishes.parameters)
    options = parse_args(["--scene", "tau", *(names.get(flag, flag) for flag in flags)])
    scene = create_scene(options, told, areas=wishes.areas)
    batches = scene.reset(told)
    for step in range(wishes.steps):
        if step in wishes.resets:
            batches += scene.reset(told)
        else:
            size = scene.specs[0].actions.continuous_size
            batches += scene.step({BEHAVIOR: as_actions(actions_of(step, batches[-1], size))})
    return batches


def fields_of(part: StepBatch | Terminals, order: Sequence[int]) -> dict[str, Any]:
    """All arrays as bytes, so that equal means equal bit for bit."""
    same = {
        "ids": part.agent_ids.tolist(),
        "reward": part.reward.tobytes(),
        "observations": [part.obs[position].tobytes() for position in order],
        "groups": part.group_id.tolist(),
    }
    if isinstance(part, Terminals):
        return {**same, "truncated": part.truncated.tolist()}
    return {**same, "ended": fields_of(part.terminals, order)}


def assert_same_game(seen: Seen, flags: Sequence[str], wishes: Wishes) -> None:
    """Bit for bit what our Python scene plays."""
    here = play_here(flags, wishes)
    assert len(seen.batches) == len(here)
    names = [spec.name for spec in seen.specs[BEHAVIOR].observations]
    order = sorted(range(len(names)), key=lambda position: names[position].lower())
    for step, (left, right) in enumerate(zip(seen.batches, here, strict=True)):
        ours, theirs = fields_of(left, order), fields_of(right, range(len(names)))
        for name in ours:
            assert ours[name] == theirs[name], f"{name} differs in exchange {step}"


# --- the same game as our Python engine -------------------------------------------------------------------------------

EVENTFUL = Wishes(120, resets=(40, 41, 90), parameters={"threshold": 0.3})
SEED = ["--tau-seed", "11"]
GAMES = {
    "short episodes": (["--tau-pairs", "5", "--tau-max-decisions", "7", "--tau-target-sensor", *SEED], EVENTFUL),
    "reward threshold": (["--tau-agents", "4", "--tau-reward-threshold", "-5", *SEED], EVENTFUL),
    "faithful": (["--tau-agents", "3", "--tau-max-decisions", "9", "--tau-faithful-terminal", *SEED], EVENTFUL),
    "tau384": (["--tau-agents", "3", "--tau-profile", "tau384", "--tau-max-decisions", "5", *SEED], EVENTFUL),
    "held-out rows": (["--tau-agents", "2", "--tau-split", "evaluation", *SEED], Wishes(200)),
    "ids of two bytes": (["--tau-agents", "200", "--tau-max-decisions", "2", *SEED], Wishes(12)),
    "the usual number": (SEED, Wishes(3)),
    "told by parameters": (
        [],
        Wishes(20, areas=2, parameters={"num_agents": 3.0, "profile": 0.0, "target_sensor": 1.0, "seed": 8.0}),
    ),
    "grpcio's server": (["--tau-agents", "60", "--tau-max-decisions", "4", *SEED], Wishes(60, listen="localhost")),
    "large messages": (
        ["--tau-agents", "3000", "--tau-profile", "tau384", *SEED],
        Wishes(1, listen="localhost"),
    ),
}


@pytest.mark.parametrize("name", GAMES)
def test_the_game_is_our_python_engines_bit_for_bit(player: Path, tmp_path: Path, name: str) -> None:
    flags, wishes = GAMES[name]
    assert_same_game(play(player, tmp_path, flags, wishes), flags, wishes)


def test_the_behavior_is_described_as_our_python_engine_does(player: Path, tmp_path: Path) -> None:
    for profile in ("tau3", "tau384"):
        flags = ["--tau-agents", "2", "--tau-profile", profile, "--tau-target-sensor"]
        spec = create_scene(parse_args(["--scene", "tau", *flags]), EnvironmentParameters()).specs[0]
        found = play(player, tmp_path, flags, Wishes(0)).specs[BEHAVIOR]
        assert set(found.observations) == set(spec.observations)
        assert found.actions == spec.actions


def test_ends_are_told_apart(player: Path, tmp_path: Path) -> None:
    """Cut by a limit, or over because of the reward; a reset ends nothing."""
    seen = play(player, tmp_path, ["--tau-agents", "4", "--tau-max-decisions", "6"], Wishes(30, resets=(20,)))
    ends = {step: batch.terminals for step, batch in enumerate(seen.batches) if len(batch.terminals)}
    assert list(ends) == [6, 12, 18, 27]  # the reset begins all anew at 21
    assert all(end.truncated.all() and end.agent_ids.tolist() == [0, 1, 2, 3] for end in ends.values())
    lost = play(player, tmp_path, ["--tau-agents", "4", "--tau-reward-threshold", "-3"], Wishes(30))
    over = [batch.terminals for batch in lost.batches if len(batch.terminals)]
    assert over
    assert not any(end.truncated.any() for end in over)


def test_rules_follow_environment_parameters_while_the_game_runs(player: Path, tmp_path: Path) -> None:
    """A number that arrives with a step holds from the next prompt on."""
    later: Mapping[int, Mapping[str, float]] = {
        5: {"max_decisions": 3.0, "reward_type": 0.0, "threshold": 0.4},
        15: {"columns": 2.0, "max_decisions": 0.0},
        25: {"split": 1.0, "reward_type": 2.0},
    }
    seen = play(player, tmp_path, ["--tau-agents", "5", "--tau-target-sensor"], Wishes(35, later=later))
    held_out = {row.tobytes() for row in load_dataset().evaluation.prompts}
    for step, (target, values, rewards) in enumerate(seen.decisions()):
        formula = "binary" if 6 <= step <= 25 else "incremental"
        expected = REWARDS[formula](np.clip(values, -1.0, 1.0), target, 0.4, 2 if step > 15 else None)
        np.testing.assert_array_equal(rewards, expected.astype(np.float32), err_msg=f"step {step}")
        prompts = {row.tobytes() for row in seen.sensor(seen.batches[step], "VectorSensor_size384")}
        assert (prompts <= held_out) is (step > 25)
    assert [step for step, batch in enumerate(seen.batches) if len(batch.terminals)] == [7, 10, 13, 16]


def test_statistics_are_those_of_our_python_engine(player: Path, tmp_path: Path) -> None:
    flags, wishes = ["--tau-agents", "50", *SEED], Wishes(45)
    seen = play(player, tmp_path, flags, wishes)
    scene = create_scene(parse_args(["--scene", "tau", "--agents", "50", "--seed", "11"]), EnvironmentParameters())
    (batch,) = scene.reset(EnvironmentParameters())
    wanted: dict[str, list[float]] = {}
    for step in range(wishes.steps):
        (batch,) = scene.step({BEHAVIOR: as_actions(actions_of(step, batch, 3))})
        for stat in scene.stats():
            wanted.setdefault(stat.key, []).append(stat.value)
    found: dict[str, list[float]] = {}
    for stat in seen.stats:
        found.setdefault(stat.key, []).append(stat.value)
    assert found["Tau/Decisions"] == [1000.0, 2000.0]
    assert len(wanted) > 50
    for key, values in wanted.items():
        assert found[key] == pytest.approx(values, rel=1e-5), key
    assert [len(found[f"Tau/Engine {name}"]) for name in ("Success Rate", "Aggregated Reward")] == [2, 2]
    assert {stat.aggregation.name for stat in seen.stats if stat.key == "Tau/Decisions"} == {"MOST_RECENT"}
    assert {stat.aggregation.name for stat in seen.stats if stat.key == "Tau/Accuracy"} == {"AVERAGE"}


# --- rewards ----------------------------------------------------------------------------------------------------------

FORMULAS = ("binary", "difference", "incremental", "binary_strict", "binary01")
"""In the order of the environment parameter `reward_type`."""


@pytest.mark.parametrize(
    ("profile", "paid"),
    [
        ("tau3", [("incremental", 0.1, None), ("binary_strict", 0.6, None), ("binary", 0.2, 2), ("difference", 0.1, 1),
                  ("binary01", 0.6, 2)]),
        ("tau384", [("incremental", 0.1, 200), ("binary", 0.1, 384), ("difference", 0.1, 384)]),
    ],
    ids=["tau3", "tau384"],
)  # fmt: skip
def test_every_reward_is_what_our_formulas_pay(
    player: Path, tmp_path: Path, profile: str, paid: list[tuple[str, float, int | None]]
) -> None:
    """480 decisions of each, as the trainer received them: the first is told by flags, the others while it plays."""
    formula, threshold, columns = paid[0]
    flags = ["--tau-agents", "40", "--tau-profile", profile, "--tau-max-decisions", "11", "--tau-target-sensor"]
    flags += ["--tau-reward", formula, f"--tau-threshold={threshold}"]
    flags += [] if columns is None else ["--tau-columns", str(columns)]
    later = {}
    for place, (name, limit, count) in enumerate(paid[1:], 1):
        told = {"reward_type": float(FORMULAS.index(name)), "threshold": limit}
        later[12 * place - 1] = told if count is None else {**told, "columns": float(count)}
    decisions = play(player, tmp_path, flags, Wishes(12 * len(paid), later=later)).decisions()
    assert len(decisions) == 12 * len(paid)
    for place, (name, limit, count) in enumerate(paid):
        part = decisions[12 * place : 12 * (place + 1)]
        targets, actions, rewards = (np.concatenate(arrays) for arrays in zip(*part, strict=True))
        expected = REWARDS[name](np.clip(actions, -1.0, 1.0), targets, limit, count)
        np.testing.assert_array_equal(rewards, expected.astype(np.float32), err_msg=name)
        assert len(np.unique(rewards)) >= 2


# --- more pairs than may train at once --------------------------------------------------------------------------------


def test_six_pairs_two_at_a_time(player: Path, tmp_path: Path) -> None:
    """Three couples in turn have 50 decisions each, then the next round begins: nobody falls silent."""
    flags = ["--tau-pairs", "6", "--tau-max-concurrent", "2", "--tau-decisions", "50", "--tau-max-decisions", "20"]
    seen = play(player, tmp_path, [*flags, "--tau-target-sensor"], Wishes(320))
    couples = [[first, first + 1] for first in range(0, 14, 2)]
    assert [batch.agent_ids.tolist() for batch in seen.batches] == [couples[step // 50] for step in range(321)]
    ends = [(step, batch.terminals) for step, batch in enumerate(seen.batches) if len(batch.terminals)]
    assert [(step, end.agent_ids.tolist()) for step, end in ends if step <= 150] == [
        *((step, [0, 1]) for step in (20, 40, 50)),
        *((step, [2, 3]) for step in (70, 90, 100)),
        *((step, [4, 5]) for step in (120, 140, 150)),
    ]
    assert all(end.truncated.all() for _, end in ends)
    assert sum(len(rewards) for _, _, rewards in seen.decisions()) == 640, "the last reward of a pair arrives too"
    for target, values, rewards in seen.decisions():
        expected = REWARDS["incremental"](np.clip(values, -1.0, 1.0), target, 0.1, None)
        np.testing.assert_array_equal(rewards, expected.astype(np.float32))
    first = [seen.sensor(batch, "VectorSensor_size384")[0].tobytes() for batch in seen.batches]
    assert first[0:50] != first[150:200], "a second round has prompts of its own"
    assert [f"Round {number} has ended" in seen.log for number in (1, 2, 3)] == [True, True, False]
    report = seen.log.splitlines()[-1]
    assert report.startswith("peak concurrency 2; ")
    assert "the run was cancelled" in report


# --- the command line and the console ---------------------------------------------------------------------------------


def run_player(player: Path, *flags: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(player), "-batchmode", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, cwd=folder, check=False)


MISTAKES = {
    "pairs": (("--tau-pairs", "0"), "--tau-pairs: '0' is not a whole number from 1 to 1000000; correct this flag."),
    "two names": (("--tau-pairs", "2", "--tau-agents", "3"), "--tau-agents: 3 contradicts --tau-pairs 2, which is the"),
    "profile": (("--tau-profile=tau4",), "--tau-profile: 'tau4' is not one of tau3, tau384; correct this flag."),
    "columns": (("--tau-columns", "4"), "`columns` is 4, but profile `tau3` has columns 1 to 3."),
    "no end": (("--tau-pairs=3", "--tau-max-concurrent=2", "--tau-decisions=0"), "Decisions 0 means no limit, and"),
    "no such data": (("--tau-data", "nowhere.tau"), "nowhere.tau cannot be read"),
    "no exported data": (("--tau-data", "nowhere.json"), "make it with `tau-train data export-unity "),
    "nothing to do": ((), "No trainer is connected, and no flag starts training without one; give the trainer's port"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_sentence_and_exit_2(player: Path, tmp_path: Path, name: str) -> None:
    flags, words = MISTAKES[name]
    done = run_player(player, *flags, folder=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]


def test_a_mistyped_flag_is_told_and_ignored(player: Path) -> None:
    done = run_player(player, "--tau-agents=2", "--tau-decisons", "--tau-decisions=3")
    assert done.returncode == 0
    assert "`--tau-decisons` is not a flag of this game and is ignored; did you mean `--tau-decisions`?" in done.stderr
    assert "peak concurrency 2; 2 Completed" in done.stderr


def test_a_pair_that_fails_leaves_the_others_and_its_episode_was_cut(player: Path, tmp_path: Path) -> None:
    wishes = Wishes(9, diverged={3: [1], 6: [0, 2]})
    seen = play(player, tmp_path, ["--tau-agents", "3"], wishes, code=1)
    assert [batch.agent_ids.tolist() for batch in seen.batches] == [[0, 1, 2]] * 4 + [[0, 2]] * 3
    end = seen.batches[4].terminals
    assert (end.agent_ids.tolist(), end.truncated.tolist()) == ([1], [True])
    assert "Got NaN as an action for agent 1; the policy has diverged, train it again." in seen.log
    assert "peak concurrency 3; 3 Failed" in seen.log


def test_windows_are_those_of_the_command_line(player: Path) -> None:
    flags = ["--tau-agents=1", "--tau-decisions=30", "--tau-threshold=1e-6"]
    done = run_player(player, *flags, "--tau-aggregate=sum", "--tau-window=3", "--tau-values=pm1")
    assert re.search(r"\n +0  Completed +30 +0 +[-+]0\.\d+ +0\.0 % +-2\.900 ", done.stderr)  # (-1 - 2 - 28 * 3) / 30


def test_a_parameter_that_means_nothing_ends_the_game_with_2(player: Path, tmp_path: Path) -> None:
    wishes = Wishes(9, later={4: {"reward_type": 9.0}})
    log = play(player, tmp_path, ["--tau-agents", "2"], wishes, code=2).log
    assert "Environment parameter `reward_type` is 9; use 0 to 4: binary, difference, " in log
    assert "peak concurrency 2; 2 Cancelled; the run was cancelled" in log


def test_a_users_own_data_is_found_beside_the_json_that_trainers_name(player: Path, tmp_path: Path) -> None:
    turns = [{"role": "User", "message": "Which?"}, {"role": "Agent", "message": "this"}]
    rows = [{"domain": "d", "context": "c", "system": "s", "turns": turns}] * 2
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"training_data": rows, "evaluation_data": []}), encoding="utf-8")
    embed(path, HashingEncoder())
    export_unity(path, path.with_suffix(".tau"))
    for _ in range(2):
        done = run_player(player, "--tau-agents=2", "--tau-decisions=3", "--tau-data", str(path))
        assert done.returncode == 0
        assert f"on {path.with_suffix('.tau')} (1 rows, profile tau3" in done.stderr
        assert "omitted; run `tau-train data audit` to see all of them." in done.stderr
        path.unlink(missing_ok=True)  # where a player runs nobody needs it
    done = run_player(player, "--tau-agents=2", "--tau-decisions=3", "--tau-data", path.name, folder=tmp_path)
    assert f"on {path.with_suffix('.tau')} (1 rows" in done.stderr, "looked for in the working directory"


def test_what_a_scene_says_gives_way_to_the_command_line(player: Path) -> None:
    fields = ["_pairs=3", "_maxConcurrent=2", "_decisions=7", "_profile=tau384", "_startAlone=true"]
    scene = [f"-field={field}" for field in fields]
    done = run_player(player, *scene)
    assert done.returncode == 0
    assert "Training 3 pairs, at most 2 at a time, on " in done.stderr
    assert "(1584 rows, profile tau384, seed " in done.stderr
    assert re.search(r"\n +2  Completed +7 ", done.stderr)
    told = run_player(player, *scene, "--tau-agents=4", "--tau-profile=tau3", "--tau-decisions=5").stderr
    assert "Training 4 pairs, at most 2 at a time, on " in told
    assert "profile tau3, seed " in told
    assert re.search(r"\n +3  Completed +5 ", told)
    asleep = run_player(player, *scene[:-1])
    assert (asleep.returncode, asleep.stderr.count("No trainer is connected")) == (2, 1)


def test_a_player_goes_on_alone_where_nobody_listens(player: Path) -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        done = run_player(player, f"--mlagents-port={place.getsockname()[1]}", "--tau-agents=2", "--tau-decisions=5")
    assert done.returncode == 0
    assert "2 Completed" in done.stderr


def typed(player: Path, *lines: str, flags: Sequence[str] = ()) -> list[str]:
    """What the console shows after these lines, each typed 250 steps of the game after the other."""
    done = run_player(player, *flags, *(f"-type={line}" for line in lines))
    assert "managers that listen: 0" in done.stderr.splitlines()
    return [line.removeprefix("console: ") for line in done.stderr.splitlines() if line.startswith("console: ")][1:]


def test_the_console_starts_reports_and_cancels_training(player: Path) -> None:
    shown = typed(
        player,
        "training agent tau tau.tau --agents 3 --max-concurrent 2 --decisions 1000",
        "training status",
        "training agent tau tau.tau --agents 1",
        "training cancel",
        "training cancel",
        "training agent tau tau.tau --agents 1 --profile tau384",
        "training status",
        "help",
        "trainng status",
    )
    text = "\n".join(shown)
    assert "> training agent tau tau.tau --agents 3" in text
    assert "\nTraining; `training status` shows the progress.\n" in text
    assert len(re.findall(r"\n +0  Training +250 ", text)) == 2, "one decision in each step, in a second training too"
    assert re.search(r"\n +2  Idle +0 ", text)
    assert "Training is already running; end it with `training cancel` first." in text
    assert "peak concurrency 2; 3 Cancelled; the run was cancelled" in text
    assert "No training is running" in text
    assert "training cancel           end all pairs, now" in text
    assert shown[-1] == "There is no command `trainng`; did you mean `training`?"


def test_the_console_shows_the_report_of_a_training_that_is_through(player: Path) -> None:
    text = "\n".join(typed(player, "training agent tau tau.tau --agents 2 --decisions 20 --profile tau384"))
    assert re.search(r"\n +1  Completed +20 ", text)
    assert "peak concurrency 2; 2 Completed" in text


def test_the_console_answers_questions_and_evaluates(player: Path) -> None:
    """The agent guesses, by its heuristic; whom it is asked for and what becomes of its guesses is the real thing."""
    held_out = load_dataset().evaluation
    asked = held_out.prompt_text[0]
    lines = [f"ask {asked.upper()}", f"ask Eh, {asked[5:]}", "evaluate", "evaluate"]
    shown = typed(player, *lines, flags=["-model", "-guess"])
    answer = re.compile(rf"\w+   \((right|wrong, it is {held_out.answer_text[0]}), \d+\.\d ms\)")
    assert answer.fullmatch(shown[1])
    assert re.match(r"`Eh, .*` is not a known question, .* answered the closest known one, \d\d % alike:", shown[3])
    assert shown[4] in {*held_out.prompt_text, *load_dataset().train.prompt_text}
    results = [line for line in shown if line.startswith("held-out rows: ")]
    assert len(results) == 2
    assert all(re.match(r"held-out rows: 198 of 198, right \d+\.\d %, mean reward -0\.\d+", one) for one in results)
    assert shown.count("Showing the model 198 held-out rows ...") == 2


def test_the_console_says_why_a_question_has_no_answer(player: Path) -> None:
    shown = typed(player, "ask What is one plus one?", "evaluate")
    wanted = "There is no trained model; train one and copy results/<run>/TauAgent.onnx to Assets/Tau/Resources/Models."
    assert [line for line in shown if not line.startswith(">")] == [wanted, wanted]
    broken = typed(player, "ask What is one plus one?", flags=["-model"])
    assert broken[1].startswith(
        "The model did not answer: it could not be loaded, or it does not fit profile tau3 (384"
    )


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
def test_tau_train_trains_the_unity_project(player: Path, tmp_path: Path) -> None:
    """From the command line to an exported, evaluated policy, in two engines, on a user's own file."""
    data = tmp_path / "mine.json"
    for suffix in (".json", ".vectors.npz"):
        shutil.copy(ROOT / "tau_trainer" / "tau" / "data" / f"tau{suffix}", tmp_path / f"mine{suffix}")
    export_unity(data, data.with_suffix(".tau"))
    given: dict[str, Any] = {f"behaviors.*.{key}": value for key, value in SMALL.items()}
    given |= {"checkpoint_settings.results_dir": str(tmp_path), "checkpoint_settings.run_id": "run"}
    given |= {"env_settings.seed": 7, "env_settings.env_path": str(player), "tau.pairs": 2, "tau.agents": 8}
    given |= {"tau.data": str(data), "engine_settings.no_graphics": True}
    settings = load_settings(ROOT / "configs" / "tau3.yaml", given)
    (tmp_path / "small.yaml").write_text(dump_settings(settings))
    done = ran(tmp_path, "parallel", "small.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    run = tmp_path / "run"
    assert (run / "TauAgent.onnx").is_file()
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert evaluation["decisions"] == 2000
    assert f"{100 * evaluation['accuracy']:.1f} %" in done.stdout
    logs = [path.read_text("utf-8") for path in sorted((run / "run_logs").glob("Player-*.log"))]
    assert len(logs) == 2
    assert all(f"on {data.with_suffix('.tau')} (1584 rows, profile tau3" in log for log in logs)
    counted = [re.search(r"^ *all +(\d+) +\d+ +[-+0]", log, re.MULTILINE) for log in logs]
    assert sum(int(found[1]) for found in counted if found) >= 2000

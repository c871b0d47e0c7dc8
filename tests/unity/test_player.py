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


def play_here(flags: Sequence[str], wishes: Wishes) -> tuple[BehaviorSpec, list[StepBatch], list[Stat]]:
    """The same game by our Python scene in this process."""
    names = {"--tau-max-decisions": "--max-decisions", "--tau-pairs": "--agents", "--tau-seed": "--seed"}
    told = EnvironmentParameters(wishes.parameters)
    options = parse_args(["--scene", "tau", *(names.get(flag, flag) for flag in flags)])
    scene = create_scene(options, told, areas=wishes.areas)
    batches, stats = scene.reset(told), list[Stat]()
    for step in range(wishes.steps):
        if step in wishes.resets:
            batches += scene.reset(told)
            continue
        size = scene.specs[0].actions.continuous_size
        batches += scene.step({BEHAVIOR: as_actions(actions_of(step, batches[-1], size))})
        stats += scene.stats()
        for name, value in wishes.later.get(step, {}).items():
            told.set(name, value)
            scene.update(told)
    return scene.specs[0], batches, stats


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


def values_of(stats: Sequence[Stat]) -> dict[str, list[float]]:
    """By name and aggregation."""
    found: dict[str, list[float]] = {}
    for stat in stats:
        found.setdefault(f"{stat.key} {stat.aggregation.name}", []).append(stat.value)
    return found


def assert_same_game(seen: Seen, flags: Sequence[str], wishes: Wishes) -> None:
    """Bit for bit what our Python scene plays, described alike, with its statistics."""
    spec, here, stats = play_here(flags, wishes)
    assert len(seen.batches) == len(here)
    sensors = seen.specs[BEHAVIOR].observations
    assert (set(sensors), seen.specs[BEHAVIOR].actions) == (set(spec.observations), spec.actions)
    order = sorted(range(len(sensors)), key=lambda position: sensors[position].name.lower())
    for step, (left, right) in enumerate(zip(seen.batches, here, strict=True)):
        ours, theirs = fields_of(left, order), fields_of(right, range(len(sensors)))
        for name in ours:
            assert ours[name] == theirs[name], f"{name} differs in exchange {step}"
    found = values_of(seen.stats)
    for name, values in values_of(stats).items():
        assert found[name] == pytest.approx(values, rel=1e-5), name


# --- the same game as our Python engine -------------------------------------------------------------------------------

EVENTFUL = Wishes(120, resets=(40, 41, 90), parameters={"threshold": 0.3})
SEED = ["--tau-seed", "11"]
RULES: Mapping[int, Mapping[str, float]] = {
    5: {"max_decisions": 3.0, "reward_type": 0.0, "threshold": 0.4},
    15: {"columns": 2.0, "max_decisions": 0.0, "reward_type": 3.0},
    25: {"reward_type": 1.0, "columns": 3.0},
    35: {"reward_type": 4.0, "threshold": 0.6, "columns": 1.0},
    45: {"reward_type": 2.0, "columns": 3.0},
}
"""A number that arrives with a step holds from the next prompt on: here every formula, and what counts."""
GAMES = {
    "short episodes": (["--tau-pairs", "5", "--tau-max-decisions", "7", "--tau-target-sensor", *SEED], EVENTFUL),
    "real ends": (
        [
            "--tau-agents",
            "4",
            "--tau-reward-threshold",
            "-5",
            "--tau-max-decisions",
            "9",
            "--tau-faithful-terminal",
            *SEED,
        ],
        EVENTFUL,
    ),
    "tau384 on held-out rows": (
        ["--tau-agents", "3", "--tau-profile", "tau384", "--tau-split", "evaluation", "--tau-target-sensor", *SEED],
        EVENTFUL,
    ),
    "rules that change": (["--tau-agents", "9", *SEED], Wishes(60, later=RULES)),
    "the usual number": (SEED, Wishes(70)),
    "told by parameters": (
        [],
        Wishes(20, areas=2, parameters={"num_agents": 3.0, "profile": 0.0, "split": 1.0, "seed": 8.0}),
    ),
    "large messages by grpcio": (
        ["--tau-agents", "2800", "--tau-profile", "tau384", "--tau-max-decisions", "1", *SEED],
        Wishes(1, listen="localhost"),
    ),
}


@pytest.mark.parametrize("name", GAMES)
def test_the_game_is_our_python_engines_bit_for_bit(player: Path, tmp_path: Path, name: str) -> None:
    flags, wishes = GAMES[name]
    assert_same_game(play(player, tmp_path, flags, wishes), flags, wishes)


# --- more pairs than may train at once --------------------------------------------------------------------------------


def test_six_pairs_two_at_a_time(player: Path, tmp_path: Path) -> None:
    """Three couples in turn have 50 decisions each, then the next round begins: nobody falls silent."""
    flags = ["--tau-pairs", "6", "--tau-max-concurrent", "2", "--tau-decisions", "50", "--tau-max-decisions", "20"]
    seen = play(player, tmp_path, flags, Wishes(320))
    couples = [[first, first + 1] for first in range(0, 14, 2)]
    assert [batch.agent_ids.tolist() for batch in seen.batches] == [couples[step // 50] for step in range(321)]
    ends = [(step, batch.terminals) for step, batch in enumerate(seen.batches) if len(batch.terminals)]
    assert [(step, end.agent_ids.tolist()) for step, end in ends if step <= 150] == [
        *((step, [0, 1]) for step in (20, 40, 50)),
        *((step, [2, 3]) for step in (70, 90, 100)),
        *((step, [4, 5]) for step in (120, 140, 150)),
    ]
    assert all(end.truncated.all() for _, end in ends)
    for asked, batch in zip(seen.batches, seen.batches[1:], strict=False):
        paid = {*batch.agent_ids.tolist(), *batch.terminals.agent_ids.tolist()}
        assert paid >= set(asked.agent_ids.tolist()), "the last reward of a pair arrives too"
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


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--tau-pairs", "0"), "--tau-pairs: '0' is not a whole number from 1 to 1000000; correct this flag."),
        (("--tau-columns", "4"), "`columns` is 4, but profile `tau3` has columns 1 to 3."),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_2(player: Path, tmp_path: Path, flags: Sequence[str], words: str) -> None:
    done = run_player(player, *flags, folder=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]


def test_a_pair_that_fails_leaves_the_others_and_its_episode_was_cut(player: Path, tmp_path: Path) -> None:
    wishes = Wishes(9, diverged={3: [1], 6: [0, 2]})
    seen = play(player, tmp_path, ["--tau-agents", "3"], wishes, code=1)
    assert [batch.agent_ids.tolist() for batch in seen.batches] == [[0, 1, 2]] * 4 + [[0, 2]] * 3
    end = seen.batches[4].terminals
    assert (end.agent_ids.tolist(), end.truncated.tolist()) == ([1], [True])
    assert "Got NaN as an action for agent 1; the policy has diverged, train it again." in seen.log
    assert "peak concurrency 3; 3 Failed" in seen.log


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
    path.unlink()  # where a player runs nobody needs it
    done = run_player(player, "--tau-agents=2", "--tau-decisions=3", "--tau-data", path.name, folder=tmp_path)
    assert done.returncode == 0
    assert f"on {path.with_suffix('.tau')} (1 rows, profile tau3" in done.stderr, "found in the working directory"
    assert "omitted; run `tau-train data audit` to see all of them." in done.stderr


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
    words = "No trainer is connected, and no flag starts training without one; give the trainer's port"
    assert (asleep.returncode, asleep.stderr.count(words)) == (2, 1)


def test_a_player_goes_on_alone_where_nobody_listens(player: Path) -> None:
    """Its windows are those of the command line, of which what is mistyped is told and ignored."""
    flags = ["--tau-agents=2", "--tau-decisons", "--tau-decisions=30", "--tau-threshold=1e-6"]
    flags += ["--tau-aggregate=sum", "--tau-window=3", "--tau-values=pm1"]
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        done = run_player(player, f"--mlagents-port={place.getsockname()[1]}", *flags)
    assert done.returncode == 0
    assert "`--tau-decisons` is not a flag of this game and is ignored; did you mean `--tau-decisions`?" in done.stderr
    assert "peak concurrency 2; 2 Completed" in done.stderr
    assert re.search(r"\n +0  Completed +30 +0 +[-+]0\.\d+ +0\.0 % +-2\.900 ", done.stderr)  # (-1 - 2 - 28 * 3) / 30


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
        "training cancel",
        "training agent tau tau.tau --agents 2 --decisions 20",
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
    assert re.search(r"\n +1  Completed +20 ", text)
    assert "peak concurrency 2; 2 Completed" in text
    assert "training cancel           end all pairs, now" in text
    assert shown[-1] == "There is no command `trainng`; did you mean `training`?"


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
    "max_steps": 800,
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
    assert evaluation["decisions"] == 800
    assert f"{100 * evaluation['accuracy']:.1f} %" in done.stdout
    logs = [path.read_text("utf-8") for path in sorted((run / "run_logs").glob("Player-*.log"))]
    assert len(logs) == 2
    assert all(f"on {data.with_suffix('.tau')} (1584 rows, profile tau3" in log for log in logs)
    counted = [re.search(r"^ *all +(\d+) +\d+ +[-+0]", log, re.MULTILINE) for log in logs]
    assert sum(int(found[1]) for found in counted if found) >= 800

"""That it learns: each task to the number that was promised, over the real wire, for more than one seed.

Before every merge two of them run, Balance with few decisions and the Tau task; `tests/algorithms/test_learning.py`
holds algorithms.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnxruntime
import pytest

from tau_trainer import ParallelTrainerManager, RunReport, load_batched, load_settings, train_batched
from tau_trainer.metrics import JsonLines, Recorder, keys, read_log

CONFIGS = Path(__file__).parents[1] / "configs"

NIGHTLY = pytest.mark.nightly


def run(config: str, command: Any, results: Path, **overrides: Any) -> RunReport:
    """Train to the end; dots of keys are written ``__``."""
    settings = load_settings(
        CONFIGS / config,
        {"checkpoint_settings.results_dir": str(results)}
        | {key.replace("__", "."): value for key, value in overrides.items()},
    )

    def recorders(folder: Path) -> list[Recorder]:
        return [JsonLines(folder / "log.jsonl")]

    return ParallelTrainerManager().start(settings, command, recorders=recorders).wait()


def last_returns(report: RunReport, behavior: str, share: float = 0.1) -> float:
    """Mean episode return over the last ``share`` of the decisions, each summary weighed by its episodes."""
    found = []
    for record in read_log(report.folder / "log.jsonl"):
        if record["type"] == "summary" and record["behavior"] == behavior:
            episodes = record["statistics"].get(keys.CUMULATIVE_REWARD)
            if episodes and record["step"] >= (1.0 - share) * report.decisions:
                found.append((episodes["mean"], episodes["count"]))
    values, weights = np.array(found).T
    return float(np.average(values, weights=weights))


def exported_returns(report: RunReport, name: str, output: str, seed: int) -> float:
    """Mean return of the exported model in the first episodes of 100 Gymnasium environments."""
    model = onnxruntime.InferenceSession(report.models[0])
    environments = gymnasium.make_vec(name, 100, vectorization_mode="sync")
    space = environments.single_action_space
    masks = {}
    if isinstance(space, gymnasium.spaces.Discrete):
        masks = {"action_masks": np.ones((100, space.n), np.float32)}
    seen, _ = environments.reset(seed=seed)
    returns, playing = np.zeros(100), np.ones(100, np.bool_)
    while playing.any():
        (chosen,) = model.run([output], {"obs_0": seen.astype(np.float32)} | masks)
        # A continuous action is within [-1, 1], as Unity's are.
        actions = chosen * space.high if isinstance(space, gymnasium.spaces.Box) else chosen[:, 0]
        seen, reward, terminated, truncated, _ = environments.step(actions)
        returns += reward * playing
        playing &= ~(terminated | truncated)
    environments.close()
    return float(returns.mean())


def came_to_its_criterion(report: RunReport) -> bool:
    """Whether the run ended because returns were as good as was asked for."""
    events = [record["kind"] for record in read_log(report.folder / "log.jsonl") if record["type"] == "event"]
    return "criterion" in events


@NIGHTLY
@pytest.mark.parametrize("seed", [1, 2])
def test_balance_reaches_90(tmp_path: Path, seed: int) -> None:
    """3DBall's shape with ML-Agents' own settings; the best return is 100. The incumbent needs 174,000 decisions."""
    chosen = {"env_settings__env_path": "headless:balance", "behaviors__3DBall__max_steps": 180_000}
    report = run("3DBall.yaml", "learn", tmp_path, env_settings__seed=seed, **chosen)
    assert last_returns(report, "3DBall", 0.15) >= 90.0


BASIC: dict[str, Any] = {
    "env_settings__env_path": "headless:basic",
    "env_settings__env_args": ["--agents", "8"],  # they share what one would need longer to find
    "behaviors__Basic__max_steps": 20_000,
    "behaviors__Basic__hyperparameters__learning_rate": 1e-3,
}
CARTPOLE = {"env_settings__env_path": "gym:CartPole-v1"}


@NIGHTLY
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("config", "chosen", "seed", "behavior", "mark"),
    [
        *(("Basic", BASIC, seed, "Basic", 0.90) for seed in (1, 2, 3)),
        *(("CartPole", CARTPOLE, seed, "CartPole-v1", 475.0) for seed in (1, 2, 3)),
        ("SimpleSpread", {}, 1, "agent", -15.0),
    ],
)
def test_its_last_returns_reach_the_mark(
    tmp_path: Path, config: str, chosen: dict[str, Any], seed: int, behavior: str, mark: float
) -> None:
    """Basic's optimum is 0.93, CartPole's 500, and Gymnasium calls it solved at 475.

    SimpleSpread's three agents, of a policy that still explores: doing nothing earns them -73, a good script -24.
    """
    report = run(f"{config}.yaml", "learn", tmp_path, env_settings__seed=seed, **chosen)
    assert last_returns(report, behavior) >= mark


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, pytest.param(2, marks=NIGHTLY), pytest.param(4, marks=NIGHTLY)])
def test_few_decisions_are_enough_for_balance(tmp_path: Path, seed: int) -> None:
    """Twelve episodes of 900 decisions are 11,000; ML-Agents' own settings take 60,000 with SAC, 90,000 with PPO.

    Seed 1 has an agent that falls once more, and takes 17,000.
    """
    file = tmp_path / "settings.yaml"
    file.write_text(
        "behaviors: {3DBall: {trainer_type: sac_ln, hyperparameters: {steps_per_update: 2}, max_steps: 16000, "
        "criterion: 90, trial_count: 12}}"
    )
    chosen = {
        "env_settings__env_path": "headless:balance",
        "env_settings__seed": seed,
        "collection__deterministic": True,
    }
    assert came_to_its_criterion(run(str(file), "learn", tmp_path, **chosen))


@NIGHTLY
def test_two_processes_and_a_parameter_server_reach_475(tmp_path: Path) -> None:
    """One process needs 29,000 to 40,000 decisions, by its seed; 1.3 times the most of them is allowed."""
    report = run(
        "CartPole.yaml",
        "learn",
        tmp_path,
        devices=2,
        strategy="parameter_server",
        **{"behaviors__CartPole-v1__criterion": 475.0, "behaviors__CartPole-v1__trial_count": 20},
    )
    assert came_to_its_criterion(report)
    assert report.decisions <= 52_000


@NIGHTLY
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("config", "behavior", "environment", "mark", "most"),
    [
        ("Hallway", "Hallway", "headless:hallway", 0.55, 250_000),
        ("GridWorld", "GridWorld", "headless:gridworld", 0.5, 250_000),
        ("LunarLander", "LunarLander-v3", "gym:LunarLander-v3", 200.0, 700_000),
    ],
)
def test_the_mean_of_a_hundred_episodes_comes_to_its_mark(
    tmp_path: Path, config: str, behavior: str, environment: str, mark: float, most: int
) -> None:
    """Without memory a hallway is worth 0.45 at most; a grid whose goal is not known fell to -0.27.

    Gymnasium calls LunarLander-v3 solved at 200; a random policy has -200.
    """
    chosen = {f"behaviors__{behavior}__criterion": mark, f"behaviors__{behavior}__trial_count": 100}
    chosen |= {"collection__deterministic": config == "LunarLander", "env_settings__seed": 1}
    report = run(f"{config}.yaml", "learn", tmp_path, env_settings__env_path=environment, **chosen)
    assert came_to_its_criterion(report)
    assert report.decisions < most


@NIGHTLY
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("config", "seed", "prioritized"),
    [
        *(("CartPoleDQN", 1, None), ("CartPoleDQN", 2, None), ("CartPoleDQN", 1, {}), ("CartPoleIQN", 1, None)),
        *(("Pendulum", 1, None), ("Pendulum", 2, None), ("PendulumDDPG", 1, None), ("PendulumTD3", 1, None)),
    ],
)
def test_the_exported_model_solves_cartpole_or_swings_the_pendulum_up(
    tmp_path: Path, config: str, seed: int, prioritized: Any
) -> None:
    """In 100 episodes; training ends where it has come to its mark.

    Gymnasium sets no mark for the pendulum; -150 is as good as it gets, a random policy has -1,240.
    """
    pendulum = config.startswith("Pendulum")
    name, mark = ("Pendulum-v1", -200.0) if pendulum else ("CartPole-v1", 475.0)
    output = "deterministic_continuous_actions" if pendulum else "discrete_actions"
    chosen: dict[str, Any] = {"env_settings__env_path": f"gym:{name}", "collection__deterministic": not pendulum}
    if not pendulum:
        chosen["behaviors__CartPole-v1__hyperparameters__prioritized"] = prioritized
    report = run(f"{config}.yaml", "learn", tmp_path, env_settings__seed=seed, **chosen)
    assert exported_returns(report, name, output, seed) >= mark


@NIGHTLY
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sac_reaches_90_on_balance(tmp_path: Path, seed: int) -> None:
    """ML-Agents' own settings for 3DBall."""
    report = run(
        "3DBallSAC.yaml", "learn", tmp_path, env_settings__env_path="headless:balance", env_settings__seed=seed
    )
    assert last_returns(report, "3DBall", 0.2) >= 90.0


@NIGHTLY
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("trainer", "name", "decisions", "output", "mark"),
    [
        ("dqn", "CartPole-v1", 100_000, "discrete_actions", 475.0),
        ("ddpg", "Pendulum-v1", 20_000, "deterministic_continuous_actions", -200.0),
        ("td3", "Pendulum-v1", 20_000, "deterministic_continuous_actions", -200.0),
    ],
)
def test_a_trainer_type_is_enough(
    tmp_path: Path, trainer: str, name: str, decisions: int, output: str, mark: float
) -> None:
    """Without a line of hyperparameters: the middle one of three seeds' exported models."""
    file = tmp_path / "settings.yaml"
    file.write_text(f"behaviors: {{{name}: {{trainer_type: {trainer}, max_steps: {decisions}}}}}")
    found = []
    for seed in (1, 2, 3):
        chosen: dict[str, Any] = {"env_settings__env_path": f"gym:{name}", "env_settings__seed": seed}
        report = run(str(file), "learn", tmp_path / str(seed), **chosen)
        found.append(exported_returns(report, name, output, seed))
    assert np.median(found) >= mark, found


@NIGHTLY
@pytest.mark.timeout(400)
def test_a2c_needs_no_more_than_its_name(tmp_path: Path) -> None:
    """Of eight copies, by the most likely actions."""
    file = tmp_path / "settings.yaml"
    file.write_text(
        "{environment: {name: cartpole, num_envs: 8}, behaviors: {agent: {trainer_type: a2c, max_steps: 100000}}}"
    )
    found = []
    for seed in (1, 2, 3):
        report = train_batched(
            load_batched(
                file, {"env_settings.seed": seed, "checkpoint_settings.results_dir": str(tmp_path / str(seed))}
            )
        )
        summaries = [one["values"] for one in read_log(report.folder / "log.jsonl") if one["type"] == "summary"]
        found.append([values[keys.EPISODE_RETURN] for values in summaries if keys.EPISODE_RETURN in values][-1])
    assert np.median(found) >= 475.0, found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decisions", "pairs", "share"),
    [(60_000, 2, 0.93), pytest.param(200_000, 4, 0.97, marks=NIGHTLY)],
    ids=["short", "as it is shipped"],
)
def test_tau_comes_near_the_strongest_baseline(tmp_path: Path, decisions: int, pairs: int, share: float) -> None:
    """After 60,000 decisions of two pairs seeds 1 and 2 have 0.98 of it, after 100,000 they are level with it."""
    report = run(
        "tau3.yaml",
        "parallel",
        tmp_path,
        env_settings__seed=1,
        tau__pairs=pairs,
        behaviors__TauAgent__max_steps=decisions,
    )
    assert report.evaluation is not None
    strongest = report.evaluation["baselines"][report.evaluation["strongest"]]["accuracy"]
    assert report.evaluation["accuracy"] >= share * strongest
    assert report.evaluation["beats_blind"]

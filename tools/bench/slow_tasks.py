"""The tasks of `slow_games`, and each learner's settings for them.

PPO and SAC have ML-Agents' own numbers for a scene where there are any, else those of a like one; on Gymnasium's
environments those of the zoo of Stable-Baselines3, or of our shipped files. `sac_ln` has none: only what a task needs
to be learned at all (discount, memory, curiosity).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from tau_trainer.headless.scenes import USUAL_AGENTS
from tools.peers import ROOT

Settings = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """A game with a mark."""

    behavior: str
    """Behavior whose decisions and rewards are counted; with Gymnasium, the environment."""
    mark: float | None
    """Mean return to reach; None: the mean return of the newest episodes after ``most`` decisions counts."""
    window: int
    """Number of episodes of a mean: 12 if they have 1,000 decisions, 100 if fewer than 100, otherwise 20."""
    most: int
    """Decisions after which a run ends."""
    ppo: str | Settings
    """A shipped file, or the settings of the behavior."""
    sac: Mapping[str, Settings] | str
    """The settings of each behavior, or a shipped file."""
    scene: str = ""
    """Scene of the headless engine; empty: an environment of Gymnasium."""
    agents: int = 1
    """Copies of an environment that PPO plays in Gymnasium."""
    lost_below: float | None = None
    """Returns of episodes that count as lost."""
    parameters: Settings = field(default_factory=dict)
    """Environment parameters in place of the file's lessons: the whole game from the start, for every learner."""


def _sac(
    batch: int,
    buffer: int,
    entropy: float,
    network: Settings,
    *,
    signals: Settings | None = None,
    **numbers: Any,
) -> Settings:
    return {
        "trainer_type": "sac",
        "hyperparameters": {
            **{"batch_size": batch, "buffer_size": buffer, "learning_rate": 3e-4, "init_entcoef": entropy},
            **{"buffer_init_steps": 0, "tau": 0.005, "steps_per_update": 10.0, **numbers},
        },
        "network_settings": network,
        "reward_signals": signals or {"extrinsic": {"gamma": 0.99, "strength": 1.0}},
    }


def _layers(units: int, layers: int, **rest: Any) -> Settings:
    return {"hidden_units": units, "num_layers": layers, **rest}


def _gamma(value: float) -> Settings:
    return {"extrinsic": {"gamma": value, "strength": 1.0}}


def _ppo(batch: int, buffer: int, horizon: int, network: Settings, signals: Settings, **numbers: Any) -> Settings:
    return {
        "trainer_type": "ppo",
        "hyperparameters": {
            **{"batch_size": batch, "buffer_size": buffer, "learning_rate": 3e-4, "learning_rate_schedule": "linear"},
            **{"beta": 0.0, "beta_schedule": "constant", "epsilon": 0.2, "lambd": 0.95, "num_epoch": 10, **numbers},
        },
        "network_settings": network,
        "reward_signals": signals,
        "time_horizon": horizon,
    }


_SMALL_RETURNS = {"extrinsic": {"gamma": 0.99, "strength": 0.05}}
"""Returns of hundreds are much for PPO's critic at these rates."""
_CURIOSITY = {
    "extrinsic": {"gamma": 0.99, "strength": 1.0},
    "curiosity": {"gamma": 0.99, "strength": 0.1, "learning_rate": 3e-4, "network_settings": {"hidden_units": 128}},
}
_GYM_SAC: Settings = {"steps_per_update": 1.0, "buffer_init_steps": 10_000}
_MUJOCO_PPO = _ppo(64, 2048, 2048, _layers(64, 2, normalize=True), _SMALL_RETURNS)
_MUJOCO_SAC = _sac(256, 1_000_000, 1.0, _layers(256, 2), **_GYM_SAC)
_LUNAR_SAC = _sac(256, 1_000_000, 1.0, _layers(256, 2), **_GYM_SAC, learning_rate=7.3e-4, tau=0.01)
_WALL_SAC = _sac(256, 100_000, 0.1, _layers(256, 2))

TASKS = {
    "balance": Task("3DBall", 90.0, 12, 150_000, "3DBall", "3DBallSAC", "balance", 12, lost_below=99.0),
    "walljump": Task(
        *("BigWallJump", 0.8, 100, 2_000_000, "WallJump"),
        {"BigWallJump": _WALL_SAC, "SmallWallJump": _sac(128, 50_000, 0.1, _layers(256, 2))},
        *("walljump", 12),
    ),
    "gridworld": Task(
        *("GridWorld", 0.8, 100, 300_000, "GridWorld"),
        {"GridWorld": _sac(128, 50_000, 0.5, _layers(128, 1), signals=_gamma(0.9), buffer_init_steps=1000)},
        *("gridworld", 12),
    ),
    "foodcollector": Task(
        *("GridFoodCollector", 10.0, 12, 1_000_000, "FoodCollector"),
        {"GridFoodCollector": _sac(256, 2048, 0.05, _layers(256, 1))},
        *("foodcollector", USUAL_AGENTS["foodcollector"]),
    ),
    "hallway": Task(
        *("Hallway", 0.7, 100, 500_000, "Hallway"),
        {"Hallway": _sac(512, 200_000, 0.1, _layers(128, 2, memory={"sequence_length": 64, "memory_size": 128}))},
        *("hallway", 12),
    ),
    "basic": Task(
        *("Basic", 0.9, 100, 200_000, "Basic"),
        {"Basic": _sac(64, 50_000, 0.01, _layers(20, 2))},
        *("basic", USUAL_AGENTS["basic"]),
    ),
    "sorter": Task(
        *("Sorter", 1.2, 100, 1_000_000, "Sorter"),
        {"Sorter": _sac(256, 100_000, 0.1, _layers(128, 2))},
        *("sorter", 12),
        parameters={"num_tiles": 2.0},
    ),
    "pyramids": Task(
        *("Pyramids", 1.75, 100, 500_000, "Pyramids"),
        {"Pyramids": _sac(128, 2_000_000, 0.01, _layers(128, 2), signals=_CURIOSITY, buffer_init_steps=1000, tau=0.01)},
        *("pyramids", 12),
    ),
    "Pendulum-v1": Task(
        *("Pendulum-v1", -200.0, 20, 150_000),
        _ppo(64, 4096, 1024, _layers(64, 2), _gamma(0.9), learning_rate=1e-3, learning_rate_schedule="constant"),
        "Pendulum",
        agents=4,
    ),
    "LunarLander-v3": Task(
        *("LunarLander-v3", 200.0, 20, 1_000_000, "LunarLander", {"LunarLander-v3": _LUNAR_SAC}), agents=16
    ),
    "LunarLanderContinuous-v3": Task(
        *("LunarLanderContinuous-v3", 200.0, 20, 1_000_000, "LunarLander", {"LunarLanderContinuous-v3": _LUNAR_SAC}),
        agents=16,
    ),
    "BipedalWalker-v3": Task(
        *("BipedalWalker-v3", 250.0, 20, 1_000_000),
        _ppo(64, 16_384, 2048, _layers(64, 2, normalize=True), {"extrinsic": {"gamma": 0.999, "strength": 0.05}}),
        {
            "BipedalWalker-v3": _sac(
                *(256, 300_000, 1.0, _layers(256, 2)),
                **{**_GYM_SAC, "learning_rate": 7.3e-4, "tau": 0.02},
                signals=_gamma(0.98),
            )
        },
        agents=16,
    ),
    "Hopper-v5": Task("Hopper-v5", None, 20, 100_000, _MUJOCO_PPO, {"Hopper-v5": _MUJOCO_SAC}),
    "HalfCheetah-v5": Task("HalfCheetah-v5", None, 12, 100_000, _MUJOCO_PPO, {"HalfCheetah-v5": _MUJOCO_SAC}),
}
"""By name. The incumbent has no SAC file for Sorter: numbers of its Wall Jump, network of its PPO file."""

OURS = ("sac_ln", "sac", "sac-equal", "sac-tuned", "ppo")
"""`sac-equal`: as many gradient steps a decision as `sac_ln`; `sac-tuned`: with other numbers for few decisions too."""
INCUMBENT = ("mlagents-sac", "mlagents-ppo")
LEARNERS = (*OURS, *INCUMBENT, "sbx")
_TUNED = {"learning_rate": 1e-3, "batch_size": 128, "init_entcoef": 0.1}


def settings(
    name: str, learner: str, steps_per_update: float | str, most: int, changes: Sequence[str] = ()
) -> Settings:
    """The YAML of a run.

    Args:
        name: of the task.
        learner: one of :data:`OURS` or :data:`INCUMBENT`.
        steps_per_update: of `sac_ln`, `sac-equal` and `sac-tuned`.
        most: decisions that a run must be able to play.
        changes: `[LEARNER:]KEY=VALUE`, keys from a behavior's section on; for ours alone.
    """
    task, kind = TASKS[name], learner.removeprefix("mlagents-").partition("-")[0]
    behaviors = _behaviors(task, "ppo" if kind == "ppo" else "sac")
    for behavior in behaviors.values():
        if kind == "sac_ln":
            _leave_needs(behavior)
        numbers = behavior["hyperparameters"]
        if learner in ("sac_ln", "sac-equal", "sac-tuned"):
            numbers["steps_per_update"] = steps_per_update
        if learner == "sac-tuned":
            numbers.update(_TUNED)
        behavior["max_steps"] = max(most, behavior.get("max_steps", 0))
        for change in changes if learner in OURS else ():
            _change(behavior, learner, change)
    if task.scene:
        return {"behaviors": behaviors, "environment_parameters": task.parameters}
    (behavior,) = behaviors.values()
    copies = task.agents if kind == "ppo" else 1
    return {"behaviors": {f"Timed{task.behavior}": behavior}, "env_settings": {"num_areas": copies}}


def _behaviors(task: Task, kind: str) -> dict[str, Settings]:
    """ML-Agents' settings, or those of a similar task."""
    source = task.ppo if kind == "ppo" else task.sac
    if isinstance(source, str):
        found = yaml.safe_load((ROOT / "configs" / f"{source}.yaml").read_text(encoding="utf-8"))["behaviors"]
    else:
        found = {task.behavior: source} if kind == "ppo" else source
    copied: dict[str, Settings] = yaml.safe_load(yaml.safe_dump(dict(found)))
    return copied


def _leave_needs(settings: Settings) -> None:
    """The part of SAC's settings that the task needs with any learner."""
    signals, network = settings["reward_signals"], settings["network_settings"]
    signals["extrinsic"].pop("strength", None)
    memory = {"memory": network["memory"]} if "memory" in network else {}
    left = {"trainer_type": "sac_ln", "hyperparameters": {}, "network_settings": memory, "reward_signals": signals}
    settings.clear()
    settings.update(left)


def _change(settings: Settings, learner: str, change: str) -> None:
    key, _, value = change.partition("=")
    whose, colon, rest = key.rpartition(":")
    if colon and whose != learner:
        return
    *path, last = rest.split(".")
    for part in path:
        settings = settings.setdefault(part, {})
    settings[last] = yaml.safe_load(value)

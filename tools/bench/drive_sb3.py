"""Runs inside the environment of Stable-Baselines3: one task with the settings of its zoo, until it is stopped.

Arguments: task, seed, steps; then, to run environments in separate processes (SubprocVecEnv), their number and the
samples per gradient step. Or `speed` and the options of our A2C in `batched.py` as JSON: it prints steps per second for
the same algorithm, copies, rollout and network.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import gymnasium
import numpy as np
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from tools.bench import timed_envs  # noqa: F401 - registers


def falling(start: float) -> Callable[[float], float]:
    """Falls from `start` to 0 with the remaining share of steps."""
    return lambda left: left * start


# Pendulum of hyperparams/ddpg.yml of rl-baselines3-zoo; td3.yml has the same network and noise.
NOISY: dict[str, Any] = {
    "learning_rate": 1e-3,
    "gamma": 0.98,
    "buffer_size": 200_000,
    "learning_starts": 10_000,
    "train_freq": (1, "episode"),
    "gradient_steps": -1,
    "action_noise": NormalActionNoise(np.zeros(1), np.full(1, 0.1)),
    "policy_kwargs": {"net_arch": [400, 300]},
}
# hyperparams/ppo.yml, dqn.yml and sac.yml of rl-baselines3-zoo.
SETTINGS: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "CartPole-v1": (
        PPO,
        8,
        {
            "n_steps": 32,
            "batch_size": 256,
            "gae_lambda": 0.8,
            "gamma": 0.98,
            "n_epochs": 20,
            "ent_coef": 0.0,
            "learning_rate": falling(0.001),
            "clip_range": falling(0.2),
        },
    ),
    "CartPole-v1/dqn": (
        DQN,
        1,
        {
            "learning_rate": 2.3e-3,
            "batch_size": 64,
            "buffer_size": 100_000,
            "learning_starts": 1000,
            "gamma": 0.99,
            "target_update_interval": 10,
            "train_freq": 256,
            "gradient_steps": 128,
            "exploration_fraction": 0.16,
            "exploration_final_eps": 0.04,
            "policy_kwargs": {"net_arch": [256, 256]},
        },
    ),
    "Pendulum-v1": (SAC, 1, {"learning_rate": 1e-3}),
    "Pendulum-v1/ddpg": (DDPG, 1, NOISY),
    "Pendulum-v1/td3": (TD3, 1, NOISY),
    "LunarLander-v3": (
        PPO,
        16,
        {"n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4, "ent_coef": 0.01},
    ),
}


def main(task: str, seed: int, steps: int) -> None:
    """Trains."""
    algorithm, environments, settings = SETTINGS[task]
    envs = DummyVecEnv([lambda: gymnasium.make(f"Timed{task.split('/')[0]}") for _ in range(environments)])
    model = algorithm("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    begun = time.perf_counter()
    model.learn(steps)
    print("steps a second:", steps / (time.perf_counter() - begun))


def main_in_processes(task: str, seed: int, steps: int, environments: int, samples_per_opt: int) -> None:
    """Trains with ``samples_per_opt`` samples from all environments together per gradient step."""
    algorithm, _, settings = SETTINGS[task]
    envs = SubprocVecEnv([partial(_timed, task.split("/")[0])] * environments)
    rounds = max(1, settings.get("train_freq", samples_per_opt) // environments)
    opts = rounds * environments // samples_per_opt
    settings = settings | {"train_freq": rounds, "gradient_steps": opts}
    model = algorithm("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    model.learn(steps)


class Watch(BaseCallback):  # type: ignore[misc]  # it lives in another environment
    """Steps per second over whole rollouts with updates, without the first; ends training after ``seconds``."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self.seconds, self.rate, self._clock = seconds, float("nan"), clock
        self._since, self._at = 0.0, -1

    def _on_rollout_start(self) -> None:
        """All that was gathered before has been learned from."""
        now = self._clock()
        if self.num_timesteps and self._at < 0:
            self._since, self._at = now, self.num_timesteps
        elif self._at >= 0:
            self.rate = (self.num_timesteps - self._at) / (now - self._since)

    def _on_step(self) -> bool:
        return not (self.rate == self.rate and self._clock() > self._since + self.seconds)


def speed(asked: dict[str, Any]) -> None:
    """Steps a second of A2C on CartPole."""
    network = {"net_arch": {"pi": asked["hidden"], "vf": asked["hidden"]}, "activation_fn": torch.nn.SiLU}
    envs = DummyVecEnv([lambda: gymnasium.make("CartPole-v1") for _ in range(asked["copies"])])
    numbers = {name: asked[name] for name in ("n_steps", "learning_rate", "ent_coef", "vf_coef", "gae_lambda", "gamma")}
    model = A2C("MlpPolicy", envs, seed=1, device="cpu", use_rms_prop=False, policy_kwargs=network, **numbers)
    if asked["busy"]:
        torch.set_num_threads(1)
    watch = Watch(asked["seconds"], time.process_time if asked["busy"] else time.perf_counter)
    model.learn(10**9, callback=watch)
    print(watch.rate)


def _timed(task: str) -> Any:
    return gymnasium.make(f"Timed{task}")


if __name__ == "__main__":
    _task, *_numbers = sys.argv[1:]
    if _task == "speed":
        speed(json.loads(_numbers[0]))
    else:
        (main_in_processes if len(_numbers) > 2 else main)(_task, *map(int, _numbers))

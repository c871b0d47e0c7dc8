"""Runs inside the environment of RLlib: PPO on one task with our numbers, until stopped or finished.

Arguments: task, seed, runners, steps. The runners play 16 copies together in separate processes; this process learns.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import gymnasium
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

ROOT = str(Path(__file__).resolve().parents[2])
COPIES = 16
# configs/CartPole.yaml, except for its falling learning rate: RLlib's schedules count its own steps.
NUMBERS: dict[str, Any] = {
    "train_batch_size_per_learner": 1024,
    "minibatch_size": 64,
    "num_epochs": 10,
    "lr": [[0, 1e-3], [100_000, 1e-10]],
    "gamma": 0.98,
    "lambda_": 0.9,
    "clip_param": 0.2,
    "entropy_coeff": 0.0,
    "vf_loss_coeff": 0.5,
    "vf_clip_param": float("inf"),
    "use_kl_loss": False,
}


def made(name: str) -> gymnasium.Env[Any, Any]:
    """The environment, in whichever process."""
    if ROOT not in sys.path:
        sys.path.insert(0, ROOT)
    from tools.bench import timed_envs  # noqa: F401 - registers

    return gymnasium.make(f"Timed{name}")


def main(task: str, seed: int, runners: int, steps: int) -> None:
    """Trains."""
    ray.init(include_dashboard=False, log_to_driver=False, address="local")
    register_env("timed", lambda _: made(task))
    config = PPOConfig().environment("timed").framework("torch").debugging(seed=seed)
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=COPIES // runners)
    config.learners(num_learners=0, num_gpus_per_learner=0)
    config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="relu"))
    algorithm = config.training(**NUMBERS).build_algo()
    for _ in range(0, steps, NUMBERS["train_batch_size_per_learner"]):
        algorithm.train()


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))

"""CrossQ of sbx with its own defaults on `timed_envs`, for an environment of its own: `drive_sbx.py ID SEED STEPS`."""

from __future__ import annotations

import sys

from sbx import CrossQ
from stable_baselines3.common.env_util import make_vec_env

from tools.bench import timed_envs  # noqa: F401 - registers


def main(name: str, seed: int, steps: int) -> None:
    """Trains."""
    CrossQ("MlpPolicy", make_vec_env(f"Timed{name}", seed=seed), seed=seed).learn(steps)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

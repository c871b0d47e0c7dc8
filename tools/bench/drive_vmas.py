"""Runs inside VMAS' environment: its tag game (`simple_tag`), random actions, steps a second.

Arguments: taggers, runners, copies, seconds. Prints environment steps a second.
"""

from __future__ import annotations

import sys
import time

sys.path.pop(0)  # this folder has its own gym.py

import torch
import vmas


def main() -> int:
    """Plays for the given number of seconds."""
    taggers, runners, copies = (int(text) for text in sys.argv[1:4])
    seconds = float(sys.argv[4])
    env = vmas.make_env(
        "simple_tag",
        copies,
        num_adversaries=taggers,
        num_good_agents=runners,
        num_landmarks=0,
        continuous_actions=False,
    )
    env.reset()
    choices = [int(space.n) for space in env.action_space]
    steps, begun = 0, time.perf_counter()
    warm = begun + seconds / 5
    while time.perf_counter() < warm + seconds:
        env.step([torch.randint(0, n, (copies, 1)) for n in choices])
        steps += 1
        if time.perf_counter() < warm:
            steps, begun = 0, time.perf_counter()
    print(steps * copies / (time.perf_counter() - begun))
    return 0


if __name__ == "__main__":
    sys.exit(main())

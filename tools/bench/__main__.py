"""`python -m tools.bench NAME [flags]` runs one of the benchmarks; `python -m tools.bench NAME --help` has its flags.

A benchmark is a module of this folder with a `main`; docs/benchmarks.md shows its output.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from tools._bootstrap.progress import SetupError
from tools.bench.running import RunFailedError

NAMES = {
    "versus_mlagents": "decisions per second and rewards, compared with mlagents-learn 1.1.0 or an earlier checkout",
    "learner": "cost of a minibatch, and of a learner in a thread or in a process",
    "devices": "an update by several processes that learn together",
    "groups": "an update of agents with group rewards, compared with PPO's",
    "wire": "only engine and communication, without inference or learning",
    "gym": "Gymnasium environments up to a target reward, compared with Stable-Baselines3",
    "asynchronous": "actors in separate processes, compared with turns and Stable-Baselines3",
    "scale": "1 to 64 slow engines, here and on a cluster, and the limits for 1,000",
    "soak": "ten minutes on a cluster; every 20 seconds a node is killed",
    "scenes": "ML-Agents' scenes up to their target rewards, with the shipped settings",
    "slow_games": "decisions and seconds to a target reward, for slow games, compared with other trainers",
    "self_play": "Soccer Twos with self-play, compared with learning only against itself",
    "own_data": "the Tau task on generated data with 26 to 240 answers, compared with the strongest baselines",
    "batched": "batched environments, compared with twins and other libraries",
    "accelerator": "effect of a GPU on all of it, in ten minutes; small sizes on a CPU",
}


def main(words: list[str]) -> int:
    """Run the benchmark named by the first word; exit code 2 if something that it needs is missing."""
    listed = "\n".join(f"  {name:<16} {what}" for name, what in NAMES.items())
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench", epilog=listed, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=NAMES, metavar="NAME", help="a name below, followed by its flags")
    name = parser.parse_args(words[:1]).name
    sys.argv = [f"python -m tools.bench {name}", *words[1:]]
    try:
        return int(importlib.import_module(f"tools.bench.{name}").main())
    except (SetupError, RunFailedError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

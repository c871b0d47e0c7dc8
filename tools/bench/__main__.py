"""`python -m tools.bench NAME [flags]` runs one of the benchmarks; `python -m tools.bench NAME --help` has its flags.

A benchmark is a module of this folder with a `main`; what it prints is what docs/benchmarks.md shows.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from tools._bootstrap.progress import SetupError
from tools.bench.running import RunFailedError

NAMES = {
    "versus_mlagents": "decisions a second, and rewards, beside mlagents-learn 1.1.0 or an earlier checkout",
    "learner": "what a minibatch costs, and a learner in a thread or in a process",
    "devices": "an update by several processes that learn as one",
    "groups": "an update of agents that are paid together, beside PPO's",
    "wire": "engine and wire alone, without inference or learning",
    "gym": "environments of Gymnasium to a mark, beside Stable-Baselines3",
    "asynchronous": "actors in processes of their own, beside turns and Stable-Baselines3",
    "scale": "engines that sleep, 1 to 64 of them, here and on a cluster, and what would limit 1,000",
    "soak": "ten minutes on a cluster of which a node is killed every 20 seconds",
    "scenes": "ML-Agents' scenes to their marks, with the shipped settings",
    "slow_games": "decisions and seconds to a mark, for games that cost time, beside the incumbents",
    "self_play": "Soccer Twos at self-play, beside learning against itself alone",
    "own_data": "the Tau task on generated data with 26 to 240 answers, beside the strongest baselines",
    "batched": "environments of tensors, beside twins and other libraries",
    "accelerator": "what a GPU does for all of it, in ten minutes; small on a CPU",
}


def main(words: list[str]) -> int:
    """Run the benchmark that the first word names; exit code 2 where something that it needs is missing."""
    listed = "\n".join(f"  {name:<16} {what}" for name, what in NAMES.items())
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench", epilog=listed, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=NAMES, metavar="NAME", help="one of those below; its own flags follow")
    name = parser.parse_args(words[:1]).name
    sys.argv = [f"python -m tools.bench {name}", *words[1:]]
    try:
        return int(importlib.import_module(f"tools.bench.{name}").main())
    except (SetupError, RunFailedError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What taggers and runners learn, against each other and against players that do not learn.

    python tools/bench/tag.py [--game tag_gridworld --seeds 1 2 3 --decisions 6000000 --games 512]

Each seed trains four times from the shipped file of the game: both sides beside each other, taggers against `evader`,
and runners against random taggers and against `chaser`, these three with half of the decisions. Then onnxruntime plays
the exported policies, with their most likely actions, in games that none of them saw; a figure is the share of runners
that were tagged.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import onnxruntime
import torch
import yaml

from tau_trainer.envs.batched import BatchedEnv, registry
from tau_trainer.envs.batched.players import make_player
from tools._bootstrap.environment import child_environment
from tools._bootstrap.progress import SetupError, tail
from tools.bench import tables, trainers
from tools.peers import ROOT

GAMES = {"tag_gridworld": -1.0, "tag_continuous": -5.0}
"""A runner that earns less in one step was tagged: nothing else costs it as much."""
SIDES = ("tagger", "runner")
SCRIPTED = {"tagger": ("random", "chaser"), "runner": ("random", "evader")}
"""Players that do not learn."""
UNSEEN = 1_000_000
"""Seed of the games that are judged."""


class Training(NamedTuple):
    """One of the four."""

    learns: tuple[str, ...]
    opponent: str
    """Of the side that does not learn; empty: both do."""
    share: float
    """Of the decisions."""


TRAININGS = (
    Training(SIDES, "", 1.0),
    Training(("tagger",), "evader", 0.5),
    Training(("runner",), "random", 0.5),
    Training(("runner",), "chaser", 0.5),
)

Player = Callable[[torch.Tensor], torch.Tensor]
"""Actions [E, A] or [E, A, b] of one side, for its observations [E, A, D]."""


class Side(NamedTuple):
    """Who plays taggers, or runners."""

    name: str
    """For the table."""
    plays: str | Path
    """A scripted player's name, or a model."""


class Judged(NamedTuple):
    """One line of the table, of one seed."""

    taggers: str
    runners: str
    seed: int
    tagged: float


def main() -> int:
    """Trains, judges and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", choices=GAMES, default="tag_gridworld")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--decisions", type=int, default=6_000_000, help="of all agents together")
    parser.add_argument("--games", type=int, default=512, help="that are judged")
    parser.add_argument("--device", default="cpu")
    tables.add_output(parser)
    arguments = parser.parse_args()
    file = yaml.safe_load((ROOT / "configs" / f"{arguments.game}.yaml").read_text(encoding="utf-8"))
    made = dict(file["environment"]["arguments"])
    judged, seconds = [], 0.0
    try:
        for taggers in SCRIPTED["tagger"]:
            judged += [judge(arguments, made, Side(taggers, taggers), Side(one, one), 0) for one in SCRIPTED["runner"]]
        for seed in arguments.seeds:
            for training in TRAININGS:
                with tempfile.TemporaryDirectory(prefix="tau-tag-") as folder:
                    begun = time.perf_counter()
                    learned = train(arguments, file, training, seed, Path(folder))
                    seconds += time.perf_counter() - begun
                    found = pairings(training, learned)
                    judged += [judge(arguments, made, taggers, runners, seed) for taggers, runners in found]
                print(f"seed {seed}: {' and '.join(training.learns)}, {training.opponent or 'each other'}", flush=True)
    except SetupError as error:
        print(f"tag: {error}", file=sys.stderr)
        return 2
    text = table(judged)
    print(f"\n{text}\n\n{seconds / len(arguments.seeds):,.0f} s of training a seed")
    tables.write(arguments, arguments.game, text, {"judged": [one._asdict() for one in judged], "seconds": seconds})
    return 0


def train(
    arguments: argparse.Namespace, file: Mapping[str, Any], training: Training, seed: int, folder: Path
) -> dict[str, Path]:
    """Models by side. Raises SetupError where there is no trainer, or it fails."""
    policies = {
        side: own if side in training.learns else {"agents": [side], "player": training.opponent}
        for side, own in file["policies"].items()
    }
    settings = folder / "tag.yaml"
    settings.write_text(yaml.safe_dump({**file, "policies": policies}), encoding="utf-8")
    command = [trainers.Ours().tau_train(), "batch", str(settings), "--run-id", "run", "--results-dir", str(folder)]
    command += ["--max-steps", str(int(arguments.decisions * training.share)), "--seed", str(seed), "--quiet"]
    command += ["--device", arguments.device, "--set", "evaluation.episodes=0"]
    log = folder / "program.log"
    with log.open("wb") as stream:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=child_environment(), check=False
        )
    if done.returncode != 0:
        raise SetupError(f"tau-train batch ended with exit code {done.returncode}:\n{tail(log)}")
    return {side: folder / "run" / f"{side}.onnx" for side in training.learns}


def pairings(training: Training, learned: Mapping[str, Path]) -> list[tuple[Side, Side]]:
    """Taggers and runners whose games say what was learned."""
    name = f"learned against {training.opponent or 'each other'}"
    taggers, runners = ([Side(name, learned[side])] if side in learned else [] for side in SIDES)
    found = [(side, Side(one, one)) for side in taggers for one in SCRIPTED["runner"]]
    found += [(Side(one, one), side) for side in runners for one in SCRIPTED["tagger"]]
    return found + list(zip(taggers, runners, strict=False))


def judge(
    arguments: argparse.Namespace,
    made: Mapping[str, Any],
    taggers: Side,
    runners: Side,
    seed: int,
) -> Judged:
    """The share of runners that were tagged before their game was over."""
    env = registry.make(arguments.game, arguments.games, seed=UNSEEN, starts="drawn", **made)
    sides = [[i for i, name in enumerate(env.agents) if name.startswith(side)] for side in SIDES]
    players = [player(one.plays, env, agents) for one, agents in zip((taggers, runners), sides, strict=True)]
    order = torch.tensor([agent for agents in sides for agent in agents]).argsort()
    observations = env.reset()
    going = torch.ones(env.num_envs, dtype=torch.bool)
    tagged = torch.zeros(env.num_envs, len(sides[1]), dtype=torch.bool)
    while bool(going.any()):
        acted = [act(observations[:, agents]) for act, agents in zip(players, sides, strict=True)]
        taken = env.step(torch.cat(acted, dim=1)[:, order])
        tagged |= (taken.rewards[:, sides[1]] < GAMES[arguments.game]) & going[:, None]
        going &= ~taken.over
        observations = taken.observations
    return Judged(taggers.name, runners.name, seed, float(tagged.float().mean()))


def player(what: str | Path, env: BatchedEnv, agents: list[int]) -> Player:
    """A scripted player by name, or a model."""
    if isinstance(what, str):
        scripted = make_player(what, env, agents)
        return lambda observations: scripted(observations, None, env.state)
    session = onnxruntime.InferenceSession(what.read_bytes(), providers=["CPUExecutionProvider"])
    branches = len(getattr(env.action_space, "nvec", (0,)))

    def act(observations: torch.Tensor) -> torch.Tensor:
        rows = observations.flatten(0, 1).numpy()
        feed = {"obs_0": rows}
        [mask] = [one for one in session.get_inputs() if one.name == "action_masks"]
        feed["action_masks"] = np.ones((len(rows), mask.shape[1]), np.float32)
        [chosen] = session.run(["deterministic_discrete_actions"], feed)
        actions = torch.from_numpy(chosen).long().view(*observations.shape[:2], branches)
        return actions if hasattr(env.action_space, "nvec") else actions[..., 0]

    return act


def table(judged: list[Judged]) -> str:
    """One row a pairing, every seed's share in it."""
    rows: dict[tuple[str, str], list[float]] = {}
    for one in judged:
        rows.setdefault((one.taggers, one.runners), []).append(one.tagged)
    return tables.markdown(
        ["taggers", "runners", "runners tagged"],
        [[*names, ", ".join(f"{share:.0%}" for share in shares)] for names, shares in rows.items()],
    )


if __name__ == "__main__":
    sys.exit(main())

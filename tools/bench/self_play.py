"""Self-play beside learning against itself alone: Soccer Twos, by PPO and the shipped settings.

    python -m tools.bench self_play [--seeds 3 --decisions 400000 --games 200]

A run of each kind for every seed, then matches of its last policy: against chance, the script, and policies of another
seed's runs, as both teams. Who learns against itself learns from both teams, so as many decisions are half of the games
that self-play has seen: the last kind has seen as many games. The score is the share of the points, a draw counts half;
beside it stand Wilson's interval of 95 %, over the games of all seeds, and each seed's. Runs are deterministic.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tau_trainer.metrics.games import Games
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.training.api import train
from tau_trainer.training.matching import match
from tools.bench import tables

AGENTS = "64"
STRONG = "tau_trainer.headless.scenes.soccer:strong"
ALONE = "against itself"
KINDS: Mapping[str, tuple[int, Mapping[str, Any]]] = {
    "self_play": (1, {}),
    ALONE: (1, {"self_play": None}),
    f"{ALONE}, twice the decisions": (2, {"self_play": None}),
}
"""Multiple of the decisions, and changed settings, by kind of run."""
OTHER = f"another run {ALONE}"
SHARES = (1, 2, 4)
"""Quarters of a run after which a snapshot is held out."""


def main() -> int:
    """Trains, plays and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--decisions", type=int, default=400_000)
    parser.add_argument("--games", type=int, default=200)
    tables.add_output(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, results = compared(Path(folder), arguments.seeds, arguments.decisions, arguments.games)
    print(text)
    tables.write(arguments, "self_play", text, results)
    return 0


def settings(results: Path, run_id: str, seed: int, decisions: int, changed: Mapping[str, Any]) -> RunSettings:
    """The shipped settings, with PPO."""
    behavior = {
        "trainer_type": "ppo",
        "max_steps": decisions,
        "checkpoint_interval": decisions // max(SHARES),
        "keep_checkpoints": 0,
        **changed,
    }
    given: dict[str, Any] = {f"behaviors.SoccerTwos.{key}": value for key, value in behavior.items()}
    given |= {
        "checkpoint_settings.results_dir": str(results),
        "checkpoint_settings.run_id": run_id,
        "collection.deterministic": True,
        "env_settings.env_path": "headless:soccer",
        "env_settings.env_args": ["--agents", AGENTS],
        "env_settings.seed": seed,
    }
    return load_settings("SoccerTwos", given)


def compared(folder: Path, seeds: int, decisions: int, games: int) -> tuple[str, dict[str, Any]]:
    """The table, and all results."""
    runs: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    elo = []
    for seed in range(1, seeds + 1):
        for number, (kind, (factor, changed)) in enumerate(KINDS.items()):
            chosen = settings(folder, f"kind-{number}-{seed}", seed, factor * decisions, changed)
            report = train(chosen, terminal="quiet")
            print(f"{kind}, seed {seed}: {report.decisions:,} decisions, {report.wall_seconds:,.0f} s", flush=True)
            runs[kind].append(report.folder)
            elo += [behavior.elo for behavior in report.behaviors if behavior.elo is not None]
    lines = ["| against | " + " | ".join(KINDS) + " |", "| --- |" + " ---: |" * len(KINDS)]
    results: dict[str, Any] = {"elo": elo}
    held_out = {"chance": "random", "the script": STRONG}
    rows = [*held_out, *(f"another run's snapshot, {share}/{max(SHARES)}" for share in SHARES), OTHER]
    where = settings(folder, "matches", 7, decisions, {})
    for row in rows:
        cells = []
        for kind in KINDS:
            scored = [
                result(where, run, _opponent(row, held_out, runs, kind, place), games)
                for place, run in enumerate(runs[kind])
            ]
            total = summed(row, scored)
            results[f"{kind} against {row}"] = [total.record, *(some.record for some in scored)]
            each = ", ".join(some.cells[-2].removesuffix(" %") for some in scored)
            cells.append(f"{total.cells[-2]} ({total.cells[-1]}; {each})")
        lines.append(f"| {row} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines), results


def _opponent(
    row: str, held_out: Mapping[str, str], runs: Mapping[str, Sequence[Path]], kind: str, place: int
) -> str | Path:
    """Opponents of the run at ``place``: policies of another seed's runs."""
    if row in held_out:
        return held_out[row]
    other = (place + 1) % len(runs[kind])
    if row == OTHER:
        return runs[ALONE][other]
    (share,) = [share for share in SHARES if f"snapshot, {share}/" in row]
    saved = {_step(path): path for path in (runs["self_play"][other] / "checkpoints").iterdir() if path.is_dir()}
    return next(saved[step] for step in sorted(saved) if step >= share * max(saved) // max(SHARES))


def _step(checkpoint: Path) -> int:
    """Decisions of the policy."""
    return int(checkpoint.name.rpartition("-")[2].partition(".")[0])


def result(where: RunSettings, run: Path, opponent: str | Path, games: int) -> Games:
    """Scores of a run's last policy."""
    (found,) = match(where, [run, opponent], games).values()
    return found


def summed(name: str, games: Sequence[Games]) -> Games:
    """All games together."""
    total = Games(name)
    for some in games:
        for outcome, count in ((1.0, some.won), (0.5, some.drawn), (0.0, some.lost)):
            total = total.and_more(outcome, count)
    return total

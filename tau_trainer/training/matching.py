"""Matches between policies from runs, checkpoints and model files, scripts and random players."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from tau_trainer.collection.decisions import Actor
from tau_trainer.errors import ExportError, SettingsError
from tau_trainer.evaluation.matches import Contestant, team_matches
from tau_trainer.evaluation.play import Say, opened
from tau_trainer.evaluation.players import Player, make_players
from tau_trainer.export.policy import OnnxPolicy
from tau_trainer.metrics.games import Games
from tau_trainer.models import Policy
from tau_trainer.runs.checkpoints import load_checkpoint
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.stored import load_policy, stored_policies


def match(
    settings: RunSettings,
    contestants: Sequence[str | Path],
    games: int,
    *,
    deterministic: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    say: Say = lambda text: None,
) -> dict[tuple[str, str], Games]:
    """Play a tournament on an environment with teams: every contestant plays every other one.

    Args:
        settings: name the environment to play, with a seed.
        contestants: folders of runs or checkpoints, model files, or names of players; at least two.
        games: number of games of each pair of contestants, or a few more; each plays half of them in each team.
        deterministic: all policies take their most likely action. Otherwise they draw, as a model in Unity does: runs,
            checkpoints and model files alike. A policy of action values does not draw; it always takes the best action.
        stopped: called after every step; returns True to end the match.
        say: receives sentences to show to the user.

    Returns:
        By pair, the score of its first contestant.

    Raises:
        TauError: the environment or a player is not available.
    """
    names = [some.name if isinstance(some, Path) else some for some in contestants]
    if len({*names}) < len(names):
        names = [str(some) for some in contestants]
    seed = settings.env_settings.seed
    players: dict[str, Contestant] = {}
    for name, contestant in zip(names, contestants, strict=True):
        place = seed + len(players)  # so that no two players draw the same
        players[name] = _contestant(contestant, place, deterministic=deterministic)
    parameters = Lessons(settings.environment_parameters or {}).parameters
    with opened(settings, say) as environment:
        playing = team_matches(environment, players, games, parameters, stopped, say)
        return asyncio.run(playing)


def _contestant(contestant: str | Path, seed: int, *, deterministic: bool) -> Contestant:
    if isinstance(contestant, Path) and contestant.suffix == ".onnx":
        if not contestant.is_file():
            raise SettingsError(f"{contestant}: there is no such model file")
        return partial(_model_player, contestant, seed, deterministic)
    player = contestant if isinstance(contestant, str) else stored_player(contestant)
    return make_players(player, seed, deterministic=deterministic)


def _model_player(path: Path, seed: int, deterministic: bool, spec: BehaviorSpec) -> Player:
    try:
        policy = OnnxPolicy(path, spec, seed)
    except ExportError as error:
        raise SettingsError(str(error)) from error
    if deterministic and policy.only_draws:
        raise SettingsError(
            f"{path}: this model can only draw its actions, so it cannot play with --deterministic; remove that, or "
            "name the run that it came from"
        )
    return Actor(policy, np.random.default_rng([seed, 2]), deterministic=deterministic)


def stored_player(folder: Path) -> Mapping[str, Policy]:
    """The policies of a run's folder, or of one checkpoint, by behavior. Raises SettingsError, CheckpointError."""
    if not (folder / "manifest.json").is_file():
        return stored_policies(folder, load_settings(folder / "configuration.yaml"))
    settings = load_settings(folder.parent.parent / "configuration.yaml")
    last, _, spec = load_policy(load_checkpoint(folder), settings)
    return {spec.short_name: last.policy}

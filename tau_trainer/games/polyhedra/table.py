"""A polyhedra game turn by turn, between fixed players and networks of runs; playoffs; trees of all replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from tau_trainer.algorithms.base import Setup, TensorCopies, make_algorithm
from tau_trainer.algorithms.batched.acting import spec_of
from tau_trainer.algorithms.batched.actors import actor_of
from tau_trainer.algorithms.gradient import GradientAlgorithm
from tau_trainer.envs.batched import Draws
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.envs.batched.registry import make
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.games.polyhedra.drawing import draw
from tau_trainer.games.polyhedra.hironaka import Best
from tau_trainer.games.polyhedra.matches import match, take_turn
from tau_trainer.games.polyhedra.players import AGENTS, HOSTS, Player, Role, found
from tau_trainer.games.polyhedra.points import available, subsets
from tau_trainer.games.polyhedra.rules import Position, Rules, begun, drawn, over
from tau_trainer.games.polyhedra.search import search_tree
from tau_trainer.games.polyhedra.sides import Hironaka
from tau_trainer.runs.checkpoints import latest_checkpoint
from tau_trainer.runs.folder import RunFolder
from tau_trainer.settings.loading import load_batched
from tau_trainer.settings.problems import did_you_mean

_SHOWN = 8
"""Number of points of a position that fit in a line."""


@dataclass(frozen=True, slots=True)
class Game:
    """The game and its players. None means the size that a playing network has learned, or the default.

    Attributes:
        host: a fixed player, or a run's id or folder.
        agent: likewise.
        dimension: of the points; default: 3.
        points: number of points at the start; default: 5.
        max_value: greatest entry at the start; default: 20.
        start: the points themselves instead, whole numbers of at least 0.
        reposition: whether the least value of each coordinate is shifted to 0 after every turn.
        max_steps: turns after which the game is stopped.
        seed: of start and players.
        results_dir: folder of the runs.
    """

    host: str
    agent: str
    dimension: int | None = None
    points: int | None = None
    max_value: int | None = None
    start: tuple[tuple[int, ...], ...] | None = None
    reposition: bool = False
    max_steps: int = 100
    seed: int = 0
    results_dir: str = "results"


class Table:
    """A game with its players.

    Raises:
        SettingsError, CheckpointError: an unknown player, or a size that a network has not learned.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        networks: list[Hironaka] = []
        self.host = self._player("host", game.host, networks)
        self.agent = self._player("agent", game.agent, networks)
        sizes = [(env.dimension, env.max_num_points, env.max_value) for env in networks]
        likes = sizes[0] if sizes else (3, 5, 20)
        given = (game.dimension, game.points, game.max_value)
        if game.start is not None:
            given = len(game.start[0]), len(game.start), game.max_value
        self.dimension, self.points, self.max_value = (
            like if size is None else size for size, like in zip(given, likes, strict=True)
        )
        subsets(self.dimension, torch.device("cpu"))  # raises if there are too many
        for dimension, points, _ in sizes:
            if (dimension, max(points, self.points)) != (self.dimension, points):
                raise SettingsError(
                    f"a network has learned games of up to {points} points in {dimension} dimensions, this one has "
                    f"{self.points} in {self.dimension}; choose --points and --dimension, or --start, accordingly"
                )

    def _player(self, role: Role, name: str, networks: list[Hironaka]) -> Player:
        player = player_of(role, name, self.game.results_dir)
        if isinstance(player, Best):
            networks.append(player.env)
        return player

    def begin(self) -> Position:
        """The start position, in float64, so that whole numbers stay exact."""
        rules = Rules(reposition=self.game.reposition)
        if self.game.start is not None:
            return Position(begun(torch.tensor([self.game.start], dtype=torch.float64), rules))
        seeds = seeds_of(self.game.seed, 1)
        zeros = torch.zeros_like(seeds)
        drawn_ = drawn(Draws(seeds, zeros, zeros), self.dimension, self.points, self.max_value, rules)
        return Position(drawn_.points.double())

    @torch.no_grad()
    def play(self) -> Iterator[str]:
        """The game, a line for each position and each turn."""
        rules, game = Rules(reposition=self.game.reposition), self.game
        yield (
            f"host {game.host} against agent {game.agent}: {self.points} points in {self.dimension} dimensions, "
            + (f"entries 0 to {self.max_value}, seed {game.seed}" if game.start is None else "as given")
        )
        position, seeds = self.begin(), seeds_of(game.seed, 1)
        yield f"{'start':>5}  {_described(position)}"
        zeros = torch.zeros_like(seeds)
        for turn in range(1, game.max_steps + 1):
            if over(position, rules):
                yield f"over after {turn - 1} turn{'s' * (turn != 2)}: the host has won"
                return
            taken = take_turn(position, self.host, self.agent, Draws(seeds, zeros, zeros + turn), rules)
            position = taken.position
            chosen = ",".join(str(k) for k in taken.coords[0].nonzero()[:, 0].tolist())
            yield f"{turn:>5}  host names {{{chosen}}}, agent takes {int(taken.axis)}"
            yield f"{'':>5}  {_described(position)}"
        if over(position, rules):
            yield f"over after {game.max_steps} turns: the host has won"
        else:
            yield f"not over after {game.max_steps} turns: the agent holds out (--max-steps)"

    def playoff(self, turns: int, copies: int = 1, on_turn: Callable[[int], None] = lambda turn: None) -> list[int]:
        """Number of games started in ``turns`` turns, for each of several matches.

        ``on_turn``: called after each turn.
        """
        games = match(
            self.host,
            self.agent,
            turns,
            copies,
            seed=self.game.seed,
            dimension=self.dimension,
            max_num_points=self.points,
            max_value=self.max_value,
            reposition=self.game.reposition,
            on_turn=on_turn,
        )
        counted: list[int] = games.tolist()
        return counted

    def draw_tree(self, path: Path, max_size: int = 1000) -> int:
        """Write a picture of all possible replies from the start; returns its number of positions."""
        root = search_tree(self.begin(), self.host, Rules(reposition=self.game.reposition), max_size)
        draw(root, path)
        return sum(1 for _ in root.walk())


def _described(position: Position) -> str:
    """The remaining points, the largest first coordinate first."""
    rows = position.points[0][available(position.points)[0]].tolist()
    rows.sort(reverse=True)
    shown = " ".join(f"({', '.join(f'{value:g}' for value in row)})" for row in rows[:_SHOWN])
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"{len(rows)} point{'s' * (len(rows) != 1)}: {shown}{more}"


def player_of(role: Role, name: str, results_dir: str = "results") -> Player:
    """A fixed player by name, or the player of a run: its last saved network or fixed player for that role.

    Raises:
        SettingsError, CheckpointError: neither exists.
    """
    known = HOSTS if role == "host" else AGENTS
    folder = next((path for path in (Path(name), Path(results_dir) / name) if path.is_dir()), None)
    if name in known:
        return found(role, name)
    if folder is None:
        raise SettingsError(f"--{role} {name}: neither a run nor a fixed {role}; {did_you_mean(name, known)}")
    settings = load_batched(folder / "configuration.yaml")
    played = settings.played
    if played.name != "hironaka":
        raise SettingsError(f"--{role} {name}: is a run of {played.name}, not of hironaka; name one that is")
    policy = settings.behaviors[role]
    if policy.player is not None:
        return found(role, policy.player)
    env = make(played.name, 1, **played.arguments)
    assert isinstance(env, Hironaka)
    spec = spec_of(role, env.observation_space, env.action_space)
    learner = make_algorithm(Setup(spec, policy, 0, learns=False, copies=TensorCopies(1, 1)))
    assert isinstance(learner, GradientAlgorithm)
    latest = latest_checkpoint(RunFolder(folder, resumed=True).checkpoints, role)
    if latest.checkpoint is None:
        raise CheckpointError(f"--{role} {name}: the run has saved no {role}; name one that has")
    metadata = latest.checkpoint.manifest["learner"]["algorithm"]
    learner.load(latest.checkpoint.tensors, metadata, fresh=True)
    return Best(actor_of(learner, env.action_space), env)

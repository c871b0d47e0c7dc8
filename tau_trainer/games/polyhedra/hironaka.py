"""The polyhedra game's trainer: host and agent are two policies, and each learns against the other's current one.

In addition to the work of every batched run, it measures the strength of all hosts against all agents before and after
training, of networks and fixed players alike. The measure is rho: games divided by turns. A high rho favors the host, a
low one the agent.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel
from typing_extensions import override

from tau_trainer.algorithms.batched import ActorInput, TensorActor
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.envs.batched.registry import make
from tau_trainer.errors import SettingsError, TauError
from tau_trainer.evaluation.batched import EVALUATION_SEED
from tau_trainer.files import atomic_write_bytes, atomic_write_json, parse_json
from tau_trainer.games.polyhedra.matches import MatchSettings, Rho, rho_matrix
from tau_trainer.games.polyhedra.players import AGENTS, HOSTS, Player, Role, View, found
from tau_trainer.games.polyhedra.rules import Rules
from tau_trainer.games.polyhedra.sides import Hironaka
from tau_trainer.runs.collector import Conclusion
from tau_trainer.runs.run import Run
from tau_trainer.settings import RunSettings, TrainerSettings
from tau_trainer.specs import Json
from tau_trainer.training.batched.playing import Playing
from tau_trainer.training.batched.policies import PolicyEntry
from tau_trainer.training.batched.run import CopiesCollector
from tau_trainer.training.learning.learner import Shared

NETWORK = "network"
"""Name of the policy among the players."""
NUMBERS = "rho.json"
PICTURE = "rho.png"
_NOT_ASKED = {
    *("reward_signal_steps_per_update", "prioritized", "terminal_share", "n_step", "hindsight", "noisy"),
    "layer_statistics",
}
"""Hyperparameters that training on tensors does not read, or that do not change the result of learning."""
_KNOWN = {"host": HOSTS, "agent": AGENTS}
_MARKS = {"host": ("random", "zeillinger", NETWORK), "agent": ("random", "choose_first", NETWORK)}
"""Players that networks are measured against during training."""
_OTHER_GAMES = {"morin"}
"""Players that need weights, which only the variant ``thom`` has."""
_SHAPE = "net_arch", "hidden_units", "num_layers"


class Best:
    """The current network of an actor as a player that takes its best action.

    Attributes:
        env: of the sizes that the network has learned.
        counts: int64 [k]: how often it chose each action, in games with at least two points.
    """

    def __init__(self, actor: TensorActor, env: Hironaka) -> None:
        self._actor, self.env = actor, env
        self.counts = torch.zeros(int(env.action_space.n), dtype=torch.int64, device=env.device)  # type: ignore[union-attr]

    def __call__(self, view: View) -> torch.Tensor:
        """See :data:`Player`."""
        rows, choices = self.env.seen(view)
        actions = self._actor.act(ActorInput(rows[:, None], choices[:, None]), deterministic=True).actions[:, 0]
        going = ((view.points[..., 0] >= 0).sum(dim=1) > 1).to(torch.int64)
        self.counts = self.counts.index_add(0, actions, going)
        return actions


class HironakaPlaying(Playing):
    """The game's copies with host and agent: networks that learn against each other, or fixed players."""

    env: Hironaka

    def __init__(self, settings: RunSettings, ranks: Ranks, shared: Shared) -> None:
        roles: tuple[Role, Role] = ("host", "agent")
        players = {role: settings.behaviors[role].player for role in roles}
        self._fixed: dict[Role, Player] = {
            role: found(role, name) for role, name in players.items() if name is not None
        }
        self.networks: dict[str, Best] = {}
        """The networks that learn, by role."""
        seated = {
            role: settings.behaviors[role].model_copy(update={"agents": (role,)})
            for role in roles
            if role not in self._fixed
        }
        super().__init__(settings.model_copy(update={"behaviors": seated}), ranks, shared)

    @override
    def make_env(self, num_envs: int, seed: int, ranks: Ranks | None = None) -> BatchedEnv:
        played = self.settings.played
        arguments = {**played.arguments, "sides": tuple(self.settings.behaviors)}
        options = {"seed": seed, "device": self.settings.device, "starts": played.starts, "pool": played.pool}
        env = make(played.name, num_envs, **options, **arguments)  # type: ignore[arg-type]
        assert isinstance(env, Hironaka)
        for role, player in self._fixed.items():
            env.meet(role, player)
        return env

    @override
    def make_seat(self, name: str, agents: list[int]) -> PolicyEntry:
        entry, role = super().make_seat(name, agents), self.env.agents[agents[0]]
        self.networks[role] = Best(entry.actor, self.env)
        self.env.meet(role, self.networks[role])
        return entry


class HironakaCollector(CopiesCollector):
    """Collects experience from ``environment: {name: hironaka}``.

    Raises:
        SettingsError: the policies are not ``host`` and ``agent``, or one of them leaves a required key out.
    """

    playing: HironakaPlaying

    def __init__(self, settings: RunSettings, run: Run, ranks: Ranks | None = None) -> None:
        # A compiled step would keep the other side's old network.
        super().__init__(settings.model_copy(update={"compile": "off"}), run, ranks)
        self._rho_of: dict[str, Any] = {}
        """Content of :data:`NUMBERS`: rho ``before`` and ``after``."""
        if run.folder.resumed:
            self._rho_of = {"before": _read(run.folder.path / NUMBERS).get("before")}
        if self._rho_of.get("before") is None and not run.plays:
            self._rho_of["before"] = self._matrix()

    @override
    @staticmethod
    def check(settings: RunSettings) -> None:
        """Raises SettingsError if the policies are not ``host`` and ``agent``, have a memory, or leave a key out.

        Raises it for several ranks too: each side plays against the other's current network, which ranks would have to
        exchange.
        """
        if settings.devices > 1:
            raise SettingsError(f"devices {settings.devices}: hironaka's two sides learn in one process; remove it")
        for name in settings.behaviors:
            if name not in ("host", "agent"):
                raise SettingsError(f"behaviors.{name}: hironaka has only host and agent; rename or remove it")
        for role in ("host", "agent"):
            if role not in settings.behaviors:
                like = "zeillinger" if role == "host" else "choose_first"
                text = f"behaviors.{role} is missing; give it a network's settings, or a fixed player: `player: {like}`"
                raise SettingsError(text)
            policy = settings.behaviors[role]
            if policy.network_settings.memory is not None:
                text = "a position says all that there is to know, and sides meet without a memory; remove it"
                raise SettingsError(f"behaviors.{role}.network_settings.memory: {text}")
            if policy.player is None:
                for key in _unsaid(policy):
                    raise SettingsError(
                        f"behaviors.{role}.{key} is missing; hironaka's policies have no hidden defaults, so set a "
                        "value"
                    )

    @override
    def make_playing(self, settings: RunSettings, ranks: Ranks) -> HironakaPlaying:
        return HironakaPlaying(settings, ranks, self.shared)

    @override
    def scores(self, stopped: Callable[[], bool]) -> dict[str, dict[str, float]]:
        """Rho of the networks against each other and against the players that hironaka evaluates them with."""
        scores: dict[str, dict[str, float]] = {}
        for role, network in self.playing.networks.items():
            other = "agent" if role == "host" else "host"
            others = {name: player for name, player in self._players(other).items() if name in _MARKS[other]}
            sides: dict[str, dict[str, str | Player]] = {role: {NETWORK: network}, other: others}
            rho = self._rho(sides["host"], sides["agent"]).rho.flatten().tolist()
            scores[role] = {f"Rho/{name}": value for name, value in zip(others, rho, strict=True)}
        return scores

    def _players(self, role: str) -> dict[str, str | Player]:
        """All players of one side by name, the network last."""
        players: dict[str, str | Player] = {name: name for name in _KNOWN[role] if name not in _OTHER_GAMES}
        return players | ({NETWORK: self.playing.networks[role]} if role in self.playing.networks else {})

    def _rho(self, hosts: Mapping[str, str | Player], agents: Mapping[str, str | Player]) -> Rho:
        games, seed = self.settings.evaluation.episodes, self.settings.seed + EVALUATION_SEED
        return rho_matrix(hosts, agents, games, self._setting, seed=seed, device=self.playing.env.device)

    def _matrix(self) -> dict[str, Any]:
        """Rho of every host against every agent, as JSON values."""
        for network in self.playing.networks.values():
            network.counts.zero_()
        hosts, agents = self._players("host"), self._players("agent")
        values = {name: one.cpu().numpy().round(5).tolist() for name, one in self._rho(hosts, agents)._asdict().items()}
        chosen = {
            role: one.counts[: self.playing.env.actions_of(role)].tolist()
            for role, one in self.playing.networks.items()
        }
        return {"decisions": self.steps, "hosts": [*hosts], "agents": [*agents], **values, "actions": chosen}

    @property
    def _setting(self) -> MatchSettings:
        arguments = self.settings.played.arguments
        rules = Rules(reposition=arguments["reposition"], rescale=arguments["scale_observation"])
        sizes = arguments["dimension"], arguments["max_num_points"], arguments["max_value"]
        return MatchSettings(*sizes, self.settings.evaluation.max_episode_steps, rules)

    @override
    def checkpoint(self) -> None:
        super().checkpoint()
        try:
            atomic_write_json(self.run.folder.path / NUMBERS, self._rho_of)
        except TauError as error:
            self.run.hub.warning(str(error))

    @override
    def conclude(self) -> Conclusion:
        found, path = super().conclude(), self.run.folder.path
        if self.run.error is not None or self.run.hurried.is_set():
            return found
        before, after = self._rho_of["before"], self._matrix()
        self._rho_of["after"] = after
        files, failures = dict(found.files), list(found.failures)
        try:
            files["rho"] = atomic_write_json(path / NUMBERS, self._rho_of)
            files["picture"] = atomic_write_bytes(path / PICTURE, picture(before, after))
        except TauError as error:
            failures.append(str(error))
        return found._replace(files=files, failures=failures, verdict=table(before, after))


def _unsaid(policy: TrainerSettings) -> list[str]:
    """Keys that were left at their defaults, dotted."""
    missing = ["trainer_type"] if "trainer_type" not in policy.model_fields_set else []
    if "gamma" not in policy.reward_signals["extrinsic"].model_fields_set:
        missing.append("reward_signals.extrinsic.gamma")
    for section in ("hyperparameters", "network_settings"):
        given: BaseModel = getattr(policy, section)
        wanted = set(type(given).model_fields) - _NOT_ASKED
        if section == "network_settings":
            layers = _SHAPE[:1] if "net_arch" in given.model_fields_set else _SHAPE[1:]
            wanted = {"normalize", *layers}
        missing += [f"{section}.{key}" for key in type(given).model_fields if key in wanted - given.model_fields_set]
    return missing


def table(before: Json, after: Json) -> str:
    """Rho of every host (rows) against every agent, as lines of text.

    If training changed a value, the old one is shown too.
    """
    agents = after["agents"]
    rows = [["rho", *agents]]
    for i, host in enumerate(after["hosts"]):
        cells = []
        for j, agent in enumerate(agents):
            new = f"{after['rho'][i][j]:.3f}"
            if NETWORK in (host, agent) and host in before["hosts"] and agent in before["agents"]:
                was = before["rho"][before["hosts"].index(host)][before["agents"].index(agent)]
                new = f"{was:.3f} > {new}"
            cells.append(new)
        rows.append([host, *cells])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    shares = [f"{role}: {' '.join(f'{n:,}' for n in counts)}" for role, counts in after["actions"].items()]
    return "\n".join([*lines, f"actions chosen by the networks, by number: {'; '.join(shares)}"])


def picture(before: Json, after: Json) -> bytes:
    """The matrix before and after as a PNG, side by side with the same scale of colors."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 0.42 * len(after["hosts"]) + 1.8), layout="constrained")
    top = max(np.max(before["rho"]), np.max(after["rho"]))
    for place, (title, matrix) in enumerate((("before", before), ("after", after))):
        axes, rho = figure.add_subplot(1, 2, place + 1), np.array(matrix["rho"])
        image = axes.imshow(rho, cmap="viridis", vmin=0.0, vmax=top, aspect="auto")
        axes.set_title(f"{title}: {matrix['decisions']:,} decisions")
        axes.set_xticks(range(len(matrix["agents"])), matrix["agents"], rotation=30, ha="right")
        axes.set_yticks(range(len(matrix["hosts"])), matrix["hosts"])
        for (i, j), value in np.ndenumerate(rho):
            colour = "white" if value < 0.6 * top else "black"
            axes.text(j, i, f"{value:.3f}", ha="center", va="center", fontsize=8, color=colour)
    figure.colorbar(image, label="rho: games by turns")
    held = io.BytesIO()
    FigureCanvasAgg(figure).print_png(held)  # type: ignore[no-untyped-call]
    return held.getvalue()


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content

"""The real `UnityEnvironment` (mlagents-envs 1.1.0) launches our headless engine as its build and steps all scenes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tau_trainer.headless.args import parse_args
from tau_trainer.headless.build import write_build
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import create_scene
from tests.conformance.conftest import Json, Peer, play_build, play_here, request_of

pytestmark = pytest.mark.conformance

BALANCE: Json = {
    "areas": 2,
    "parameters": {"num_agents": 2.0, "max_decisions": 9.0},
    "uniform": {"gravity": (4.0, 20.0, 11)},
    "later": {"14": {"max_decisions": 5.0}, "24": {"tilt_speed": 0.0}},
}
GAMES: dict[str, tuple[str, Sequence[str], Json]] = {
    "tau3": ("tau", ("--agents", "30"), {"parameters": {"max_decisions": 9.0, "seed": 5.0}}),
    "tau384": ("tau", ("--tau-profile", "tau384", "--agents", "3"), {}),
    "balance": ("balance", (), BALANCE),
    "basic": ("basic", ("--agents", "3"), {}),
    "gridworld": ("gridworld", ("--agents", "4"), {}),
    "hallway": ("hallway", ("--agents", "7"), {}),
    "foodcollector": ("foodcollector", ("--agents", "6"), {}),
    "sorter": ("sorter", ("--agents", "6"), {}),
    "walljump": ("walljump", ("--agents", "9"), {}),
    "dungeon": ("dungeon", ("--agents", "7"), {"parameters": {"max_decisions": 20.0}}),
    "pyramids": ("pyramids", ("--agents", "3"), {"parameters": {"max_decisions": 40.0}}),
    "soccer": ("soccer", ("--agents", "8"), {"parameters": {"max_decisions": 12.0}}),
}
"""Scene, arguments and wishes: every scene, and everything that can be wished for in one of them."""
RESETS = (7, 30)


class Games:
    """What the reference saw of each game, played once."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        self._peer, self._folder = peer, folder
        self._seen: dict[str, Json] = {}

    def build(self, game: str) -> Path:
        """The launcher of its engine."""
        scene, arguments, _ = GAMES[game]
        return write_build(self._folder / game, scene, arguments)

    def __call__(self, game: str) -> Json:
        if game not in self._seen:
            self._seen[game] = play_build(self._peer, self.build(game), self._folder / game, **wishes_of(game))
        return self._seen[game]


@pytest.fixture(scope="module")
def games(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Games:
    return Games(peer, tmp_path_factory.mktemp("games"))


def wishes_of(game: str) -> Json:
    return {"resets": list(RESETS), "parameters": {"max_decisions": 9.0}, **GAMES[game][2]}


def here(game: str, **otherwise: object) -> Json:
    """The same game without a wire, but for what is asked for otherwise."""
    scene, arguments, _ = GAMES[game]
    wishes: Json = {**wishes_of(game), **otherwise}
    return play_here(scene, arguments, **wishes)


def exchanges(seen: Json) -> list[Json]:
    """The exchanges of the only behavior."""
    (name,) = seen["exchanges"][0]
    return [one[name] for one in seen["exchanges"]]


@pytest.mark.parametrize("game", GAMES)
def test_a_scene_is_the_same_game_over_the_wire_as_in_process(game: str, games: Games) -> None:
    """All behaviors, specs, masks, ids, rewards, observations and ends: bit for bit what the scene object does."""
    scene, arguments, _ = GAMES[game]
    seen, played = games(game), here(game)
    for step, (one, other) in enumerate(zip(seen["exchanges"], played["exchanges"], strict=True)):
        assert one == other, f"exchange {step}"
    assert all(part["finite"] for one in seen["exchanges"] for part in one.values())
    options = parse_args(["--scene", scene, *arguments])
    wanted = {spec.name: spec for spec in create_scene(options, EnvironmentParameters()).specs}
    assert set(seen["specs"]) == set(played["specs"]) == set(wanted)
    for name, spec in seen["specs"].items():
        sensors = [(s["name"], tuple(s["shape"]), tuple(s["dimensions"]), s["type"]) for s in spec["observations"]]
        assert sensors == [
            (s.name, s.shape, s.dimension_property, int(s.observation_type)) for s in wanted[name].observations
        ]
        actions = wanted[name].actions
        assert (spec["continuous"], tuple(spec["branches"])) == (actions.continuous_size, actions.discrete_branches)


@pytest.mark.parametrize("game", ["tau3", "balance", "gridworld", "foodcollector", "soccer"])
def test_the_same_script_on_our_own_api_sees_the_same_game(game: str, games: Games, ours: Peer, tmp_path: Path) -> None:
    """Specs in their order, ids, rewards, groups, masks, ends, statistics; observations by the hash of their bytes.

    Of statistics and wishes, masks, grids and both kinds of actions, and several behaviors, one game each.
    """
    theirs, own = games(game), ours("drive.py", request_of(games.build(game), tmp_path, **wishes_of(game)))
    assert list(own["specs"]) == list(theirs["specs"])
    assert own["specs"] == theirs["specs"]
    for step, (one, other) in enumerate(zip(own["exchanges"], theirs["exchanges"], strict=True)):
        assert one == other, f"exchange {step}"
    assert own["stats"] == theirs["stats"]


@pytest.mark.parametrize("wish", [*BALANCE, "seed"])
def test_every_wish_reaches_the_engine(wish: str, games: Games) -> None:
    """The game would have been another one without it; with it, it was the scene's own."""
    seen = exchanges(games("balance"))
    assert seen[0]["ids"] == [0, 1, 2, 3], "two agents in each of two areas"
    assert seen != exchanges(here("balance", **{wish: {"areas": 1, "seed": 4}.get(wish, {})}))


def test_a_seed_parameter_starts_the_game_anew_with_every_reset(games: Games) -> None:
    seen, without = exchanges(games("tau3")), exchanges(games("balance"))
    for step in RESETS:
        assert seen[step + 1]["observations"] == seen[0]["observations"]
        assert without[step + 1]["observations"] != without[0]["observations"]


def test_statistics_arrive_in_the_stats_channel(games: Games) -> None:
    """Keys of the Tau scene after a thousand rewards: (value, aggregation) pairs, 0 average and 1 most recent."""
    stats = games("tau3")["stats"]
    assert {"Averaged Reward", "Tau/Accuracy", "Tau/Within Threshold", "Tau/Mean Abs Error"} <= set(stats)
    assert stats["Tau/Decisions"] == [[1020.0, 1]], "30 agents: the first exchange after a thousand"
    ((value, kind),) = stats["Averaged Reward"]
    assert kind == 0
    assert -3.0 <= value <= 1.0

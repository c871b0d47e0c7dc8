"""Self-play in whole runs of small games, and role by role."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from safetensors.numpy import load_file

from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.readers import Reader
from tau_trainer.collection.decisions import DecisionBatcher
from tau_trainer.errors import SettingsError
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import Scene
from tau_trainer.memory import Rollout, RolloutMemory
from tau_trainer.metrics import MetricsHub, RunReport, keys, read_log
from tau_trainer.rewards import EngineReward
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.settings.signals import SelfPlaySettings
from tau_trainer.specs import ActionSpec, IndexArray, StepBatch, empty_terminals
from tau_trainer.training.agents import AgentTrainer
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.opponents import Opponents
from tau_trainer.training.learning.self_play import Ghost, SelfPlay, TeamAgent
from tau_trainer.training.matching import stored_player
from tests.training.fakes import Memory, Stage, begin, pairs_of, step, train, vector_spec
from tests.training.learners import make_learner
from tests.training.pairs.test_collector import cut_off, hashes

BETS = ActionSpec(0, (3,))


class Duel(Scene):
    """One agent a behavior and game; who bids highest wins after ``length`` decisions, and bids are all that matters.

    What an agent sees is the game's number, its age, and what it bid before. Games may end ``apart`` so many decisions,
    the first one first.
    """

    resets = 0
    """Of all duels of a test."""

    def __init__(
        self, names: tuple[str, ...], games: int = 3, length: int = 4, cut: bool = False, apart: int = 0
    ) -> None:
        self.specs = tuple(vector_spec(3, BETS, name) for name in names)
        self.games, self.length, self.cut, self.apart = games, length, cut, apart
        self.age = np.zeros(games, np.int64)
        self.bids = np.zeros((len(names), games), np.float32)

    def seed(self, seed: int) -> None:
        """Nothing is drawn."""

    def reset(self, parameters: EnvironmentParameters) -> list[StepBatch]:
        type(self).resets += 1
        self.age, self.bids[:] = np.arange(self.games)[::-1] * self.apart % self.length, 0.0
        return self._batches(np.zeros(0, np.intp))

    def step(self, actions: Any) -> list[StepBatch]:
        self.age += 1
        self.bids = np.stack([actions[spec.name].discrete[:, 0] for spec in self.specs]).astype(np.float32)
        over = np.flatnonzero(self.age == self.length)
        self.age %= self.length
        return self._batches(over)

    def _batches(self, over: IndexArray) -> list[StepBatch]:
        """``over``: games that ended."""
        best = self.bids.max(axis=0)
        shared = (self.bids == best).sum(axis=0) > 1
        batches = []
        for number, spec in enumerate(self.specs):
            terminals = empty_terminals(spec.observations, len(over))
            terminals.agent_ids[:] = over + 10 * number
            terminals.truncated[:] = self.cut
            won = np.where(shared & (self.bids[number] == best), 0.0, np.where(self.bids[number] == best, 1.0, -1.0))
            terminals.reward[:] = 0.0 if self.cut else won[over]
            seen = np.stack([np.arange(self.games), self.age, self.bids[number]], 1)
            ids = [10 * number + game for game in range(self.games)]
            batches.append(step(spec, ids, 0.0, terminals, (seen.astype(np.float32),)))
        return batches


SMALL = {
    "trainer_type": "ppo",
    "max_steps": 900,
    "checkpoint_interval": 200,
    "keep_checkpoints": 0,
    "summary_freq": 300,
    "hyperparameters.batch_size": 30,
    "hyperparameters.buffer_size": 120,
    "network_settings.hidden_units": 8,
    "self_play": {"save_steps": 100, "team_change": 230, "swap_steps": 40, "window": 3},
}


def settings(results: Path, run_id: str = "whole", scene: str = "basic", **more: Any) -> RunSettings:
    given: dict[str, Any] = {f"default_settings.{key}": value for key, value in SMALL.items()}
    given |= {
        "checkpoint_settings.results_dir": str(results),
        "checkpoint_settings.run_id": run_id,
        "collection.deterministic": True,
        "env_settings.env_path": f"headless:{scene}",
        "env_settings.seed": 1,
    }
    return load_settings(None, given | {key.replace("__", "."): value for key, value in more.items()})


@pytest.fixture
def duel(monkeypatch: pytest.MonkeyPatch) -> Any:
    Stage.opened(monkeypatch)

    def play(*names: str, **how: Any) -> None:
        Duel.resets = 0
        monkeypatch.setattr("tests.training.fakes.create_scene", lambda *_, **__: Duel(names, **how))

    return play


def told(report: RunReport, name: str) -> dict[str, Any]:
    """What the newest checkpoint of a learner knows of self-play."""
    newest = max((report.folder / "checkpoints").glob(f"{name}-*/manifest.json"), key=lambda p: p.stat().st_mtime_ns)
    content = json.loads(newest.read_text())["content"]
    return {"run": content["self_play"], **content["learner"]["self_play"]}


SYMMETRIC, ASYMMETRIC = ("Duel?team=0", "Duel?team=1"), ("Cat?team=0", "Dog?team=1")


@pytest.mark.parametrize("names", [SYMMETRIC, ASYMMETRIC, ("Cat?team=4", "Dog?team=2", "Cat?team=7")])
def test_a_run_that_was_cut_off_goes_on_equal_to_the_bit(duel: Any, tmp_path: Path, names: tuple[str, ...]) -> None:
    """Snapshots, opponents, ratings, results, counters and random numbers with it."""
    duel(*names)
    pairs: dict[str, Any] = {"env_settings__num_envs": 2, "default_settings__max_steps": 450}
    whole = train(settings(tmp_path, **pairs), None, "learn")
    cut_off(whole, tmp_path / "cut", 1)
    resumed = train(settings(tmp_path, "cut", checkpoint_settings__resume=True, **pairs), None, "learn")
    assert hashes(resumed) == hashes(whole)
    for name in {name.partition("?")[0] for name in names}:
        assert told(resumed, name) == told(whole, name)
        assert len(told(whole, name)["kept"]) == 3
    assert [(each.elo, each.games) for each in resumed.behaviors] == [
        (each.elo, each.games) for each in whole.behaviors
    ]


def turns_of(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The team that learns after each turn that was passed on."""
    changes: list[int | None] = []
    passed_on = SelfPlay._next

    def watched(self: SelfPlay) -> bool:
        found = passed_on(self)
        changes.append(self.learning)
        return found

    monkeypatch.setattr(SelfPlay, "_next", watched)
    return changes


@pytest.mark.parametrize(("names", "generation"), [(SYMMETRIC, 2), (ASYMMETRIC, 1)])
def test_a_run_that_was_cut_off_between_a_draw_and_the_next_goes_on_equal(
    duel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], generation: int
) -> None:
    """Games end at different times, so agents of a ghost meet the newest policy as drawn before and after the cut."""
    duel(*names, length=20, games=5, apart=3)
    orders: list[tuple[int, list[str]]] = []
    changes, decide = turns_of(monkeypatch), Ghost.decide

    def watched(self: Ghost, rows: Any, *seen: Any) -> Any:
        numbers = np.unique(self._side.marks["lineup"][rows]).tolist()
        orders.append((len(rows), [self._side.lineups[number][self._key].key for number in numbers]))
        return decide(self, rows, *seen)

    monkeypatch.setattr(Ghost, "decide", watched)
    rules = {"save_steps": 100, "team_change": 120, "swap_steps": 25, "play_against_latest_model_ratio": 0.8}
    more: dict[str, Any] = {"default_settings__self_play": rules, "default_settings__checkpoint_interval": 150}
    more |= {"default_settings__max_steps": 500, "default_settings__hyperparameters__buffer_size": 150}
    whole = train(settings(tmp_path, **more), None, "learn")
    met, turns = orders.copy(), changes.copy()
    orders.clear()
    changes.clear()
    cut_off(whole, tmp_path / "cut", generation)
    resumed = train(settings(tmp_path, "cut", checkpoint_settings__resume=True, **more), None, "learn")
    assert hashes(resumed) == hashes(whole)
    assert orders == met[-len(orders) :], "each decision of a ghost was made against the same opponents"
    assert changes == turns[-len(changes) :]
    assert 0 < len(changes) < len(turns), "turns passed on before it was cut off, and after"
    assert any(keys.count("newest") > 1 for _, keys in orders), "drawn at different times, and in play together"


@pytest.mark.parametrize("trainer", ["sac", "sac_ln", "poca"])
def test_other_trainers_go_on_so_too(stage: Stage, tmp_path: Path, trainer: str) -> None:
    """Two against two, with groups; SAC with its replay memory."""
    more: dict[str, Any] = {"default_settings__trainer_type": trainer, "scene": "soccer"}
    more |= {"default_settings__max_steps": 800, "env_settings__env_args": ["--agents", "32", "--max-decisions", "20"]}
    if trainer != "poca":
        more |= {"default_settings__hyperparameters__buffer_init_steps": 100}
        more |= {"default_settings__hyperparameters__steps_per_update": 20}
        more |= {"default_settings__hyperparameters__save_replay_buffer": True}
    whole = train(settings(tmp_path, **more), None, "learn")
    cut_off(whole, tmp_path / "cut", 2)
    resumed = train(settings(tmp_path, "cut", checkpoint_settings__resume=True, **more), None, "learn")
    assert hashes(resumed) == hashes(whole)
    assert told(resumed, "SoccerTwos") == told(whole, "SoccerTwos")
    assert told(whole, "SoccerTwos")["clock"]["ghost_steps"] > 400


def cuts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of every rollout that is learned from, how many trajectories were truncated."""
    found: list[int] = []
    read = PPO.read

    def watched(self: PPO, rollout: Rollout) -> Reader:
        found.append(int(rollout.truncated.sum()))
        return read(self, rollout)

    monkeypatch.setattr(PPO, "read", watched)
    return found


def test_nothing_of_a_ghost_is_stored_or_counted_and_no_environment_is_reset(
    duel: Any, tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    duel(*SYMMETRIC)
    cut, changes = cuts(monkeypatch), turns_of(monkeypatch)
    never: dict[str, Any] = {"default_settings__checkpoint_interval": 100_000}
    report = train(settings(tmp_path, **never), memory, "learn")
    assert changes[:3] == [1, 0, 1]
    assert Duel.resets == 1, "the incumbent resets at every change of the team"
    assert report.decisions == report.behaviors[0].step == 900
    summed = sum(summary.statistics[keys.CUMULATIVE_REWARD].count for summary in memory.summaries)
    # 3 agents learn at a time, 4 decisions an episode; each change costs the 3 episodes that ran of those who begin.
    assert summed == report.behaviors[0].episodes <= 900 / 4
    assert summed >= 900 / 4 - 3 * (len(changes) + 1)
    assert 0 < sum(cut) <= 3 * len(changes), "what was open is cut there"
    games = report.behaviors[0].games
    assert sum(some.played for some in games) <= summed
    assert {some.opponent for some in games} >= {"newest", "snapshot at 0"}
    assert told(report, "Duel")["clock"]["ghost_steps"] >= 897


def test_behaviors_of_different_teams_learn_in_turn(duel: Any, tmp_path: Path, memory: Memory) -> None:
    duel(*ASYMMETRIC)
    report = train(settings(tmp_path, default_settings__max_steps=600), memory, "learn")
    assert [(behavior.name, behavior.step) for behavior in report.behaviors] == [("Cat", 600), ("Dog", 600)]
    turns = [summary.behavior for summary in memory.summaries]
    assert set(turns[:2]) == {"Cat", "Dog"}, "one does not wait until the other is done"
    for behavior, other in (("Cat", "Dog"), ("Dog", "Cat")):
        found = next(each for each in report.behaviors if each.name == behavior)
        assert {games.behavior for games in found.games} == {other}
        assert told(report, behavior)["clock"]["last_change"] > 400


def test_elo_and_results_are_told(duel: Any, tmp_path: Path, memory: Memory) -> None:
    duel(*SYMMETRIC)
    report = train(settings(tmp_path), memory, "learn")
    (behavior,) = report.behaviors
    assert keys.ELO in memory.summaries[0].statistics
    assert behavior.elo is not None
    assert behavior.elo != 1200.0
    (record,) = [record for record in read_log(report.folder / "log.jsonl") if record["type"] == "result"]
    (told_of,) = record["behaviors"]
    assert told_of["elo"] == behavior.elo
    for games, row in zip(behavior.games, told_of["games"], strict=True):
        assert row["interval"] == pytest.approx(games.interval)
        assert games.played == row["won"] + row["drawn"] + row["lost"]


def test_what_a_limit_cut_moves_no_rating_and_is_drawn(duel: Any, tmp_path: Path, memory: Memory) -> None:
    duel(*SYMMETRIC, cut=True)
    (behavior,) = train(settings(tmp_path), memory, "learn").behaviors
    assert behavior.elo == 1200.0
    assert keys.ELO not in memory.summaries[0].statistics
    assert sum(games.drawn for games in behavior.games) == sum(games.played for games in behavior.games) > 0


def test_games_without_end_get_new_opponents_at_once(
    duel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duel(*SYMMETRIC, length=100_000)
    met: list[str] = []
    ask = TeamAgent.ask

    def watched(self: TeamAgent, batch: Any, rows: Any, ended: Any) -> Any:
        answer = ask(self, batch, rows, ended)
        if not self.learns:
            number = int(self._side.marks["lineup"][rows[0]])
            met.append(self._side.lineups[number]["Duel", self.team].key)
        return answer

    monkeypatch.setattr(TeamAgent, "ask", watched)
    train(settings(tmp_path, default_settings__checkpoint_interval=100_000), None, "learn")
    assert len(set(met)) > 2


def test_an_opponent_stays_for_the_whole_game(duel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duel(*SYMMETRIC, length=30)
    seen: list[tuple[int, int, int]] = []
    ask = TeamAgent.ask

    def watched(self: TeamAgent, batch: Any, rows: Any, ended: Any) -> Any:
        answer = ask(self, batch, rows, ended)
        if not self.learns:
            seen.append((int(batch.obs[0][0, 1]), int(self._side.marks["lineup"][rows[0]]), int(self._play.lineup)))
        return answer

    monkeypatch.setattr(TeamAgent, "ask", watched)
    many = {"save_steps": 100, "team_change": 100_000, "swap_steps": 20}
    train(
        settings(tmp_path, default_settings__self_play=many, default_settings__checkpoint_interval=100_000),
        None,
        "learn",
    )
    after = seen[31:]
    assert any(now != current for _, now, current in after), "a draw waits for the game's end"
    for (_, before, _), (age, now, _) in itertools.pairwise(after):
        assert age == 0 or now == before


def test_it_learns_to_bid_highest_and_beats_where_it_began(duel: Any, tmp_path: Path) -> None:
    """By chance a third is won and a third drawn; who always bids highest scores 0.83 against chance."""
    duel(*SYMMETRIC, games=16, length=1)
    eager: dict[str, Any] = {
        "default_settings__max_steps": 8000,
        "default_settings__hyperparameters__learning_rate": 0.01,
        "default_settings__hyperparameters__buffer_size": 512,
        "default_settings__hyperparameters__batch_size": 128,
        "default_settings__self_play": {"save_steps": 1000, "team_change": 2000, "swap_steps": 200},
        "default_settings__checkpoint_interval": 100_000,
    }
    report = train(settings(tmp_path, **eager), None, "learn")
    policy = stored_player(report.folder)["Duel"]
    seen = np.stack(np.meshgrid(np.arange(16), [0], [0, 1, 2]), axis=-1).reshape(-1, 3).astype(np.float32)
    bids = policy.act((seen,), None, np.random.default_rng(0)).discrete[:, 0]
    assert (bids == 2).mean() > 0.9
    (first,) = [games for games in report.behaviors[0].games if games.made == 0]
    assert first.interval[0] > 0.5


def test_a_saved_run_plays_for_all_teams(duel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duel(*SYMMETRIC)
    train(settings(tmp_path), None, "learn")
    session = begin(settings(tmp_path, checkpoint_settings__inference=True), None, "learn")
    try:
        pool = pairs_of(session).pool
        assert all(isinstance(learner, Learner) and learner.opponents is None for learner in pool.learners.values())
    finally:
        session.cancel()
        report = session.wait()
    assert report.outcome == "played"


def test_a_run_begins_with_the_weights_of_another_alone(duel: Any, tmp_path: Path, memory: Memory) -> None:
    duel(*SYMMETRIC)
    first = train(settings(tmp_path, "first", default_settings__max_steps=240), None, "learn")
    begun = settings(
        tmp_path,
        "second",
        checkpoint_settings__initialize_from="first",
        default_settings__max_steps=50,
        default_settings__hyperparameters__buffer_size=30,
    )
    second = train(begun, memory, "learn")
    (opening,) = [facts for facts in told(second, "Duel")["kept"] if facts["made"] == 0]
    assert (opening["key"], opening["version"]) == ("0", 0), "nothing of the other run's opponents"
    newest = stored_player(first.folder)["Duel"].weights["body.0.weight"]
    saved = max((second.folder / "checkpoints").glob("Duel-*/tensors.safetensors"))
    assert load_file(saved)["self_play.0.body.0.weight"].tobytes() == newest.tobytes()


def test_a_turn_of_a_team_that_is_gone_passes_on(duel: Any, tmp_path: Path) -> None:
    """The run that is resumed knew another team."""
    duel("Duel?team=0", "Duel?team=9")
    most = {"save_steps": 100, "team_change": 150, "swap_steps": 40}
    given: dict[str, Any] = {"default_settings__max_steps": 260, "default_settings__self_play": most}
    whole = train(settings(tmp_path, **given), None, "learn")
    assert told(whole, "Duel")["run"] == {"learning": 9, "queue": [0]}
    duel("Duel?team=0", "Duel?team=1")
    given |= {"default_settings__max_steps": 400, "checkpoint_settings__resume": True}
    resumed = train(settings(tmp_path, **given), None, "learn")
    assert resumed.outcome == "completed"
    assert resumed.behaviors[0].step >= 400


async def nothing() -> None:
    """Nobody learns."""


class Pitch:
    """Environments whose AgentTrainers feed one learner of teams."""

    SPECS = tuple(vector_spec(name=f"Agent?team={team}") for team in (0, 1))

    def __init__(self, hub: MetricsHub, **rules: int) -> None:
        self.learner = learner = make_learner(hub)
        given = {"save_steps": 100, "swap_steps": 100, **rules}
        learner.opponents = Opponents(SelfPlaySettings.model_validate(given), 1, lambda: learner.policy, learner.spec)
        self.play, batcher = SelfPlay(hub), DecisionBatcher()
        self.trainers = [
            AgentTrainer(
                0, lambda spec: self.play.agent(learner, spec, batcher, nothing), lambda spec: EngineReward(), hub
            )
            for _ in range(2)
        ]

    async def asks(self, number: int, *agents: list[int], reward: float = 0.0) -> None:
        """Agents of each team ask in an environment."""
        batches = [step(spec, ids, reward) for spec, ids in zip(self.SPECS, agents, strict=False)]
        await self.trainers[number].decide(batches, {spec.name: spec for spec in self.SPECS})

    def records(self, number: int) -> None:
        self.trainers[number].record()
        self.play.advance()

    def learned(self) -> Rollout:
        return Rollout(cast(RolloutMemory, self.learner.memory).take().data)


async def test_who_was_not_heard_of_while_others_learned_does_not_go_on_from_then(hub: MetricsHub) -> None:
    pitch = Pitch(hub, team_change=2)

    for number, asking in enumerate([([1, 2, 3], []), ([], [1, 2, 3]), ([1, 2, 3], []), ([1, 2, 3], [1, 2, 3])]):
        assert pitch.play.learning == (None, 1, 0, 1)[number]
        await pitch.asks(0, *asking, reward=float(number))
        pitch.records(0)
    rollout = pitch.learned()
    assert rollout.rewards["extrinsic"].ravel().tolist() == [3.0] * 3, "all else came when another team learned"
    assert rollout.truncated.all()


async def test_one_team_is_told_of(hub: MetricsHub, memory: Memory) -> None:
    pitch = Pitch(hub, team_change=2)

    for _ in range(4):
        await pitch.asks(0, [1, 2, 3])
        pitch.records(0)
    hub.drain(5.0)
    assert memory.warnings == ["Agent: self_play is on, but there is only one team, so it has no opponent"]
    assert pitch.learner.decisions == 12


async def test_what_waits_for_an_answer_as_the_turn_passes_on_is_taken_as_it_was_asked(hub: MetricsHub) -> None:
    """Two environments: while one waits, a message of the other passes the turn on."""
    pitch = Pitch(hub, team_change=5)
    play, learner, (here, there) = pitch.play, pitch.learner, pitch.trainers

    async def exchange(trainer: AgentTrainer) -> None:
        await pitch.asks(pitch.trainers.index(trainer), [1, 2, 3], [1, 2, 3])

    await exchange(here)
    here.record()
    await exchange(here)
    await exchange(there)
    here.record()
    play.advance()
    assert (play.learning, learner.decisions) == (1, 6)
    there.record()
    assert learner.decisions == 6, "nobody of it learns: one side asked as a ghost, the other is one now"
    assert here.tally.decisions + there.tally.decisions == 6
    assert isinstance(learner.memory, RolloutMemory)
    assert len(learner.memory.open_rows) == 3, "of the team that learned, until they are heard of again"
    await exchange(here)
    here.record()
    assert learner.decisions == 9
    rollout = pitch.learned()
    assert rollout.truncated.tolist() == [False] * 3 + [True] * 3
    assert not rollout.terminated.any()


def test_a_model_that_is_not_there_is_told_before_anything_starts(tmp_path: Path) -> None:
    given = settings(tmp_path, default_settings__self_play={"opponents": ["gone.onnx"]})
    with pytest.raises(SettingsError, match=r"default_settings\.self_play\.opponents: there is no file 'gone\.onnx'"):
        train(given, None, "learn")


def test_pairs_of_a_task_have_no_teams(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"self_play is for teams in a game, but `parallel` trains pairs at a task"):
        train(settings(tmp_path), None, "parallel")

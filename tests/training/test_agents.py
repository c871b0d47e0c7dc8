from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from tau_trainer.collection.decisions import DecisionBatcher, TauAgent
from tau_trainer.columns import EXTRINSIC, Rows
from tau_trainer.errors import NonFiniteError, SettingsError
from tau_trainer.memory import StepFacts
from tau_trainer.metrics import MetricsHub, TaskKeys
from tau_trainer.metrics import keys as names
from tau_trainer.models import Decision
from tau_trainer.rewards import EngineReward, Rewarder, RewardResult
from tau_trainer.settings import RewardSettings
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BehaviorSpec,
    BoolArray,
    FloatArray,
    Observations,
    ObservationSpec,
    StepBatch,
)
from tau_trainer.tau.rewarder import RewardComputer
from tau_trainer.training.agents import AgentTrainer
from tau_trainer.training.learning.learner import Learner
from tests.training.fakes import Memory, ended, step, vector_spec
from tests.training.learners import FakeLearner

SPEC = vector_spec()
TARGETED = BehaviorSpec(
    "TauAgent?team=0", (ObservationSpec("prompt", (3,)), ObservationSpec("target", (2,))), ActionSpec(2)
)
FULL = BehaviorSpec(
    "TauAgent?team=0",
    (ObservationSpec("prompt", (3,)), ObservationSpec("target", (2,)), ObservationSpec("mood", (1,))),
    ActionSpec(2, (3,)),
)
VISIBLE = BehaviorSpec(FULL.name, (FULL.observations[0], FULL.observations[2]), FULL.actions)
KEYS = TaskKeys("Task/Reward", "Task/Success", "Task/Aggregated")


class WatchedAgent(TauAgent):
    """Writes down what an AgentTrainer tells it."""

    def __init__(self, learner: FakeLearner, spec: BehaviorSpec, batcher: DecisionBatcher) -> None:
        super().__init__(cast(Learner, learner), spec, batcher, learner.hand_over)
        self.told: list[tuple[str, list[int], list[Any]]] = []
        self.known: list[StepFacts] = []

    def remember(self, rows: Rows, known: StepFacts, batch: StepBatch, decision: Decision) -> bool:
        self.told.append(("acted", rows.tolist(), known.rewards[EXTRINSIC].tolist()))
        self.known.append(known)
        return True

    def end(self, rows: Rows, known: StepFacts, obs: Observations, truncated: BoolArray) -> None:
        self.told.append(("ended", rows.tolist(), [*known.rewards[EXTRINSIC].tolist(), *truncated.tolist()]))
        self.known.append(known)

    def of(self, kind: str) -> list[tuple[list[int], list[Any]]]:
        return [(rows, values) for what, rows, values in self.told if what == kind]


class Bench:
    """An AgentTrainer whose agents are watched; ``reward`` as a RewardComputer takes it, or none."""

    def __init__(self, hub: MetricsHub, *, keys: TaskKeys | None = KEYS, **reward: Any) -> None:
        self.agents: dict[str, WatchedAgent] = {}
        self.learners: dict[str, FakeLearner] = {}
        self.batcher = DecisionBatcher()
        self.reward = {"source": "engine"} | reward
        self.trainer = AgentTrainer(3, self._agent, self._rewarder, hub, keys)
        self.hub = hub
        self.judged = keys is not None

    def _agent(self, spec: BehaviorSpec) -> TauAgent:
        learner = self.learners[spec.name] = FakeLearner(spec)
        agent = self.agents[spec.name] = WatchedAgent(learner, spec, self.batcher)
        return agent

    def _rewarder(self, spec: BehaviorSpec) -> Rewarder:
        if not self.judged:
            return EngineReward()
        sensors = [sensor.name for sensor in spec.observations]
        target = sensors.index("target") if "target" in sensors else 0
        settings = {key: value for key, value in self.reward.items() if key != "formula"}
        formula = self.reward.get("formula", "binary")
        return RewardComputer(RewardSettings.model_validate(settings), formula, spec.actions.components, target)

    def respond(self, *batches: StepBatch, spec: BehaviorSpec = SPEC) -> dict[str, Actions]:
        actions = self.decide(*batches, spec=spec)
        self.trainer.record()
        return actions

    def decide(self, *batches: StepBatch, spec: BehaviorSpec = SPEC) -> dict[str, Actions]:
        specs = {batch.behavior: spec for batch in batches}
        return asyncio.run(self.trainer.decide(batches, specs))

    def of(self, spec: BehaviorSpec = SPEC) -> WatchedAgent:
        return self.agents[spec.name]


@pytest.fixture
def bench(hub: MetricsHub) -> Bench:
    return Bench(hub)


# --- the AgentTrainer -------------------------------------------------------------------------------------------------


def test_rewards_follow_their_agents(bench: Bench, hub: MetricsHub) -> None:
    actions = bench.respond(step(SPEC, [5, 9], [50.0, 50.0]))
    assert actions[SPEC.name].continuous.tolist() == [[1.0, 1.0]] * 2, "6.0 as the engine gets it"
    bench.respond(step(SPEC, [9, 5], [2.0, 1.0]))
    assert bench.of().of("acted")[1] == ([1, 0], [[2.0], [1.0]])
    assert bench.respond(step(SPEC, [])) == {}
    assert bench.trainer.tally.decisions == 4
    told = hub.flush("Agent", 4).statistics[KEYS.reward]
    assert (told.count, told.mean) == (2, 1.5), "the first message of an episode rewards no decision"


def test_ends_come_before_the_next_episode(bench: Bench, hub: MetricsHub, memory: Memory) -> None:
    bench.respond(step(SPEC, [1, 2]))
    bench.respond(step(SPEC, [1, 2], 1.0))
    bench.respond(step(SPEC, [1], 0.0, ended(SPEC, [1, 2], [5.0, 6.0], truncated=True)))
    assert bench.of().told[-2:] == [("ended", [0, 1], [[5.0], [6.0], True, True]), ("acted", [0], [[0.0]])]
    assert bench.trainer.tally.episodes == {"Agent": 2}
    assert bench.learners[SPEC.name].returns == [6.0, 7.0]
    bench.respond(step(SPEC, [7]))
    assert bench.of().told[-1][1] == [1], "agent 2 ended and did not ask again: its row is free"
    assert names.GROUP_CUMULATIVE_REWARD not in hub.flush("Agent", 4).statistics, "there is no group"
    hub.drain(5.0)
    assert memory.warnings == []


def test_group_rewards_are_learned_from_and_told_apart(bench: Bench, hub: MetricsHub, memory: Memory) -> None:
    """As ML-Agents has it: only the agents' own are in the cumulative reward, and what is learned from is both."""
    bench.respond(step(SPEC, [1, 2]))
    batch = step(SPEC, [1, 2], 1.0)
    batch.group_reward[0] = 0.5
    last = ended(SPEC, [1, 2], [2.0, 3.0])
    last.group_reward[0], last.group_id[0] = 0.25, 7
    bench.respond(batch)
    bench.respond(step(SPEC, [], terminals=last))
    assert bench.of().of("acted")[-1][1] == [[1.5], [1.0]]
    assert bench.of().of("ended")[-1][1][:2] == [[2.25], [3.0]]
    assert bench.learners[SPEC.name].returns == [3.75, 4.0], "what policies are compared by is both, too"
    found = hub.flush("Agent", 4).statistics
    assert (found[names.CUMULATIVE_REWARD].count, found[names.CUMULATIVE_REWARD].mean) == (2, 3.5)
    assert (found[names.GROUP_CUMULATIVE_REWARD].count, found[names.GROUP_CUMULATIVE_REWARD].mean) == (1, 0.75)
    assert found["Policy/Extrinsic Reward"].mean == pytest.approx(0.5 * (3.75 + 4.0) / 2), (
        "an episode's sum, by strength"
    )
    hub.drain(5.0)
    assert [text for text in memory.warnings if "poca" in text] == [
        "'Agent' gets rewards for its group, which ppo adds to each agent's own, so agents learn neither their "
        "own share of it nor from rewards after they leave; trainer_type: poca does both"
    ]


def test_a_reward_computed_from_the_target_is_that_of_the_action(hub: MetricsHub) -> None:
    """The policy says 1.0, whatever it sees."""
    bench = Bench(hub, source="trainer", formula="incremental", credit="component")
    prompt = np.zeros((1, 3), np.float32)
    for target in (1.0, 0.5):
        obs = (prompt, np.full((1, 2), target, np.float32))
        bench.respond(step(TARGETED, [4], 99.0, obs=obs), spec=TARGETED)
    acted = bench.of(TARGETED).of("acted")
    assert acted[1][1] == [[1.0, 1.0]], "1.0 was right the first time; the engine's 99 does not count"
    bench.respond(step(TARGETED, [], terminals=ended(TARGETED, [4], [99.0])), spec=TARGETED)
    assert bench.of(TARGETED).of("ended")[0][1][0] == [0.0, 0.0], "1 - 2 * 0.5"
    statistics = hub.flush("TauAgent", 2).pairs["3"]
    assert (statistics[KEYS.reward].mean, statistics[KEYS.success].mean) == (0.5, 0.5)


def test_binary_rewards_over_a_window(hub: MetricsHub) -> None:
    bench = Bench(hub, predicate="positive", values="pm1", aggregate="majority", window=3, learn_from="aggregate")
    for reward in (0.0, 1.0, -1.0, 2.0):
        bench.respond(step(SPEC, [0], reward))
    learned = [reward[0][0] for _, reward in bench.of().of("acted")]
    assert learned[1] == 1.0
    assert learned[3] == 1.0, "two of three were positive"
    statistics = hub.flush("Agent", 4).statistics
    assert statistics[KEYS.success].mean == pytest.approx(2 / 3)
    assert statistics[KEYS.aggregated].count == 3


def test_without_a_task_no_decision_is_scored(hub: MetricsHub) -> None:
    bench = Bench(hub, keys=None)
    bench.respond(step(SPEC, [0]))
    bench.respond(step(SPEC, [0], 1.0))
    bench.respond(step(SPEC, [0], terminals=ended(SPEC, [0], [0.5])))
    assert {key.partition("/")[0] for key in hub.flush("Agent", 3).statistics} == {"Environment", "Perf", "Policy"}
    assert bench.of().of("ended") == [([0], [[0.5], False])]
    assert bench.learners[SPEC.name].returns == [1.5]
    with pytest.raises(NonFiniteError, match="engine's reward of agent 2 of 2"):
        bench.respond(step(SPEC, [0, 1], [1.0, np.inf]))


def test_behaviors_have_their_own_agents(bench: Bench) -> None:
    other = vector_spec(name="Other?team=1", actions=ActionSpec(0, (2,)))
    steps = [step(SPEC, [1]), step(other, [1, 2], terminals=ended(other, [2], [1.0]))]
    asyncio.run(bench.trainer.decide(steps, {SPEC.name: SPEC, other.name: other}))
    assert bench.trainer.tally.decisions == 0, "the engine gets its answer first"
    assert bench.of().told == bench.of(other).told == []
    bench.trainer.record()
    assert bench.trainer.tally.decisions == 3
    bench.trainer.record()
    assert bench.trainer.tally.decisions == 3, "a step is recorded once"
    asyncio.run(bench.trainer.hand_over())
    assert [learner.waits for learner in bench.learners.values()] == [1, 1]


def test_a_behavior_that_is_forgotten_has_done_nothing(bench: Bench) -> None:
    other = vector_spec(name="Other?team=1")
    for spec in (SPEC, other):
        bench.respond(step(spec, [1]), spec=spec)
        bench.respond(step(spec, [1, 2], terminals=ended(spec, [1], [1.0])), spec=spec)
    bench.trainer.forget(bench.of(other).learner)
    assert (bench.trainer.tally.decisions, bench.trainer.tally.episodes) == (3, {"Agent": 1})


def test_abandon_forgets_open_episodes(bench: Bench) -> None:
    bench.respond(step(SPEC, [1, 2]))
    bench.decide(step(SPEC, [1, 2], 3.0))
    bench.trainer.abandon()
    bench.trainer.record()
    assert bench.trainer.tally.decisions == 2, "what was answered and not recorded is lost with the engine"
    bench.respond(step(SPEC, [], terminals=ended(SPEC, [1], [1.0])))
    assert bench.trainer.tally.episodes.total() == 0
    assert bench.learners[SPEC.name].returns == []


# --- its TauAgents ----------------------------------------------------------------------------------------------------


class Player:
    """An AgentTrainer whose TauAgents feed fake learners; several players share a batcher."""

    def __init__(
        self, hub: MetricsHub, learners: dict[str, FakeLearner], batcher: DecisionBatcher, number: int = 0
    ) -> None:
        self.learners = learners
        self.batcher = batcher
        self.trainer = AgentTrainer(number, self._agent, lambda spec: EngineReward(), hub)

    def _agent(self, spec: BehaviorSpec) -> TauAgent:
        learner = self.learners[spec.short_name]
        return TauAgent(cast(Learner, learner), spec, self.batcher, learner.hand_over)

    async def respond(self, *batches: StepBatch, specs: tuple[BehaviorSpec, ...]) -> dict[str, Actions]:
        actions = await self.trainer.decide(batches, {spec.name: spec for spec in specs})
        self.trainer.record()
        return actions

    def act(self, batch: StepBatch, spec: BehaviorSpec = FULL) -> dict[str, Actions]:
        return asyncio.run(self.respond(batch, specs=(spec,)))


MakePlayer = Callable[..., Player]


@pytest.fixture
def learner() -> FakeLearner:
    return FakeLearner(VISIBLE)


@pytest.fixture
def player_of(hub: MetricsHub) -> MakePlayer:
    batcher = DecisionBatcher()

    def make(*learners: FakeLearner, number: int = 0) -> Player:
        return Player(hub, {one.name: one for one in learners}, batcher, number)

    return make


def test_the_engine_gets_clipped_actions_and_the_memory_raw_ones(player_of: MakePlayer, learner: FakeLearner) -> None:
    player = player_of(learner)
    actions = player.act(step(FULL, [1]))[FULL.name]
    assert actions.continuous.tolist() == [[1.0, 1.0]]
    assert actions.discrete.tolist() == [[2]]
    player.act(step(FULL, [1], 0.25))
    rollout = learner.taken()
    assert rollout.column("continuous").tolist() == [[6.0, 6.0]]
    assert rollout.column("log_prob").shape == (1, 3)
    assert rollout.rewards["extrinsic"].tolist() == [[0.25]]
    assert rollout.version.tolist() == [4]
    assert rollout.mask is None
    assert learner.policy.seen == [[(1, 3), (1, 1)]] * 2, "the policy never sees the target"
    learner.done = True
    assert len(player.act(step(FULL, [1]))[FULL.name]) == 1
    assert (len(learner.taken()), learner.decisions) == (0, 3), "who is done gets no more experience"


def test_masks_are_decided_and_learned_with(player_of: MakePlayer, learner: FakeLearner) -> None:
    player = player_of(learner)
    for _ in range(2):
        batch = step(FULL, [1])
        batch.action_mask = np.array([[True, False, False]])
        player.act(batch)
    mask = learner.taken().mask
    assert mask is not None
    assert mask.tolist() == [[True, False, False]]


async def test_pairs_share_a_memory_without_sharing_rows(player_of: MakePlayer, learner: FakeLearner) -> None:
    one, two = player_of(learner), player_of(learner, number=1)
    for _ in range(2):
        await asyncio.gather(*(player.respond(step(FULL, [1, 2]), specs=(FULL,)) for player in (one, two)))
    assert learner.memory.open_rows.tolist() == [0, 1, 2, 3]
    one.trainer.abandon()
    assert learner.memory.open_rows.tolist() == [2, 3], "the other engine's agents go on"
    await asyncio.gather(*(player.respond(step(FULL, [7, 8, 9]), specs=(FULL,)) for player in (one, two)))
    assert learner.memory.open_rows.tolist() == [0, 1, 2, 3, 4, 5, 6, 7], "its rows are given to new agents"


def test_ends_close_what_is_open(player_of: MakePlayer, learner: FakeLearner) -> None:
    player = player_of(learner)
    player.act(step(FULL, [1, 2]))
    player.act(step(FULL, [], terminals=ended(FULL, [2], [3.0], truncated=True, obs=7.0)))
    assert learner.memory.open_rows.tolist() == [0]
    rollout = learner.taken()
    assert rollout.rewards["extrinsic"].tolist() == [[3.0]]
    assert [sensor.tolist() for sensor in rollout.bootstrap_observations] == [[[7.0, 7.0, 7.0]], [[7.0]]]


@pytest.mark.parametrize("pairs", [1, 2])
async def test_a_whole_step_is_one_pass_an_actor(player_of: MakePlayer, pairs: int) -> None:
    """Two behaviors in one exchange, one of them with two teams that share a policy."""
    teams = vector_spec(name="Agent?team=0"), vector_spec(name="Agent?team=1")
    other = vector_spec(name="Other?team=0", actions=ActionSpec(0, (2,)))
    specs = (*teams, other)
    learners = FakeLearner(teams[0]), FakeLearner(other)
    players = [player_of(*learners, number=number) for number in range(pairs)]

    async def turn() -> list[dict[str, Actions]]:
        steps = [[step(spec, [1, 2]) for spec in specs] for _ in players]
        asked = (player.respond(*batches, specs=specs) for player, batches in zip(players, steps, strict=True))
        return list(await asyncio.gather(*asked))

    await turn()  # all must have shown themselves once
    for learner in learners:
        learner.policy.seen.clear()
    for _ in range(2):
        for actions in await turn():
            assert [len(actions[spec.name]) for spec in specs] == [2, 2, 2]
    assert learners[0].policy.seen == [[(4 * pairs, 3)]] * 2
    assert learners[1].policy.seen == [[(2 * pairs, 3)]] * 2


def test_state_ends_with_the_episode_before_the_next_decision(player_of: MakePlayer) -> None:
    learner = FakeLearner(SPEC, remembers=True)
    player, counted = player_of(learner), learner.policy.counted
    for terminals in (None, None, ended(SPEC, [2], [0.0]), None):
        player.act(step(SPEC, [1, 2], terminals=terminals), SPEC)
    assert counted == [[0, 0], [1, 1], [2, 0], [3, 1]]
    rollout = learner.taken()
    assert rollout.column("count").tolist() == [0, 0, 1, 1, 2, 0], "what was decided with is what is learned with"
    player.act(step(SPEC, [1], terminals=ended(SPEC, [2], [0.0])), SPEC)
    player.act(step(SPEC, [1, 8]), SPEC)
    assert counted[4:] == [[4], [5, 0]], "the row of an agent that is gone has no past"


def test_state_ends_with_the_environment(player_of: MakePlayer) -> None:
    learner = FakeLearner(SPEC, remembers=True)
    player, other = player_of(learner), player_of(learner, number=1)

    for one in (player, other, player):
        one.act(step(SPEC, [1, 2]), SPEC)
    player.trainer.abandon()
    for one in (player, other):
        one.act(step(SPEC, [1, 2]), SPEC)
    assert learner.policy.counted == [[0, 0], [0, 0], [1, 1], [0, 0], [1, 1]]


def test_agents_that_vanish_are_let_go(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their trajectory is cut where it was seen last, their rows are given to others, and those begin anew."""
    monkeypatch.setattr("tau_trainer.collection.decisions._ROUND", 10)
    monkeypatch.setattr("tau_trainer.collection.decisions._PATIENCE", 1)
    over: list[list[int]] = []

    class Watched(EngineReward):
        def answered(
            self, rows: Rows, engine_reward: FloatArray, *, acted: BoolArray, ended: bool
        ) -> tuple[FloatArray, RewardResult | None]:
            if ended:
                over.append(rows.tolist())
            return super().answered(rows, engine_reward, acted=acted, ended=ended)

    learner = FakeLearner(SPEC, remembers=True)
    trainer = AgentTrainer(
        0,
        lambda spec: TauAgent(cast(Learner, learner), spec, bench.batcher, learner.hand_over),
        lambda spec: Watched(),
        bench.hub,
    )

    def meets(*agents: int, reward: float = 0.0) -> None:
        asyncio.run(trainer.decide([step(SPEC, list(agents), reward)], {SPEC.name: SPEC}))
        trainer.record()

    meets(1, 2, 3)
    meets(1, 2, 3, reward=1.0)
    for turn in range(9):
        meets(*([1, 3] if turn % 6 == 0 else [1]))  # 3 is slow, 2 is gone
    assert learner.memory.open_rows.tolist() == [0, 1, 2], "until a whole round of messages has gone by"
    for turn in range(9):
        meets(*([1, 3] if turn % 6 == 0 else [1]))
    assert learner.memory.open_rows.tolist() == [0, 2]
    assert over == [[1]], "a window of rewards, say, begins anew"
    meets(1, 2, reward=5.0)
    meets(1, 2, reward=7.0)
    assert learner.rows == 3, "whoever comes back gets a row that is free"
    assert learner.policy.counted[-2:] == [[20, 0], [21, 1]], "and has no past"
    assert trainer.tally.episodes.total() == 0
    meets(1, reward=0.0)
    asyncio.run(trainer.decide([step(SPEC, [1], 0.0, ended(SPEC, [2], [1.0]))], {SPEC.name: SPEC}))
    trainer.record()
    assert learner.returns == [8.0], "5.0 answered a decision of the agent that was let go"


def test_agents_that_vanish_all_the_time_take_no_more_than_so_much_memory(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before patience is over; who decides rarely stays, and so does a small crowd."""
    learner = FakeLearner(SPEC)
    a_dozen = 12 * (400 + 2 * sum(column.size for column in learner.memory.columns))
    assert a_dozen == 12 * (400 + 2 * 4 * (3 + 2 + 2)), "what it sees, what it does, and how likely that was"
    monkeypatch.setattr("tau_trainer.collection.decisions._ROUND", 10)
    monkeypatch.setattr("tau_trainer.collection.decisions._MOST_SILENT", a_dozen)
    agent = TauAgent(cast(Learner, learner), SPEC, bench.batcher, learner.hand_over)
    always, rare, slow = 1, 2, 3
    gone: list[int] = []
    came: dict[int, int] = {}  # the round of those who vanish, by their row
    row_of = {rare: agent.table(np.array([rare], np.int32))[0], slow: agent.table(np.array([slow], np.int32))[0]}
    for message in range(150):
        asking = [always, 100_000 + message]
        asking += [rare] if message % 10 == 0 else []
        asking += [slow] if message in (9, 25) else []
        rows = agent.table(np.array(asking, np.int32))
        values: dict[str, Any] = dict.fromkeys(("obs_0", "continuous", "discrete", "mask", "log_prob"))
        learner.memory.append(rows, StepFacts({EXTRINSIC: np.zeros((len(rows), 1), np.float32)}), values, 0)
        if slow in asking:
            assert rows[asking.index(slow)] == row_of[slow], "a dozen are no crowd"
        came[int(rows[1])] = message // 10
        went = agent.let_go().tolist()
        gone += went
        assert row_of[rare] not in went
        rounds = [came.pop(row) for row in went if row in came]
        assert max(rounds, default=0) <= min(came.values()), "the longest silent go first"
    assert learner.rows <= 3 + 12 + 2 * 10, "150 have vanished"
    assert len(learner.memory.open_rows) <= 3 + 12 + 10, "nothing is carried from update to update for the others"
    assert len(gone) > 100


def test_patience_begins_anew_with_the_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a run that is resumed would let go of agents at another moment than one that was not interrupted."""
    monkeypatch.setattr("tau_trainer.collection.decisions._ROUND", 10)
    monkeypatch.setattr("tau_trainer.collection.decisions._PATIENCE", 1)
    learner = FakeLearner(SPEC)
    agent = TauAgent(cast(Learner, learner), SPEC, bench.batcher, learner.hand_over)

    def meet(*ids: int) -> list[int]:
        agent.table(np.array(ids, np.int32))
        gone: list[int] = agent.let_go().tolist()
        return gone

    for _ in range(9):
        assert meet(1, 2) == []
    agent.abandon()
    assert meet(1, 2) == []
    assert [meet(1) for _ in range(19)] == [[]] * 18 + [[1]]


def test_a_behavior_that_was_changed_before_its_engine_began_again(bench: Bench) -> None:
    """Somebody adds a sensor and presses Play again."""
    bench.respond(step(SPEC, [1, 2]))
    bench.trainer.abandon()
    bench.respond(step(vector_spec(), [1, 2]), spec=vector_spec())
    changed = vector_spec(4)
    with pytest.raises(
        SettingsError, match="behavior 'Agent' has other sensors or actions than before its engine restarted"
    ):
        bench.respond(step(changed, [1, 2]), spec=changed)

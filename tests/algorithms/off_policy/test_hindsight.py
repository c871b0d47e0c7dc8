"""What hindsight makes of a replay memory, against everything that was played; the bugs of others' are absent."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.off_policy.base import OffPolicy
from tau_trainer.algorithms.off_policy.sac_ln import SACLN
from tau_trainer.errors import SettingsError
from tau_trainer.memory import StepFacts
from tau_trainer.settings import NetworkSettings, RewardSignalSettings, SACTrainerSettings, trainer_type
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, ObservationSpec, ObservationType
from tests.algorithms.experience import TWO_STREAMS, paying
from tests.algorithms.replayed import copied
from tests.networks import IMAGE

AGENTS = 3
WHERE, GOAL = ObservationSpec("where", (1,)), ObservationSpec("goal", (1,), (), ObservationType.GOAL_SIGNAL)
ACHIEVED = ObservationSpec("achieved_goal", (1,), hidden=True)
SPEC = BehaviorSpec("Traveller", (ACHIEVED, GOAL, WHERE, ObservationSpec("time", (1,))), ActionSpec(1))
STRENGTH, FALL, STEP = 0.5, 100.0, -0.25
"""FALL: what is paid where an episode ends for another reason than the goal. STEP: by the game, anywhere else."""


def same(achieved: Any, goal: Any) -> Any:
    """7 for being there, which ends the episode; 3 for anything else."""
    there = (achieved == goal)[:, 0]
    return np.where(there, 7.0, 3.0), there


def broken(achieved: Any, goal: Any) -> Any:
    return np.zeros(3), np.zeros(len(goal))


def raising(achieved: Any, goal: Any) -> Any:
    raise KeyError("no such goal")


HERE = "tests.algorithms.off_policy.test_hindsight"


def settings(signals: Any = None, trainer: str = "sac", **hindsight: Any) -> Any:
    numbers = hindsight.pop("numbers", {})
    options = trainer_type(trainer).settings.model_validate(
        {
            "hyperparameters": {
                "batch_size": 64,
                "buffer_size": 500,
                "steps_per_update": 1e9,
                "save_replay_buffer": True,
            }
            | {"hindsight": {"reward_done": f"{HERE}:same", **hindsight}}
            | numbers,
            "network_settings": {"hidden_units": 4, "num_layers": 1},
            "reward_signals": {"extrinsic": {"strength": STRENGTH, "gamma": 0.9}},
        }
    )
    return paying(options, signals)


def learner_of(options: Any = None, spec: BehaviorSpec = SPEC, **more: Any) -> OffPolicy:
    learner = make_algorithm(Setup(spec, options or settings(), seed=1, **more))
    assert isinstance(learner, OffPolicy)
    return learner


@dataclass
class Place:
    """Where an agent was, under a number that nobody else has."""

    episode: int
    step: int


class World:
    """Agents that walk; every place has a number of its own, and every episode a goal below 0 that nobody reaches."""

    def __init__(self, learner: OffPolicy) -> None:
        self.learner = learner
        self.numbers, self.episodes = count(1), count(1)
        self.places: dict[float, Place] = {}
        self.ends: dict[int, int] = {}
        """Steps of the episodes that are over."""
        self.fell: set[int] = set()
        self.at = {agent: self.begin() for agent in range(AGENTS)}

    def begin(self) -> float:
        return self.arrive(next(self.episodes), 0)

    def arrive(self, episode: int, step: int) -> float:
        number = float(next(self.numbers))
        self.places[number] = Place(episode, step)
        return number

    def seen(self, agents: list[int]) -> tuple[Any, ...]:
        where = np.array([[self.at[agent]] for agent in agents], np.float32)
        goals = np.array([[-self.places[self.at[agent]].episode] for agent in agents], np.float32)
        others = [np.zeros((len(agents), *sensor.shape), sensor.dtype) for sensor in self.learner.spec.observations[3:]]
        return where, goals, where, *others

    def move(self, agents: list[int]) -> None:
        """These decide, and are somewhere else."""
        obs = {f"obs_{i}": values for i, values in enumerate(self.seen(agents))}
        nobody = Actions.zeros(self.learner.spec.actions, len(agents))
        nothing = {"continuous": nobody.continuous, "discrete": nobody.discrete}
        self.learner.memory.append(
            np.array(agents), StepFacts(self.paid(len(agents))), {**obs, **nothing, "mask": None}, 0
        )
        for agent in agents:
            place = self.places[self.at[agent]]
            self.at[agent] = self.arrive(place.episode, place.step + 1)

    def paid(self, rows: int, reward: float = STEP) -> Any:
        return {stream.name: np.full((rows, 1), reward, np.float32) for stream in self.learner.streams}

    def end(self, agents: list[int], *, fell: bool) -> None:
        """Episodes end by a fall, or are cut."""
        agents = [agent for agent in agents if self.places[self.at[agent]].step]
        if not agents:
            return
        reward = self.paid(len(agents), FALL if fell else STEP)
        self.learner.memory.end(np.array(agents), StepFacts(reward), self.seen(agents), np.full(len(agents), not fell))
        for agent in agents:
            place = self.places[self.at[agent]]
            self.ends[place.episode] = place.step
            self.fell |= {place.episode} if fell else set()
            self.at[agent] = self.begin()

    def learn(self) -> None:
        if self.learner.memory.completed:
            self.learner.update(self.learner.memory.take().data, 0.0, None)

    def drawn(self, minibatches: int = 4) -> Any:
        """Numbers of places and goals, rewards, and whether values go on, of some rows."""
        batch = self.learner.draw(minibatches)
        now, after = batch.inputs[0].numpy(), batch.following[0].numpy()
        np.testing.assert_array_equal(now[:, 0], after[:, 0], "the same goal before and after")
        rewards = batch.rewards[:, 0].numpy()
        return zip(
            now[:, 1].tolist(), now[:, 0].tolist(), after[:, 1].tolist(), rewards, batch.goes_on[:, 0], strict=True
        )


_agents = st.sets(st.integers(0, AGENTS - 1), min_size=1).map(sorted)
_happening = st.lists(
    st.one_of(
        st.tuples(st.just("move"), _agents),
        st.just(("move", list(range(AGENTS)))),
        st.just(("move", list(range(AGENTS)))),
        st.tuples(st.sampled_from(["fall", "cut"]), _agents),
        st.just(("learn", [])),
    ),
    min_size=4,
    max_size=50,
)


@examples(max_examples=60)
@given(_happening, st.sampled_from(["future", "final", "episode"]), st.integers(64, 90))
def test_goals_are_what_was_reached_in_the_same_episode(happening: Any, strategy: str, capacity: int) -> None:
    """Agents in any order, episodes of any length, a ring that overwrites; rewards and ends fit the goals."""
    learner = learner_of(settings(strategy=strategy, numbers={"buffer_size": capacity}))
    world = World(learner)
    for what, agents in [*happening, *[("move", list(range(AGENTS)))] * 10, ("learn", [])]:
        if what == "move":
            world.move(agents)
        elif what == "learn":
            world.learn()
        else:
            world.end(agents, fell=what == "fall")
    held = {float(number) for number in learner.replay.take(np.arange(len(learner.replay)))["input_0"][:, 1]}
    first = {}  # step of the first row of each episode that is still there
    for number in sorted(held, reverse=True):
        first[world.places[number].episode] = world.places[number].step
    for where, goal, after, reward, goes_on in world.drawn():
        here, there = world.places[where], world.places[after]
        assert (there.episode, there.step) == (here.episode, here.step + 1), "also at the end of an episode"
        last = world.ends.get(here.episode)
        ends = here.episode in world.fell and there.step == last
        if goal < 0:
            assert -goal == here.episode, "its own goal"
            assert reward == STRENGTH * (FALL if ends else STEP)
            assert goes_on == (not ends)
            continue
        wanted = world.places[goal]
        assert wanted.episode == here.episode, "of no other episode"
        assert last is not None, "of an episode that is over"
        bounds = {"future": there.step, "final": last, "episode": first[here.episode] + 1}
        assert bounds[strategy] <= wanted.step <= last
        assert reward == STRENGTH * (7.0 if goal == after else 3.0)
        assert goes_on == (goal != after and not ends), "a fall is an end whatever the goal"


def walked(learner: OffPolicy, lengths: tuple[int, ...] = (6, 6)) -> World:
    """All agents walked episodes of these lengths, cut at the end."""
    world = World(learner)
    for length in lengths:
        for _ in range(length):
            world.move(list(range(AGENTS)))
        world.end(list(range(AGENTS)), fell=False)
    world.learn()
    return world


@pytest.mark.parametrize(("k", "kept"), [(4, 0.2), (1, 0.5), (0.25, 0.8), (8, 1 / 9)])
def test_the_goals_that_were_set_are_learned_from_too(k: float, kept: float) -> None:
    """Note relabels every row. Here one of k + 1 keeps its goal."""
    rows = list(walked(learner_of(settings(k=k))).drawn(100))
    assert np.mean([goal < 0 for _, goal, *_ in rows]) == pytest.approx(kept, abs=0.02)


def test_later_states_are_drawn_evenly() -> None:
    """Also the last one, which in Note is no goal; what is stored stays as it is."""
    learner = learner_of()
    world = walked(learner)
    before = {name: values.copy() for name, values in learner.replay.state()[0].items()}
    steps = [
        world.places[goal].step for where, goal, *_ in world.drawn(200) if goal > 0 and not world.places[where].step
    ]
    shares = np.bincount(steps, minlength=7)[1:] / len(steps)
    np.testing.assert_allclose(shares, 1 / 6, atol=0.03)
    np.testing.assert_equal(learner.replay.state()[0], before)


def test_what_other_goals_pay_counts_in_the_size_of_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where agents were paid nothing at all, too."""
    monkeypatch.setattr(f"{HERE}.STEP", 0.0)
    numbers = {"batch_size": 8, "steps_per_update": 9.0, "n_step": 1, "buffer_init_steps": 0}
    learner = learner_of(settings(trainer="sac_ln", numbers=numbers))
    walked(learner)
    assert isinstance(learner, SACLN)
    assert float(learner.module.scale) == pytest.approx(STRENGTH * 7.0 / 5.0), "7 is what a goal pays"


def test_without_hindsight_nothing_of_it_is_there() -> None:
    learner = learner_of(settings(numbers={"hindsight": None}))
    assert learner.hindsight is None
    assert learner.replay.episodes is None
    assert "achieved" not in [column.name for column in learner.replay.columns]


def test_a_learner_that_was_read_back_draws_the_same() -> None:
    options = settings(numbers={"steps_per_update": 1.0, "batch_size": 16})
    learner, other = learner_of(options), learner_of(options)
    world = walked(learner)
    other.load(*copied(learner.state()), fresh=False)
    world.move(list(range(AGENTS)))
    world.end(list(range(AGENTS)), fell=True)
    work = learner.memory.take().data
    results = [one.update(work, 0.5, None) for one in (learner, other)]
    assert results[0]["Losses/Policy Loss"] == results[1]["Losses/Policy Loss"]
    np.testing.assert_equal(learner.state()[0], other.state()[0])


@pytest.mark.usefixtures("toys")
def test_images_are_in_memory_once() -> None:
    spec = BehaviorSpec("Traveller", (*SPEC.observations, IMAGE), ActionSpec(1))
    learner = learner_of(spec=spec)
    assert "next_1" not in [
        column.name for column in learner.replay.columns if column.name not in learner.replay.followed
    ]
    assert sum(values.nbytes for name, values in learner.replay.state()[0].items() if "aside" in name) == 0
    world = walked(learner)
    assert sum(goal > 0 for _, goal, *_ in world.drawn()) > 100
    assert learner.replay.spares == AGENTS * 2, "the last of each episode"


def test_the_extrinsic_reward_alone_is_worked_out_anew() -> None:
    signals = {"bonus": TWO_STREAMS["bonus"], "extrinsic": RewardSignalSettings(strength=2.0)}
    learner = learner_of(settings(signals))
    walked(learner)
    rewards = learner.draw(10).rewards.numpy()
    at = [stream.name for stream in learner.streams].index("bonus")
    np.testing.assert_array_equal(rewards[:, at], STEP * TWO_STREAMS["bonus"].strength)
    assert set(rewards[:, 1 - at].tolist()) == {STEP * 2, 14.0, 6.0}


def test_deep_q_learning_cuts_rewards_off_as_ever_and_refuses_others_beside() -> None:
    spec = BehaviorSpec("Traveller", SPEC.observations, ActionSpec(0, (2,)))
    learner = learner_of(settings(trainer="dqn", numbers={"clip_reward": 2.0}), spec)
    walked(learner)
    assert set(learner.draw(10).rewards[:, 0].tolist()) == {STRENGTH * STEP, 3.0 * STRENGTH, 2.0}
    signals = dict.fromkeys(("extrinsic", "bonus"), RewardSignalSettings(gamma=0.9))
    with pytest.raises(
        SettingsError, match="dqn adds all rewards up, but hindsight changes only one; remove the others"
    ):
        learner_of(settings(signals, "dqn"), spec, environment=("x",))


def test_a_distance_is_a_rule() -> None:
    distance = {"threshold": 1.5, "reached": 1.0, "missed": 0.0, "terminates": False}
    world = walked(learner_of(settings(reward_done=None, distance=distance)), (9,))
    for where, goal, after, reward, goes_on in world.drawn():
        assert goes_on == 1
        if goal > 0:
            assert reward == STRENGTH * (abs(goal - after) <= 1.5), (where, goal)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("sensors", "hindsight", "said"),
    [
        ((WHERE, ACHIEVED), {}, "has no goal signal among its sensors; name the one to use with hindsight.goal"),
        ((GOAL, GOAL, ACHIEVED), {}, r"has 2 goal signals \(goal, goal\) among its sensors; name the one"),
        ((GOAL, WHERE), {}, "has no sensor 'achieved_goal' for hindsight.achieved; it has goal, where"),
        ((WHERE, ACHIEVED), {"goal": "there"}, "has no sensor 'there' for hindsight.goal; it has where, achieved_goal"),
        ((GOAL, IMAGE), {"achieved": "camera"}, "hindsight.achieved: sensor 'camera' is not a vector"),
        ((GOAL, WHERE), {"achieved": "goal"}, "'goal' has shape .*, but 'goal' has"),
        ((GOAL, ObservationSpec("achieved_goal", (2,))), {}, r"'achieved_goal' has shape \(2,\), but 'goal' has \(1,"),
    ],
)
def test_sensors_that_do_not_suit(sensors: Any, hindsight: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=rf"^behavior 'Traveller': .*{said}"):
        learner_of(settings(**hindsight), BehaviorSpec("Traveller", sensors, ActionSpec(1)))


@pytest.mark.parametrize(
    ("hindsight", "environment", "said"),
    [
        ({"reward_done": None}, "headless:basic", "the environment does not have one; set hindsight.distance"),
        ({"reward_done": None}, "gym:CartPole-v1", "CartPoleEnv is not goal-based"),
        (
            {"reward_done": "nowhere:rule"},
            "x",
            "'nowhere:rule' cannot be loaded: No module .*name a function",
        ),
        ({"reward_done": "math"}, "x", "hindsight.reward_done 'math' cannot be loaded"),
    ],
)
def test_a_rule_that_is_not_there_is_told_of_at_once(hindsight: Any, environment: str, said: str) -> None:
    with pytest.raises(SettingsError, match=rf"^behavior 'Traveller': .*{said}"):
        learner_of(settings(**hindsight), environment=(environment,))


def test_a_policy_can_be_loaded_where_the_rule_is_not() -> None:
    """Exported or evaluated on another machine, say: nothing is played there."""
    assert learner_of(settings(reward_done="nowhere:rule")).snapshot().version == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", r"must return rewards \[n\] and ends \[n\] for \d+ goals, not arrays of the shapes \(3,\)"),
        ("raising", "failed: KeyError: 'no such goal'; fix it"),
    ],
)
def test_a_rule_that_is_none(name: str, said: str) -> None:
    world = walked(learner_of(settings(reward_done=f"{HERE}:{name}")))
    with pytest.raises(SettingsError, match=f"hindsight.reward_done '{HERE}:{name}' {said}"):
        world.drawn()


def test_a_reward_without_an_extrinsic_stream() -> None:
    options = settings({"bonus": TWO_STREAMS["bonus"]})
    with pytest.raises(SettingsError, match="hindsight changes the extrinsic reward"):
        learner_of(options, environment=("x",))


def test_goals_are_inputs_like_others_unless_asked_for() -> None:
    """A layer with weights of its own for every row would cost far more than everything else."""
    assert learner_of().network.plain
    chosen = settings().model_dump() | {"network_settings": {"goal_conditioning_type": "hyper"}}
    assert SACTrainerSettings.model_validate(chosen).network_settings.goal_conditioning_type == "hyper"
    assert SACTrainerSettings().network_settings == NetworkSettings(goal_conditioning_type="hyper")


def test_two_rules_and_a_memory_are_refused() -> None:
    with pytest.raises(ValueError, match="has both distance and reward_done"):
        settings(distance={"threshold": 1})
    chosen = SACTrainerSettings.model_validate(settings().model_dump() | {"network_settings": {"memory": {}}})
    with pytest.raises(SettingsError, match="learns from sequences if the network has a memory; set hindsight: null"):
        learner_of(chosen)


def test_several_steps_are_judged_by_one_goal() -> None:
    """And no reward counts that came after the goal was reached."""
    learner = learner_of(settings(numbers={"n_step": 3, "prioritized": {}}))
    world = walked(learner, (5, 2))
    gamma, seen = 0.9, set()
    for where, goal, after, reward, goes_on in world.drawn(20):
        here, there = world.places[where], world.places[after]
        length = world.ends[here.episode]
        wanted = world.places[goal].step if goal > 0 else 99
        assert goal < 0 or world.places[goal].episode == here.episode
        last = min(here.step + 3, length, wanted)
        assert (there.episode, there.step) == (here.episode, last)
        missed = 3.0 if goal > 0 else STEP
        paid = [7.0 if step == wanted else missed for step in range(here.step + 1, last + 1)]
        assert reward == pytest.approx(STRENGTH * sum(gamma**i * one for i, one in enumerate(paid)))
        assert goes_on == pytest.approx(0.0 if wanted == last else gamma ** (len(paid) - 1))
        seen.add((len(paid), wanted == last))
    assert seen == {(steps, reached) for steps in (1, 2, 3) for reached in (True, False)}


def test_learned_rewards_of_several_steps_see_the_new_goal_in_each() -> None:
    learner: Any = learner_of(settings(numbers={"n_step": 3}))
    walked(learner, (5, 2))
    seen: list[dict[str, Any]] = []

    def paid(rows: dict[str, Any]) -> Any:
        seen.append(rows)
        return rows["rewards"]

    learner._rewards, learner.signals = paid, ("one that pays",)
    rows, _ = learner._read(np.arange(len(learner.replay)))
    goal = learner.hindsight.goal
    chosen = np.flatnonzero(rows["input_0"][:, goal][:, 0] > 0)  # their own goals are below 0
    assert len(chosen) > 3
    for name in ("input_0", "next_0"):
        stretches = seen[0][name].reshape(-1, 3, seen[0][name].shape[1])[chosen][:, :, goal]  # [m, 3, 1]
        np.testing.assert_array_equal(
            stretches, np.broadcast_to(rows["input_0"][chosen][:, None, goal], stretches.shape)
        )
    ended = seen[0]["terminated"].reshape(-1, 3)[chosen]
    assert ended.any(), "goals that were reached end their stretch"

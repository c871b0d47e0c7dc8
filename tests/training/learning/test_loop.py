"""Updates next to agents that act, and gradient steps that fill the time of the game, with a clock worked by hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tau_trainer.algorithms import Counters, Publish, Setup, State, make_algorithm
from tau_trainer.columns import Arrays
from tau_trainer.errors import NonFiniteError
from tau_trainer.memory import Rollout, Work, WorkData
from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.models import Policy
from tau_trainer.settings import SACTrainerSettings
from tau_trainer.training.learning import budget, learner
from tau_trainer.training.learning.learner import Learner, Shared
from tau_trainer.training.learning.loop import UpdateLoop
from tests.training.fakes import Memory
from tests.training.learners import SPEC, collect, make_loop, watching
from tests.training.learning.learning import Gate, MakeLoop, gated
from tests.waiting import HANG_S, run

FLOOR = 8
BATCH = 16


class ByHand(Executor):
    """A thread that does one thing when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future = Future[Any]()
        self.waiting.append((future, lambda: work(*arguments, **named)))
        return future

    async def turn(self) -> None:
        """Do what has waited longest, and let everything happen that follows from it."""
        future, work = self.waiting.pop(0)
        future.set_result(work())
        await settle()


class Handle:
    """Learns nothing; every gradient step takes ``step_s`` on the clock."""

    abreast = 1

    def __init__(self, policy: Callable[[int], Policy], monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[tuple[int, int]] = []
        """Transitions and gradient steps of each update."""
        self.step_s = 0.001
        self.error: Exception | None = None
        self.keeps = True
        """Whether checkpoints hold the replay memory."""
        self._policy = policy
        self.now = 0.0
        monkeypatch.setattr(learner, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(budget, "_now", lambda: self.now)

    def submit(self, work: Work, progress: float, publish: Publish | None) -> dict[str, float]:
        assert work.gradient_steps is not None
        if self.error is not None:
            raise self.error
        self.taken.append((len(Rollout(work)), work.gradient_steps))
        self.now += self.step_s * work.gradient_steps
        return {keys.MINIBATCHES: float(work.gradient_steps)}

    def policy(self) -> Policy:
        return self._policy(len(self.taken))

    def state(self) -> State:
        return {}, {"version": len(self.taken), **({"replay": "kept"} if self.keeps else {})}

    def load(self, arrays: Arrays, metadata: Any, *, fresh: bool) -> None:
        assert not fresh


class Stage:
    """A learner whose agents act by hand."""

    def __init__(
        self,
        hub: MetricsHub,
        monkeypatch: pytest.MonkeyPatch,
        *,
        max_steps: int = 100_000,
        after: Any = None,
        saved: State | None = None,
    ) -> None:
        numbers = {"batch_size": BATCH, "buffer_size": 1000, "steps_per_update": "auto"}
        network = {"hidden_units": 4, "num_layers": 1}
        given = {"hyperparameters": numbers, "network_settings": network, "max_steps": max_steps}
        setup = Setup(SPEC, SACTrainerSettings.model_validate(given), seed=1)
        algorithm = make_algorithm(setup)
        weights = algorithm.weights()
        self.thread = ByHand()
        self.handle = Handle(lambda version: algorithm.policy(weights, version), monkeypatch)
        self.learner = Learner("Agent", setup, algorithm, Shared(hub), self.handle)
        if saved is not None:
            self.learner.restore(*saved)
        self.loop = UpdateLoop(self.learner, self.thread, watcher=watching(after))
        self.game_s = 0.1
        """What an exchange takes."""
        self.waited = 0
        """Turns of the learner that agents waited for."""

    async def act(self, times: int = 1) -> None:
        """16 agents act; where they have to wait, the learner does what they wait for."""
        for _ in range(times):
            self.handle.now += self.game_s
            collect(self.learner, 0)
            waiting = asyncio.create_task(self.loop.hand_over())
            await settle()
            while not waiting.done():
                self.waited += 1
                await self.thread.turn()
            await waiting

    async def rest(self) -> int:
        """Learn until there is nothing to do; how many updates that took."""
        turns = 0
        while self.thread.waiting:
            await self.thread.turn()
            turns += 1
        return turns

    @property
    def steps(self) -> int:
        return sum(steps for _, steps in self.handle.taken)

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.handle.taken)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


Make = Callable[..., Stage]


@pytest.fixture
def make(hub: MetricsHub, monkeypatch: pytest.MonkeyPatch) -> Make:
    return lambda **settings: Stage(hub, monkeypatch, **settings)


async def warm(stage: Stage) -> None:
    """The first minibatch is there, and the time of a gradient step known."""
    await stage.act(2)
    await stage.rest()
    await stage.act()
    await stage.rest()
    assert stage.rows == 2 * BATCH


async def test_a_learner_with_time_takes_steps_up_to_the_ceiling_and_rests(make: Make) -> None:
    stage = make()
    await warm(stage)
    assert stage.steps == stage.rows - BATCH, "one for each since the first minibatch"
    for _ in range(5):
        await stage.act()
        assert await stage.rest() > 1
        assert stage.steps == stage.rows - BATCH
    assert all(0 < steps <= 4 for _, steps in stage.handle.taken[-5:]), "4 ms of steps of one"
    assert stage.learner.progress.opts == stage.steps


async def test_what_is_new_is_taken_in_after_the_block_that_is_under_way_and_nobody_waits(make: Make) -> None:
    stage = make()
    await warm(stage)
    await stage.act()
    await stage.thread.turn()
    before = len(stage.handle.taken)
    assert len(stage.thread.waiting) == 1, "a block of steps from earlier experience"
    assert not stage.loop.bound.outstanding, "that nobody waits for"
    await stage.act(2)
    assert len(stage.thread.waiting) == 1
    await stage.thread.turn()
    await stage.thread.turn()
    (filled, _), (new, steps) = stage.handle.taken[before:]
    assert (filled, new) == (0, 2 * BATCH)
    assert steps == max(4, 2 * BATCH // FLOOR)
    assert stage.waited == 0


async def test_a_learner_without_time_takes_the_floor_in_updates_that_are_worth_it(make: Make) -> None:
    """In each of its turns come three exchanges, and two earn what it does then; so they wait for it."""
    stage = make()
    await warm(stage)
    stage.handle.step_s = 0.1
    begin, steps = stage.rows, stage.steps
    for _ in range(60):
        await stage.act(3)
        await stage.thread.turn()
    came, taken = stage.rows - begin, stage.steps - steps
    assert came > 150 * BATCH
    assert came / FLOOR - 1 <= taken <= 1.2 * came / FLOOR
    assert min(rows for rows, _ in stage.handle.taken[-40:] if rows) >= 4 * FLOOR
    assert stage.waited


@pytest.mark.parametrize("seed", range(5))
async def test_steps_lie_between_floor_and_ceiling_however_turns_fall(make: Make, seed: int) -> None:
    stage, rng = make(), np.random.default_rng(seed)
    await warm(stage)
    moments = [(stage.rows, stage.steps)]
    for _ in range(60):
        stage.handle.step_s = float(rng.choice([0.0001, 0.001, 0.01]))
        await stage.act(int(rng.integers(3)))
        for _ in range(int(rng.integers(4))):
            if stage.thread.waiting:
                await stage.thread.turn()
        if not stage.loop.bound.outstanding:
            moments.append((stage.rows, stage.steps))
    left = 64 + max(rows for rows, _ in stage.handle.taken)  # of earlier samples, and of those that came last
    for i, (rows, steps) in enumerate(moments):
        for later_rows, later_steps in moments[i + 1 :]:
            came, taken = later_rows - rows, later_steps - steps
            assert came / FLOOR - 1 <= taken <= came + left


async def test_whoever_waits_for_the_learner_ends_the_filling(make: Make) -> None:
    stage = make()
    await warm(stage)
    await stage.act()
    await stage.thread.turn()
    waiting = asyncio.create_task(stage.loop.drain())
    await settle()
    assert not waiting.done(), "a block is under way"
    await stage.thread.turn()
    assert waiting.done()
    assert not stage.thread.waiting
    assert stage.steps < stage.rows - BATCH, "there would be more"
    await stage.act(2)
    await stage.rest()
    assert stage.steps == stage.rows - BATCH, "what follows goes on"


async def test_nothing_is_filled_once_all_decisions_are_made(make: Make) -> None:
    stage = make(max_steps=5 * BATCH)
    await warm(stage)
    await stage.act(1)
    await stage.thread.turn()
    assert stage.thread.waiting
    collect(stage.learner, 0)
    assert stage.learner.done
    assert await stage.rest() == 1, "the block that was under way"


async def test_after_nan_the_learner_rests_until_there_is_something_new(make: Make) -> None:
    stage = make()
    await warm(stage)
    await stage.act()
    await stage.thread.turn()
    stage.handle.error = NonFiniteError("a loss is NaN")
    await stage.thread.turn()
    assert (stage.learner.skipped, stage.thread.waiting) == (1, [])
    stage.handle.error = None
    await stage.act(2)
    assert await stage.rest() > 1
    assert stage.steps == stage.rows - BATCH


async def test_a_summary_tells_gradient_steps_for_each_decision_since_the_one_before(
    make: Make, hub: MetricsHub
) -> None:
    stage = make()
    await warm(stage)
    progress = stage.learner.progress
    stage.learner.flush()
    assert progress.steps_per_decision == BATCH / (3 * BATCH), "nothing was learned from the first, and one is open"
    for _ in range(3):
        await stage.act()
        await stage.rest()
    stage.learner.flush()
    assert progress.steps_per_decision == 1.0
    again = make().learner.progress
    again.load(progress.state())
    again.decisions, again.opts = again.decisions + 100, again.opts + 25
    again.flush(training=True)
    assert again.steps_per_decision == 0.25, "of the summary that was open"


async def test_a_checkpoint_is_written_between_two_blocks(make: Make) -> None:
    written = asyncio.Event()

    async def write(name: str) -> None:
        await written.wait()

    stage = make(after=write)
    written.set()
    await warm(stage)
    written.clear()
    await stage.act()
    await stage.thread.turn()
    assert not stage.thread.waiting
    written.set()
    await settle()
    assert stage.thread.waiting


@pytest.mark.parametrize(("keeps", "rows", "steps"), [(True, 3 * BATCH, 3 * BATCH), (False, 2 * BATCH, BATCH)])
async def test_a_run_that_goes_on_counts_from_where_it_was(make: Make, keeps: bool, rows: int, steps: int) -> None:
    stage = make()
    await warm(stage)
    stage.handle.keeps = keeps
    again = make(saved=stage.learner.state())
    assert (again.learner.progress.samples, again.learner.progress.opts) == (2 * BATCH, BATCH)
    for _ in range(2):
        await again.act(2)
        await again.rest()
    assert (again.rows, again.steps) == (rows, steps), "and without its experience from the first minibatch on"


@pytest.mark.parametrize(
    ("most", "holds_lock", "why"),
    [
        (1, False, ""),
        (0, False, "learning and acting take turns"),
        (1, True, "learning in a thread (collection.learner) would hold up acting"),
    ],
)
def test_time_is_filled_where_acting_does_not_wait_for_it(
    make: Make, hub: MetricsHub, most: int, holds_lock: bool, why: str
) -> None:
    made = make().learner
    made.algorithm.holds_lock = holds_lock
    loop = UpdateLoop(Learner("Agent", made.setup, made.algorithm, Shared(hub)), ByHand(), most)
    assert loop.unfilled == why
    assert (loop.filling is None) == bool(why)


async def learned(loop: UpdateLoop) -> None:
    """One rollout, and the update that it makes."""
    collect(loop.learner)
    await loop.hand_over()
    await loop.drain()


async def test_nothing_is_learned_before_the_memory_is_full(make_one: MakeLoop) -> None:
    loop = make_one()
    learner = loop.learner

    collect(learner, 0)
    await loop.hand_over()
    assert not loop.bound.outstanding
    assert learner.progress.updates == 0


@pytest.mark.parametrize(("most", "publishes"), [(0, False), (1, True)])
def test_agents_act_with_the_policy_so_far_unless_they_take_turns(
    make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch, most: int, publishes: bool
) -> None:
    loop = make_one(most=most)
    learner = loop.learner
    gate, first = Gate(learner, monkeypatch), learner.policy
    gate.open.set()
    acted_with: list[Policy] = []
    monkeypatch.setattr(learner, "publish", acted_with.append)
    run(learned(loop))
    assert gate.publishes == [publishes]
    assert bool(acted_with) == publishes
    assert learner.actor.policy is learner.policy
    assert first not in acted_with


def test_work_of_others_is_published_where_they_say(make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, published = make_one(most=1), list[Policy]()
    learner = loop.learner
    monkeypatch.setattr(learner, "publish", lambda policy: pytest.fail("nobody acts here"))
    collect(learner)
    work = learner.algorithm.ready(Counters(0, 0))
    assert work is not None
    run(loop.update(work, published.append))
    assert {policy.version for policy in published} == {1}
    assert learner.policy.version == 1


def test_several_learn_abreast_and_the_newest_policy_acts(hub: MetricsHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that came first may be heard last."""
    threads = ThreadPoolExecutor(2)
    loop = make_loop(hub, threads)
    learner = loop.learner
    policies = [learner.policy] + [learner.algorithm.policy(learner.algorithm.weights(), number) for number in (1, 2)]
    inside, order = [threading.Event(), threading.Event()], iter(range(2))
    ends = threading.Event()

    def submit(work: Work, progress: float, publish: object) -> dict[str, float]:
        number = next(order)
        inside[number].set()
        assert inside[1 - number].wait(HANG_S), "both are under way"
        if number == 0:
            assert ends.wait(HANG_S)
        return {}

    heard = iter((2, 1))
    monkeypatch.setattr(learner.handle, "submit", submit)
    monkeypatch.setattr(learner.handle, "policy", lambda: policies[next(heard)])
    monkeypatch.setattr(learner.handle, "abreast", 2)

    async def work() -> None:
        first, second = (asyncio.create_task(loop.update(Work({}))) for _ in range(2))
        await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
        assert learner.policy.version == 2
        ends.set()
        await asyncio.gather(first, second)

    with threads:
        run(work())
    assert (learner.policy.version, learner.actor.policy.version) == (2, 2)
    assert (loop.bound.outstanding, learner.progress.updates) == (0, 2)


async def test_one_nan_is_skipped_and_three_in_a_row_are_the_end(
    make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch, memory: Memory, hub: MetricsHub
) -> None:
    loop, learner, gate = gated(make_one, monkeypatch, 0, NonFiniteError("behavior 'Agent': the loss is NaN"))
    gate.open.set()
    before = learner.policy

    for _ in range(2):
        await learned(loop)
    collect(learner)
    with pytest.raises(NonFiniteError, match="the loss is NaN"):
        await loop.hand_over()
    hub.drain(5.0)
    assert learner.policy is learner.actor.policy is before
    assert learner.progress.updates == 0
    assert gate.released == 3
    assert len(memory.warnings) == 3
    assert "update was skipped and the weights kept" in memory.warnings[0]
    assert [event.fields["skipped"] for event in memory.events if "skipped" in event.fields] == [1, 2, 3]


def test_a_policy_that_came_before_nan_acts_no_more(make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, acted_with = make_one(most=1), list[Policy]()
    learner = loop.learner

    def published(work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
        assert publish is not None
        publish(make_one(seed=5).learner.policy)
        acted_with.append(learner.actor.policy)
        raise NonFiniteError("behavior 'Agent': the loss is NaN")

    monkeypatch.setattr(learner.algorithm, "update", published)
    before = learner.policy
    run(learned(loop))
    assert acted_with[0] is not before
    assert learner.actor.policy is learner.policy is before


async def test_a_defect_reaches_those_who_wait(make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, learner, gate = gated(make_one, monkeypatch, 0, RuntimeError("shapes differ"))
    gate.open.set()

    collect(learner)
    with pytest.raises(RuntimeError, match="shapes differ"):
        await loop.hand_over()
    await loop.drain()
    assert not loop.bound.outstanding
    assert gate.released == 1


async def test_shutdown_gives_up_what_waits(make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, learner, gate = gated(make_one, monkeypatch, 2)
    for _ in range(2):
        collect(learner)
        await loop.hand_over()
    collect(learner)
    waiting = asyncio.create_task(loop.hand_over())
    await asyncio.sleep(0.02)
    assert not waiting.done()
    loop.give_up()
    await asyncio.wait_for(waiting, HANG_S)
    assert not gate.open.is_set(), "who waited is free before the update has come to its end"
    gate.open.set()
    await loop.drain()
    assert gate.updates == 1
    assert gate.released == 3, "what was given up is given back too"
    assert not loop.bound.outstanding


async def test_after_update_is_awaited_before_the_next(make_one: MakeLoop) -> None:
    versions: list[int] = []

    async def note(name: str) -> None:
        await asyncio.sleep(0.01)
        assert name == loop.learner.name
        versions.append(loop.learner.policy.version)

    loop = make_one(most=2, after=note)

    for _ in range(3):
        collect(loop.learner)
        await loop.hand_over()
    await loop.drain()
    assert versions == [1, 2, 3]


def test_a_learner_that_is_done_learns_no_more(make_one: MakeLoop) -> None:
    loop = make_one()
    learner = loop.learner
    learner.count(1000)
    run(learned(loop))
    assert learner.progress.updates == 0

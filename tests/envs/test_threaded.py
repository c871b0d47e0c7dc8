"""Environments in threads of their own."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.vector import AutoresetMode

from tau_trainer.envs import threaded
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import EngineError
from tests.envs.gyms import Probe, environment_of, playing, vector
from tests.envs.playing import Sentences, play, zeros
from tests.waiting import HANG_S

SAME_STEP = {"autoreset_mode": AutoresetMode.SAME_STEP}


class Broken(Probe):
    """Raises at its third step as often as it has lives to lose, and then again as it is closed."""

    lives = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if len(self.taken) == 2 and Broken.lives > 0:
            raise ValueError("the window is gone")
        return super().step(action)

    def close(self) -> None:
        if len(self.taken) == 2 and Broken.lives > 0:
            Broken.lives -= 1
            raise OSError("no window to close")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.001)
    return lambda lives: monkeypatch.setattr(Broken, "lives", lives)


async def test_an_environment_that_raises_is_made_again_within_its_budget(broken: Callable[[int], None]) -> None:
    broken(3)
    told = Sentences()
    environment = environment_of(vector(Broken, copies=1), RestartBudget(2, -1, 60.0, told))
    sentence = r"environment 0 failed: ValueError: the window is gone \(in step, test_threaded.py line \d+\)"
    async with playing(environment):
        batches = await environment.start({})
        for restarts in (1, 2):
            with pytest.raises(EngineError, match=f"^{sentence}$") as raised:
                await play(environment, batches, 5)
            batches = await environment.recover(raised.value)
            assert environment.restarts == restarts
            assert len(batches[0]) == 1
        with pytest.raises(EngineError) as raised:
            await play(environment, batches, 5)
        with pytest.raises(EngineError, match=rf"^{sentence} \(not started again: it was restarted 2 times"):
            await environment.recover(raised.value)
        assert [bool(re.match(f"{sentence}; starting it again", message)) for message in told] == [True, True]


async def test_one_that_has_worked_for_a_while_is_soon_made_again(
    broken: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes two steps each time before it fails."""
    broken(4)
    monkeypatch.setattr(RestartBudget, "PROOF_STEPS", 3)
    told = Sentences()
    environment = environment_of(vector(Broken, copies=1), RestartBudget(-1, -1, 60.0, told))
    async with playing(environment):
        batches = await environment.start({})
        for failure in range(4):
            if failure == 2:
                monkeypatch.setattr(RestartBudget, "PROOF_STEPS", 2)
            with pytest.raises(EngineError) as raised:
                await play(environment, batches, 5)
            batches = await environment.recover(raised.value)
        waits = [message.partition(" again in ")[2].split()[0] for message in told]
        assert waits == ["0.001", "0.002", "0.001", "0.001"]


class Slow(Probe):
    """Takes a step when it is let, and fails then if it is told to."""

    has_begun = threading.Event()
    may_go = threading.Event()
    fails = False
    closed = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        Slow.has_begun.set()
        assert Slow.may_go.wait(HANG_S)
        if Slow.fails:
            raise ValueError("too late")
        return super().step(action)

    def close(self) -> None:
        Slow.closed += 1


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Slow]]:
    values = {"has_begun": threading.Event(), "may_go": threading.Event(), "fails": False, "closed": 0}
    for name, value in values.items():
        monkeypatch.setattr(Slow, name, value)
    yield Slow
    Slow.may_go.set()


def steppers(before: set[threading.Thread]) -> list[threading.Thread]:
    """Threads that step an environment now and did not before."""
    return [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("environment-0")]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("fails", [False, True])
async def test_killing_it_in_the_middle_of_a_step_leaves_nothing_behind(
    slow: type[Slow], fails: bool, awaited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No word of a future whose exception was never retrieved, no thread, no open environment."""
    complaints: list[dict[str, Any]] = []
    slow.fails = fails
    monkeypatch.setattr(threaded, "_KILL_S", HANG_S)  # whatever else the machine does
    before = set(threading.enumerate())
    environment = environment_of(vector(Slow, copies=1))
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    waited_for = [environment.waits_for]
    environment.answer(zeros(environment, await environment.start({})))
    waited_for.append(environment.waits_for)
    assert waited_for == ["environment 0 to start", "environment 0 to take a step"]
    step = asyncio.create_task(environment.next()) if awaited else None
    assert await asyncio.to_thread(slow.has_begun.wait, HANG_S)
    if step is not None:
        step.cancel()
    killing = asyncio.create_task(environment.kill())
    await asyncio.sleep(0.02)
    assert not killing.done(), "a step that runs is waited for"
    slow.may_go.set()
    await killing
    await environment.kill()
    gc.collect()
    assert complaints == []
    assert slow.closed == 1
    for thread in steppers(before):
        thread.join(HANG_S)  # it has nothing to do, but ends when the machine lets it
    assert not steppers(before)


async def test_a_step_that_never_ends_is_not_waited_for_for_ever(
    slow: type[Slow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tau_trainer.envs.threaded._KILL_S", 0.05)
    environment = environment_of(vector(Slow, copies=1))
    before = set(threading.enumerate())
    environment.answer(zeros(environment, await environment.start({})))
    await asyncio.wait_for(environment.kill(), HANG_S)
    (thread,) = steppers(before)
    assert thread.daemon, "the end of the program does not wait for it either"
    slow.may_go.set()
    thread.join(HANG_S)
    assert not thread.is_alive()


async def threads_of_steps(
    monkeypatch: pytest.MonkeyPatch, name: str = "CartPole-v1", pause_s: float = 0.0, **how: Any
) -> list[str]:
    """In which thread each step of a CartPole was taken."""
    names: list[str] = []
    step: Any = CartPoleEnv.step

    def told(self: CartPoleEnv, action: Any) -> Any:
        names.append(threading.current_thread().name)
        time.sleep(pause_s)
        return step(self, action)

    monkeypatch.setattr(CartPoleEnv, "step", told)
    turns = []

    async def somebody_else() -> None:
        while True:
            turns.append(len(names))
            await asyncio.sleep(0)

    environment = environment_of(lambda: gymnasium.make_vec(name, 1, "sync", SAME_STEP, **how))
    steps = 6

    async with playing(environment):
        batches = await play(environment, await environment.start({}), 3)
        other = asyncio.create_task(somebody_else())
        await play(environment, batches, steps)
        other.cancel()
    assert set(range(4, 3 + steps)) <= set(turns), "others have their turn between any two steps"
    return ["the thread" if name.startswith("environment") else "the loop" for name in names]


async def test_quick_steps_of_gymnasiums_own_are_taken_on_the_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threaded, "_QUICK_S", 60.0)  # whatever else the machine does
    where = await threads_of_steps(monkeypatch)
    assert where[0] == "the thread"  # nothing is known of it yet
    assert where[-1] == "the loop"


@pytest.mark.parametrize(
    ("name", "how"),
    [("CartPole-v1", {"pause_s": 0.01}), ("Foreign-v0", {}), ("CartPole-v1", {"render_mode": "rgb_array"})],
    ids=["slow", "of somebody else", "shows itself"],
)
async def test_other_steps_are_taken_in_the_thread(
    monkeypatch: pytest.MonkeyPatch, name: str, how: dict[str, Any]
) -> None:
    gymnasium.register("Foreign-v0", entry_point=f"{__name__}:Foreign")
    try:
        assert set(await threads_of_steps(monkeypatch, name, **how)) == {"the thread"}
    finally:
        gymnasium.registry.pop("Foreign-v0")


async def test_a_quick_step_that_fails_fails_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = environment_of(lambda: gymnasium.make_vec("CartPole-v1", 1, "sync", SAME_STEP))
    async with playing(environment):
        batches = await play(environment, await environment.start({}), 3)

        def broken(self: CartPoleEnv, action: Any) -> Any:
            raise RuntimeError("no more poles")

        monkeypatch.setattr(CartPoleEnv, "step", broken)
        environment.answer(zeros(environment, batches))
        with pytest.raises(EngineError, match="environment 0 failed: RuntimeError: no more poles"):
            await environment.next()


async def test_close_ends_it_and_a_failure_to_close_is_nobodys_concern(broken: Callable[[int], None]) -> None:
    broken(1)
    environment = environment_of(vector(Broken, copies=1))
    with pytest.raises(EngineError):
        await play(environment, await environment.start({}), 5)
    await environment.close()
    assert Broken.lives == 0


class Foreign(CartPoleEnv):
    """Somebody else's: nobody knows whether it hangs one day."""

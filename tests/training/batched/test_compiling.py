"""When stepping and acting are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor

from tau_trainer.training.batched import compiling
from tau_trainer.training.batched.compiling import choose
from tests.envs.batched.counting import Counting


class Learner:
    compiled = False

    def compile(self) -> None:
        self.compiled = True


@pytest.fixture
def learner() -> Any:
    return Learner()


def compiler(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: change(function))


def begun() -> Counting:
    env = Counting(4)
    env.reset()
    return env


def test_off_and_short_runs_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch, learner: Any) -> None:
    compiler(monkeypatch, lambda function: pytest.fail("compiles"))
    assert choose("off", begun(), [learner], 10**12) == (False, "")
    assert choose("auto", begun(), [learner], 10) == (False, "")
    assert not learner.compiled


@pytest.mark.parametrize(("after", "kept"), [(0.5, True), (2.0, False)])
def test_a_probe_decides(monkeypatch: pytest.MonkeyPatch, learner: Any, after: float, kept: bool) -> None:
    env = begun()
    before = {name: values.clone() for name, values in env.state.items()}
    compiler(monkeypatch, lambda function: lambda *given: function(*given))
    eager = env.played
    times = iter((1.0, 0.0, after))
    monkeypatch.setattr(compiling, "_seconds", lambda *given: next(times))
    found, said = choose("auto", env, [learner], 1000)
    assert (found, learner.compiled, env.played != eager) == (kept, kept, kept)
    assert said == (
        "stepping and acting are compiled, 2.0 times as fast"
        if kept
        else "stepping is not compiled: that took 2000.00 ms a step instead of 1000.00"
    )
    for name, values in env.state.items():
        assert torch.equal(values, before[name])


def test_where_it_cannot_be_it_goes_on_as_it_is(monkeypatch: pytest.MonkeyPatch, learner: Any) -> None:
    def broken(*given: Any) -> Any:
        raise RuntimeError("no compiler\nmore")

    env = begun()
    compiler(monkeypatch, lambda function: broken)
    eager = env.played
    found, said = choose("on", env, [learner], 1)
    assert not found
    assert said == "stepping cannot be compiled here, and goes on as it is (RuntimeError: no compiler)"
    assert env.played == eager
    assert not learner.compiled


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler's
def test_compiled_steps_are_the_same_steps(monkeypatch: pytest.MonkeyPatch, learner: Any) -> None:
    monkeypatch.setattr(inductor, "compile_threads", 1)  # no pool of processes that import torch
    env, plain = begun(), begun()
    found, said = choose("on", env, [learner], 1)
    if not found:
        pytest.skip(said)
    for step in range(20):
        actions = torch.full((4, 2), step % 2)
        one, other = env.step(actions), plain.step(actions)
        for mine, theirs in zip(one, other, strict=True):
            assert torch.equal(mine, theirs)

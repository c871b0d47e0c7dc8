"""When stepping and acting are compiled."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor

from tau_trainer.algorithms.batched import ActorInput
from tau_trainer.settings import load_batched
from tau_trainer.training.batched import compiling
from tau_trainer.training.batched.compiling import choose
from tau_trainer.training.batched.playing import Playing
from tests.envs.batched.counting import Counting


class Learner:
    compiled = False

    def compile(self, seen: ActorInput) -> None:
        assert seen.observations.shape[:2] == (4, 2)
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
    assert choose("off", begun(), [(learner, [0, 1])], 10**12) == (False, "")
    assert choose("auto", begun(), [(learner, [0, 1])], 10) == (False, "")
    assert not learner.compiled


@pytest.mark.parametrize(("after", "kept"), [(0.5, True), (2.0, False)])
def test_a_probe_decides(monkeypatch: pytest.MonkeyPatch, learner: Any, after: float, kept: bool) -> None:
    env = begun()
    before = {name: values.clone() for name, values in env.state.items()}
    compiler(monkeypatch, lambda function: lambda *given: function(*given))
    eager = env.played
    times = iter((1.0, 0.0, after))
    monkeypatch.setattr(compiling, "_seconds", lambda *given: next(times))
    found, said = choose("auto", env, [(learner, [0, 1])], 1000)
    assert (found, learner.compiled, env.played != eager) == (kept, kept, kept)
    assert said == (
        "stepping and acting are compiled, 2.0 times as fast"
        if kept
        else "stepping is not compiled, because that was slower: 2000.00 ms a step instead of 1000.00"
    )
    for name, values in env.state.items():
        assert torch.equal(values, before[name])


def test_where_it_cannot_be_it_goes_on_as_it_is(monkeypatch: pytest.MonkeyPatch, learner: Any) -> None:
    def broken(*given: Any) -> Any:
        raise RuntimeError("no compiler\nmore")

    env = begun()
    compiler(monkeypatch, lambda function: broken)
    eager = env.played
    found, said = choose("on", env, [(learner, [0, 1])], 1)
    assert not found
    assert said == "stepping cannot be compiled here and continues uncompiled (RuntimeError: no compiler)"
    assert env.played == eager
    assert not learner.compiled


def test_the_compilers_warnings_stay_away_and_all_others_come(
    monkeypatch: pytest.MonkeyPatch, learner: Any, recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    compilers = logging.getLogger("torch._inductor.lowering")

    def loud(*given: Any) -> Any:
        warnings.warn("TensorFloat32 tensor cores are available but not enabled", stacklevel=1)
        compilers.warning("of the compiler")
        return eager(*given)

    env = begun()
    eager = env.played
    compiler(monkeypatch, lambda function: loud)
    filters = list(warnings.filters)
    before = logging.getLogger("torch._inductor").level
    assert choose("on", env, [(learner, [0, 1])], 1, said.append)[0]
    assert said == ["compiling stepping and acting, which may take a minute or two; --compile off prevents that"]
    assert not recwarn.list
    assert not caplog.records
    assert warnings.filters == filters
    assert logging.getLogger("torch._inductor").level == before
    warnings.warn("of somebody else", stacklevel=1)
    assert [str(warning.message) for warning in recwarn.list] == ["of somebody else"]


def test_acting_is_compiled_at_once_and_draws_what_it_would_have_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled at the first step of the run could be stopped no longer, and would count as its time."""
    compiled: list[Any] = []

    def change(function: Any) -> Any:
        def call(*given: Any) -> Any:
            compiled.append(function)
            return function(*given)

        return call

    compiler(monkeypatch, change)
    settings = load_batched("cartpole_batch", {"environment.num_envs": 64, "compile": "on", "env_settings.seed": 3})
    one, other = Playing(settings), Playing(settings)
    [entry] = one.policies
    assert choose("on", one.env, [(entry.actor, entry.agents)], 1)[0]
    assert entry.actor._decide in compiled  # type: ignore[attr-defined]
    for playing in (one, other):
        playing.advance()
    assert torch.equal(one.env.state["present"], other.env.state["present"])
    states = [playing.copies_state() for playing in (one, other)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler's
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.nightly)])
def test_compiled_steps_are_the_same_steps(monkeypatch: pytest.MonkeyPatch, learner: Any, backend: str) -> None:
    """The first backend traces as the second does, but compiles no C++, which takes most of the time."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    env, plain = begun(), begun()
    with inductor.patch(compile_threads=1):  # no pool of processes that import torch
        found, said = choose("on", env, [(learner, [0, 1])], 1)
    if not found:
        pytest.skip(said)
    for step in range(20):
        actions = torch.full((4, 2), step % 2)
        one, other = env.step(actions), plain.step(actions)
        for mine, theirs in zip(one, other, strict=True):
            assert torch.equal(mine, theirs)

"""Every kind of fault is found, by an environment that has it and no other."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tau_trainer.envs.batched import Draws, Outcome, State, registry
from tau_trainer.envs.batched.checking import check, check_first_steps
from tau_trainer.envs.batched.findings import TITLES
from tau_trainer.errors import SettingsError
from tests.envs.batched.counting import Counting

Change = Callable[..., Any]


class Drawing(Counting):
    """Counting, with a number that is drawn in every step."""

    def begin(self, draws: Draws) -> State:
        return super().begin(draws) | {"noise": draws.uniform(1, 2)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        found = super().advance(state, actions, draws)
        return found._replace(state=found.state | {"noise": draws.uniform(1, 2)})


def told(env: type[Counting], **options: Any) -> dict[str, list[str]]:
    """The sentences by part."""
    findings = check(lambda copies, **given: env(copies, **given), **{"steps": 8} | options)
    return {part: list(sentences.values()) for part, sentences in findings.faults.items() if sentences}


def having(**parts: Any) -> type[Counting]:
    """Drawing with these methods or attributes in place of its own."""
    return type("Changed", (Drawing,), parts)


def answering(function: str, change: Callable[[Any], Any]) -> type[Counting]:
    """Its function's answer is changed."""

    def changed(self: Counting, *args: Any) -> Any:
        return change(getattr(Drawing, function)(self, *args))

    return having(**{function: changed})


def doing(function: str, deed: Callable[..., Any]) -> type[Counting]:
    """Its function does something before it answers: with the environment, and its arguments."""

    def changed(self: Counting, *args: Any) -> Any:
        deed(self, *args)
        return getattr(Drawing, function)(self, *args)

    return having(**{function: changed})


def being(**attributes: Any) -> type[Counting]:
    """Its ``__init__`` sets something else; None: it does not set it at all."""

    def __init__(self: Counting, num_envs: int, **options: Any) -> None:  # noqa: N807
        Drawing.__init__(self, num_envs, **options)
        for name, value in attributes.items():
            if value is None:
                delattr(self, name)
            else:
                setattr(self, name, value)

    return having(__init__=__init__)


def outcome(**fields: Callable[[Outcome], Any]) -> type[Counting]:
    """Its outcomes have other fields."""
    return answering("advance", lambda found: found._replace(**{key: make(found) for key, make in fields.items()}))


def state_with(**values: Callable[[State], Any]) -> type[Counting]:
    """Its outcomes' state has other values."""
    return outcome(state=lambda found: found.state | {key: make(found.state) for key, make in values.items()})


def with_nan(values: torch.Tensor, above: float) -> torch.Tensor:
    return torch.where(values > above, torch.nan, values)


def shift(env: Counting, state: State, *_: Any) -> None:
    state["sum"] += 1


def replace(env: Counting, state: State, *_: Any) -> None:
    state["sum"] = state["sum"] + 1


def remember(env: Any, *_: Any) -> None:
    env.calls = getattr(env, "calls", 0) + 1


def picturing(make: Callable[[], Any]) -> type[Counting]:
    return having(frame=lambda self, row: make())


def paid_by_share(env: Counting, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
    found = Drawing.advance(env, state, actions, draws)  # type: ignore[arg-type]
    return found._replace(rewards=state["present"] / state["present"])


def masked(values: torch.Tensor, by: Any) -> None:
    """One number fills a mask without being waited for; one for each place does not."""
    mine = values.clone()
    mine[mine >= 0] = by


def for_those_who_are_there(env: Counting, state: State) -> torch.Tensor:
    return Drawing.allowed(env, state) & state["present"][:, :, None]


def unlucky(env: Counting, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
    found = Drawing.advance(env, state, actions, draws)  # type: ignore[arg-type]
    bad = state["present"] & (state["step"] == 2)[:, None]
    return found._replace(rewards=torch.where(bad, torch.inf, found.rewards))


def heard(env: Counting, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
    everybody = state | {"present": torch.ones_like(state["present"])}
    return Drawing.advance(env, everybody, actions, draws)  # type: ignore[arg-type]


def paid_afterwards(env: Counting, state: State, actions: torch.Tensor) -> Any:
    state, step = Drawing.transition(env, state, actions)
    return state, step._replace(rewards=torch.ones_like(step.rewards))


def all_anew(env: Counting, mask: torch.Tensor | None = None) -> torch.Tensor:
    return Drawing.reset(env, mask if mask is None else torch.ones_like(mask))


def nobody_anew(env: Counting, mask: torch.Tensor | None = None) -> torch.Tensor:
    return Drawing.reset(env, mask if mask is None else torch.zeros_like(mask))


def test_there_is_no_fault_in_what_has_none() -> None:
    for env in (Counting, Drawing):
        findings = check(lambda copies, env=env, **given: env(copies, **given), steps=30)
        assert findings.sentences == []
        assert findings.looked == TITLES.keys() - {"pictures"}
        assert findings.episodes > 20
        assert findings.about == "2 agents, observations Box [2] float32, actions Discrete(3)"


ELSEWHERE = {"polyhedra", "hironaka"}
"""The first with its own tests; the other is two of it in one, whose games end each for itself."""


@pytest.mark.parametrize("name", [name for name in registry.names() if name not in ELSEWHERE])
def test_there_is_no_fault_in_what_comes_along(name: str) -> None:
    findings = check(lambda copies, **given: registry.make(name, copies, **given), steps=20, copies=4)
    assert findings.sentences == []
    assert findings.whole


@pytest.mark.parametrize(
    ("env", "text"),
    [
        (being(agents=None), r"^__init__ does not set self\.agents; set it there$"),
        (being(action_space=None), r"^__init__ does not set self\.action_space"),
        (being(_seeds=None), r"^__init__ does not call super\(\)\.__init__"),
        (being(agents=["left", "right"]), r"^agents is \['left', 'right'\]; make it a tuple of their names$"),
        (being(agents=()), r"^agents is \(\); make it a tuple"),
        (being(action_space=spaces.MultiDiscrete([3, 3], start=[0, 1])), "has one dimension and counts from 0"),
        (being(agents=("left", "left")), r"^agents is \('left', 'left'\); give each a unique name$"),
        (being(observation_space=spaces.Discrete(3)), r"^observation_space is Discrete\(3\); it must be a Box$"),
        (being(action_space=spaces.Text(3)), r"^action_space is Text.*; it must be Discrete, MultiDiscrete or a Box$"),
        (being(action_space=spaces.Discrete(3, start=1)), r"start=1\); actions count from 0$"),
        (being(action_space=spaces.MultiDiscrete(np.full((1, 2), 3))), "a MultiDiscrete of actions has one dimension"),
        (
            being(action_space=spaces.Box(-np.inf, np.inf, (2,))),
            "a Box of actions needs finite bounds, to which policies",
        ),
        (being(action_space=spaces.Box(-1, 1, ())), r"has one dimension, as in shape \(2,\)"),
        (being(action_space=spaces.Box(-1, 1, (2,), np.float64)), "a Box of actions is of float32"),
    ],
)
def test_agents_and_spaces(env: type[Counting], text: str) -> None:
    found = told(env)
    assert found.keys() == {"spaces"}
    assert len(found["spaces"]) == 1
    assert re.search(text, found["spaces"][0]), found


FAULTS: dict[str, list[tuple[type[Counting], str]]] = {
    "tensors": [  # what functions return
        (answering("begin", lambda _: None), "begin returns nothing; return a dict of tensors"),
        (answering("begin", lambda x: x | {"step": x["sum"]}), "begin returns 'step', which the base class keeps"),
        (answering("begin", lambda x: x | {"sum": 3}), "'sum' of begin is a int; make it a tensor"),
        (
            answering("begin", lambda x: x | {"sum": torch.zeros(5)}),
            r"'sum' of begin has the shape \[5\], but it was asked for 8 copies; take sizes from the arguments",
        ),
        (
            answering("begin", lambda x: x | {"noise": with_nan(x["noise"], 0.9)}),
            r"'noise' of begin is nan \(copy \d, place \[\d\]\); look for 0 / 0",
        ),
        (
            answering("begin", lambda x: x if len(x["sum"]) == 8 else x | {"sum": x["sum"].float()}),
            "begin returns other names, shapes or types than in its first call",
        ),
        (answering("advance", tuple), "advance returns a tuple; return an Outcome"),
        (state_with(seed=lambda x: x["sum"]), "advance returns 'seed', which the base class keeps"),
        (state_with(more=lambda x: x["sum"]), "advance returns 'more', which begin does not; return it there too"),
        (
            state_with(sum=lambda x: x["sum"] / 2),
            r"'sum' is int64 \[E\] in begin, but float32 \[E\] in advance; keep shape and type",
        ),
        (state_with(sum=lambda x: [1]), "'sum' of advance is a list; make it a tensor"),
        (state_with(noise=lambda x: x["noise"][:, :1]), r"'noise' is float32 \[E, 2\] .* float32 \[E, 1\] in advance"),
        (state_with(sum=lambda x: x["sum"][:3]), r"'sum' of advance has the shape \[3\], but it was given 8 copies"),
        (state_with(noise=lambda x: with_nan(x["noise"], 0.9)), "'noise' of advance is nan"),
        (
            outcome(rewards=lambda x: x.rewards.double()),
            r"rewards of advance is float64 \[8, 2\] where 8 copies have 2 agents each; make it float32 \[8, 2\]",
        ),
        (outcome(terminated=lambda x: x.terminated.any(dim=1)), r"terminated of advance is bool \[8\] where"),
        (outcome(truncated=lambda x: x.truncated.int()), r"truncated of advance is int32 \[8, 2\] where"),
        (outcome(terminated=lambda x: None), "terminated of advance is nothing; make it a tensor"),
        (
            having(advance=unlucky),
            r"advance returns inf among rewards \(copy \d, agent (left|right)\); return finite numbers",
        ),
        (answering("observe", lambda x: x[:, 0]), r"observe returns float32 \[8, 2\], but .* float32 \[8, 2, 2\]$"),
        (answering("observe", lambda x: x.double()), r"observe returns float64 \[8, 2, 2\], but the observation"),
        (answering("observe", lambda x: None), "what observe returns is nothing; make it a tensor"),
        (answering("observe", lambda x: with_nan(x, 8)), r"what observe returns is nan \(copy \d, place \[0, 0\]"),
        (
            being(observation_space=spaces.Box(0, 4, (2,))),
            r"observe returns 5 \(copy \d, agent left, place \[\d\]\) where the observation space goes from 0 to 4",
        ),
        (doing("advance", lambda *_: 1 // 0), r"^advance raises ZeroDivisionError: .* \(test_checking\.py:\d+\)$"),
        (having(truncates=False), "advance truncates, but the class says it never does"),
    ],
    "pure": [  # what they change
        (
            doing("advance", shift),
            r"advance changes state\['sum'\] in place \(copy 0: (\d) became \d\); make a new tensor: x = x \+ 1",
        ),
        (doing("observe", shift), r"observe changes state\['sum'\] in place"),
        (doing("allowed", replace), "allowed puts 'sum' into the state it was given; return it instead"),
        (doing("advance", lambda _, __, actions, ___: actions.add_(0).clamp_(0, 1)), "advance changes the actions in"),
        (doing("advance", remember), r"advance changes self\.calls; keep a copy's data in its state"),
        (doing("observe", lambda env, _: env.usual.logical_not_()), r"observe changes self\.usual"),
    ],
    "random": [  # what they draw
        (doing("begin", lambda *_: torch.rand(3)), "begin draws from torch's own generator; draw all numbers"),
        (doing("advance", lambda *_: np.random.rand(3)), "advance draws from numpy's own generator"),
        (doing("advance", lambda *_: random.random()), "advance draws from Python's own generator"),
        (
            state_with(noise=lambda x: x["noise"] + np.random.default_rng().random()),
            "advance returns different results for the same arguments; draw all numbers from `draws`",
        ),
    ],
    "asked": [  # what they ask
        (doing("advance", lambda _, state, *__: bool(state["sum"].any())), r"\(bool, test_checking\.py:\d+\)"),
        (
            doing("allowed", lambda _, state: state["sum"][state["sum"] > 3]),
            r"allowed reads a number or a shape from a tensor \(getitem, ",
        ),
        (doing("advance", lambda _, state, *__: torch.where(state["sum"] > 3)), r"\(where, "),
        (doing("advance", lambda _, state, *__: state["sum"].clone().numpy()), r"\(numpy, "),
        (doing("advance", lambda _, state, *__: torch.arange(state["step"][0])), r"\(arange, "),
        (
            answering("observe", lambda x: x + torch.zeros(2)),
            "a constant is on the CPU, but the environment is on another device; make constants in __init__",
        ),
        (doing("advance", lambda _, state, *__: masked(state["sum"], state["sum"])), r"\(setitem, "),
    ],
    "masks": [  # what may be chosen
        (answering("allowed", lambda x: x.float()), r"allowed returns float32 \[8, 2, 3\], but"),
        (answering("allowed", lambda x: x[:, :, :2]), r"allowed returns bool \[8, 2, 2\], but .* bool \[8, 2, 3\]$"),
        (
            answering("allowed", lambda x: x & (torch.arange(2, device=x.device) > 0)[:, None]),
            r"allowed lets nothing be chosen \(copy 0, agent left, step \d\); allow at least one action",
        ),
        (
            being(action_space=spaces.Box(0, 1, (1,))),
            "allowed returns a mask, but a Box of actions has no mask; return None",
        ),
    ],
    "left": [  # who left
        (
            having(advance=paid_by_share),
            r"advance returns nan among rewards of who left \(copy \d, agent (left|right)\); return finite numbers",
        ),
        (
            having(advance=heard),
            r"agent left: terminated is [01] with one action of an agent that had left and [01] with another",
        ),
        (
            having(transition=paid_afterwards),
            r"an agent that left gets the reward 1 \(step \d, copy \d, agent (left|right)\); pay it 0",
        ),
    ],
    "resets": [  # copies that begin anew
        (
            having(reset=all_anew),
            r"a reset of copies \[0, 3, 6\] changes .* of copy 1; leave resets to the base class",
        ),
        (
            having(reset=nobody_anew),
            "a reset does not change copies that it should reset; leave resets to the base class",
        ),
    ],
    "alone": [  # copies among others
        (
            answering("observe", lambda x: x - x.mean(dim=0)),
            r"step 1, copy 1, agent left: final_observations\[\d\] is .* among the others and 0 when it plays alone",
        ),
        (
            state_with(noise=lambda x: x["noise"] + torch.arange(len(x["noise"]), device=x["noise"].device)[:, None]),
            r"step 1, copy \d: state\['noise'\]\[0\] is .* among the others and .* when copies are in another order",
        ),
        (
            doing("advance", lambda _, state, *__: state["noise"].view(8, 2)),
            r"a step of one copy alone raises RuntimeError: .*; take sizes from the arguments, not from self.num_envs$",
        ),
    ],
    "pictures": [
        (picturing(lambda: np.zeros((4, 4, 3))), r"frame returns float64 \[4, 4, 3\]; a picture is a uint8 array"),
        (picturing(lambda: np.zeros((4, 4), np.uint8)), r"frame returns uint8 \[4, 4\]; a picture is"),
        (picturing(lambda: "x"), "frame returns str; a picture is a uint8 array"),
        (picturing(lambda: 1 // 0), "frame raises ZeroDivisionError: .*test_checking"),
    ],
}
NONE = [
    type("Changed", (outcome(truncated=lambda x: x.terminated),), {"truncates": False}),
    doing("advance", lambda _, state, *__: masked(state["sum"], 0)),
    doing("advance", lambda _, state, *__: masked(state["sum"], torch.zeros_like(state["sum"][0]))),
    having(allowed=for_those_who_are_there),
    picturing(lambda: None),
]


@pytest.mark.parametrize(("part", "env", "text"), [(part, *row) for part, rows in FAULTS.items() for row in rows])
def test_functions(part: str, env: type[Counting], text: str) -> None:
    found = told(env)
    assert found.keys() == {part}, found
    assert len(found[part]) == 1, found
    assert re.search(text, found[part][0]), found


@pytest.mark.parametrize("env", NONE)
def test_what_is_allowed(env: type[Counting]) -> None:
    assert told(env) == {}


class Torn(Counting):
    """Its rewards have no column of agents."""

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        found = super().advance(state, actions, draws)
        return found._replace(rewards=found.rewards[:, 0])


def test_a_run_says_what_breaks_the_contract_in_the_first_steps() -> None:
    with pytest.raises(SettingsError) as raised:
        check_first_steps("my:Torn", lambda copies, **given: Torn(copies, **given))
    assert str(raised.value).startswith("environment my:Torn: rewards of advance is float32 [2] where 2 copies have 2 ")
    assert str(raised.value).endswith("(`tau-train check-env my:Torn` finds more)")
    check_first_steps("my:Counting", lambda copies, **given: Counting(copies, **given))

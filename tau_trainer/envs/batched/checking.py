"""Checks of a batched environment against its contract; each fault is one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from tau_trainer.envs.batched.comparing import OnStep, Values, compare, first_difference, game_of, sampled, told_by
from tau_trainer.envs.batched.contract import CLOCK, BatchedEnv, BatchedStep, State, Twin
from tau_trainer.envs.batched.findings import Findings, Refused, Tell, reporting
from tau_trainer.envs.batched.watching import Watch, differing
from tau_trainer.errors import SettingsError

Make = Callable[..., BatchedEnv]
"""Makes an environment from the number of copies, ``seed`` and ``device``."""


def check(
    make: Make,
    *,
    copies: int = 8,
    steps: int = 200,
    seed: int = 0,
    tolerance: float = 1e-4,
    on_step: OnStep = lambda step: None,
) -> Findings:
    """Play an environment with random actions and check everything in its contract.

    Args:
        make: makes the environment.
        copies: number of copies to play, at least 2.
        steps: number of steps of every copy.
        seed: seed of the copies and the actions.
        tolerance: tolerance for comparing a copy alone with itself among others.
        on_step: called with the number of each step, starting with 1.
    """
    findings = Findings()
    env, plain = make(copies, seed=seed), make(copies, seed=seed)
    if not _named(env, findings.tell):
        return findings
    findings.looked.add("spaces")
    findings.about = _about(env)
    try:
        for step in _played(env, plain, findings, steps, torch.Generator().manual_seed(seed), tolerance):
            on_step(step)
    except Refused:
        return findings
    findings.looked |= {"tensors", "pure", "random", "masks", "asked"}
    if findings.repeatable:
        findings.looked |= {"resets", "alone"}
        if env.num_agents > 1:
            findings.looked.add("left")
    _constants(make, copies, findings.tell)
    with suppress(Refused), reporting("pool", findings.tell, "resets"):
        if type(plain).pool is not BatchedEnv.pool:
            plain.reset()
            plain.pool(copies).check({name: values for name, values in plain.state.items() if name not in CLOCK})
    _pictures(plain, findings)
    return findings


def check_first_steps(name: str, make: Make) -> None:
    """Raises SettingsError if an environment breaks its contract in the first steps, so that training is impossible."""
    findings = check(make, copies=2, steps=2)
    for part in ("spaces", "tensors"):
        for sentence in findings.faults[part].values():
            raise SettingsError(f"environment {name}: {sentence} (`tau-train check-env {name}` finds more)")


def compared(env: BatchedEnv, peer: BatchedEnv | Twin, name: str, **how: Any) -> list[str]:
    """Sentences about the first difference between ``env`` and ``peer``, called ``name``; empty if they agree.

    ``how``: see :func:`compare`.
    """
    sentences = list[str]()
    if isinstance(peer, BatchedEnv):
        for key in ("agents", "observation_space", "action_space"):
            if getattr(env, key) != getattr(peer, key):
                return [f"{key} is {getattr(env, key)} here and {getattr(peer, key)} in {name}"]
    try:
        with reporting(name, lambda part, key, sentence: sentences.append(sentence)):
            found = compare(env, peer, **how)
    except Refused:
        return sentences
    return [found.sentence("here", f"in {name}")] if found is not None else []


def _named(env: BatchedEnv, tell: Tell) -> bool:
    """Whether agents and spaces are valid, so that the environment can be played."""
    faults = list(_space_faults(env))
    for text in faults:
        tell("spaces", text, text)
    return not faults


def _space_faults(env: BatchedEnv) -> Iterator[str]:
    for name in ("agents", "observation_space", "action_space"):
        if not hasattr(env, name):
            yield f"__init__ does not set self.{name}; set it there"
    if not hasattr(env, "_seeds"):
        yield "__init__ does not call super().__init__(num_envs, **options); call it first"
    agents = getattr(env, "agents", ("agent",))
    if not isinstance(agents, tuple) or not agents or not all(isinstance(name, str) for name in agents):
        yield f"agents is {agents!r}; make it a tuple of their names"
    elif len(set(agents)) < len(agents):
        yield f"agents is {agents!r}; give each a unique name"
    seen = getattr(env, "observation_space", spaces.Box(0, 1))
    done = getattr(env, "action_space", spaces.Discrete(1))
    if not isinstance(seen, spaces.Box):
        yield f"observation_space is {seen}; it must be a Box"
    if isinstance(done, spaces.Box):
        if len(done.shape) != 1 or done.dtype != np.float32:
            yield f"action_space is {done}; a Box of actions is of float32 and has one dimension, as in shape (2,)"
        if not done.is_bounded():
            yield f"action_space is {done}; a Box of actions needs finite bounds, to which policies are scaled"
    elif isinstance(done, spaces.MultiDiscrete):
        if done.nvec.ndim != 1 or np.any(done.start):
            yield f"action_space is {done}; a MultiDiscrete of actions has one dimension and counts from 0"
    elif not isinstance(done, spaces.Discrete):
        yield f"action_space is {done}; it must be Discrete, MultiDiscrete or a Box"
    elif done.start:
        yield f"action_space is {done}; actions count from 0"


def _played(
    env: BatchedEnv, plain: BatchedEnv, findings: Findings, steps: int, generator: torch.Generator, tolerance: float
) -> Iterator[int]:
    """Play ``env`` with checks and compare each step with ``plain``; yields after each step. Raises Refused."""
    tell = findings.tell
    Watch(env, tell)
    with reporting("reset", tell):
        env.reset()
    relations = _Relations(plain, tell, generator, tolerance)
    for at in range(1, steps + 1):
        with reporting("a step", tell):
            mask, before = env.mask, env.state
            actions = sampled(env, mask, generator)
            step = env.step(actions)
        findings.episodes += int(step.over.sum())
        if findings.repeatable:
            relations.look(at, before, actions, step, env.state)
        yield at
    chosen = torch.arange(env.num_envs, device=env.device) % 3 == 0
    with reporting("reset", tell):
        before, seen = env.state, env.observe(env.state)
        began = env.reset(chosen)
    if findings.repeatable:
        _began(env, before, (seen, began), chosen, tell)


class _Relations:
    """Checks of a step against steps of other copies; each kind of fault is reported once."""

    def __init__(self, env: BatchedEnv, tell: Tell, generator: torch.Generator, tolerance: float) -> None:
        self._env = env
        self._tell = tell
        self._generator = generator
        self._tolerance = tolerance

    def look(self, at: int, before: State, actions: torch.Tensor, step: BatchedStep, after: State) -> None:
        """Check a step from ``before``. Raises Refused."""
        wanted = told_by(step) | game_of(after)
        self._permuted(at, before, actions, wanted)
        self._alone(at, before, actions, wanted)
        present = before["present"]
        gone = torch.where(present, 0.0, step.rewards)
        if bool((gone != 0).any()):
            copy, agent = map(int, (gone != 0).nonzero()[0])
            where = f"step {at}, copy {copy}, agent {self._env.agents[agent]}"
            self._tell(
                "left",
                "rewards of who left",
                f"an agent that left gets the reward {gone[copy, agent]:g} ({where}); pay it 0",
            )
        if not bool(present.all()):
            self._unheard(at, before, actions, wanted)

    def _permuted(self, at: int, before: State, actions: torch.Tensor, wanted: Values) -> None:
        order = torch.randperm(self._env.num_envs, generator=self._generator).to(actions.device)
        back = order.argsort()
        moved = self._moved({name: values[order] for name, values in before.items()}, actions[order])
        self._differ(
            at, wanted, {name: values[back] for name, values in moved.items()}, "when copies are in another order"
        )

    def _alone(self, at: int, before: State, actions: torch.Tensor, wanted: Values) -> None:
        row = at % self._env.num_envs
        alone = slice(row, row + 1)
        with reporting(
            "a step of one copy alone", self._tell, "alone", "; take sizes from the arguments, not from self.num_envs"
        ):
            moved = self._moved({name: values[alone] for name, values in before.items()}, actions[alone])
        self._differ(at, {name: values[alone] for name, values in wanted.items()}, moved, "when it plays alone", row)

    def _unheard(self, at: int, before: State, actions: torch.Tensor, wanted: Values) -> None:
        """Repeat the step with other actions of the agents that left: the results must not change."""
        others = sampled(self._env, self._env.allowed(before), self._generator)
        absent = ~before["present"].view(*before["present"].shape, *[1] * (actions.dim() - 2))
        moved = self._moved(before, torch.where(absent, others, actions))
        found = first_difference(self._env, at, wanted, moved, self._tolerance)
        if found is not None:
            text = found.sentence("with one action of an agent that had left", "with another")
            self._tell("left", "actions", f"{text}; multiply by state['present'] what agents do")

    def _moved(self, state: State, actions: torch.Tensor) -> Values:
        after, step = self._env.transition(state, actions)
        return told_by(step) | game_of(after)

    def _differ(self, at: int, wanted: Values, found: Values, when: str, copy: int = 0) -> None:
        difference = first_difference(self._env, at, wanted, found, self._tolerance)
        if difference is not None:
            difference = replace(difference, copy=difference.copy + copy)
            text = f"{difference.sentence('among the others', when)}; a copy must not depend on others, or on its place"
            self._tell("alone", "alone", text)


def _began(
    env: BatchedEnv, before: State, seen: tuple[torch.Tensor, torch.Tensor], chosen: torch.Tensor, tell: Tell
) -> None:
    """Check a reset of the copies ``chosen`` with the observations before and after it."""
    after, (earlier, later) = env.state, seen
    for what, values, now in [("what is observed", earlier, later)] + [
        (f"state['{name}']", values, after[name]) for name, values in before.items()
    ]:
        bad = differing(values, now).flatten(1).any(dim=1) if values.dim() > 1 else values != now
        rows = (bad & ~chosen).nonzero()
        if len(rows):
            text = f"a reset of copies {chosen.nonzero()[:, 0].tolist()} changes {what} of copy {int(rows[0])}"
            tell("resets", "others", f"{text}; leave resets to the base class")
    fresh = after["present"].all(dim=1) & (after["step"] == 0) & (after["episode"] == before["episode"] + 1)
    if not bool(fresh[chosen].all()):
        tell(
            "resets",
            "fresh",
            "a reset does not change copies that it should reset; leave resets to the base class",
        )


def _constants(make: Make, copies: int, tell: Tell) -> None:
    """Play a step on the device ``meta``, where constants that are still on the CPU raise errors."""
    try:
        env = make(copies, seed=0, device="meta")
        env.reset()
        shape = env.action_space.shape or ()
        dtype = torch.float32 if isinstance(env.action_space, spaces.Box) else torch.int64
        env.step(torch.zeros(copies, env.num_agents, *shape, dtype=dtype, device="meta"))
        env.mask  # noqa: B018 - computed when asked for
    except RuntimeError as error:
        if "device" in str(error) and "meta" in str(error) and "expected device" in str(error):
            text = "a constant is on the CPU, but the environment is on another device"
            tell("asked", "constants", f"{text}; make constants in __init__, with device=self.device")
    except Exception:
        pass


def _pictures(env: BatchedEnv, findings: Findings) -> None:
    env.reset()
    row: dict[str, Any] = {name: values[0].cpu().numpy() for name, values in env.state.items()}
    try:
        with reporting("frame", findings.tell, "pictures"):
            picture: Any = _frame_of(env, row)
    except Refused:
        return
    if picture is None:
        return
    findings.looked.add("pictures")
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        kind = f"{picture.dtype} {list(picture.shape)}" if isinstance(picture, np.ndarray) else type(picture).__name__
        text = f"frame returns {kind}; a picture is a uint8 array [height, width, 3]"
        findings.tell("pictures", "kind", text)


def _frame_of(env: BatchedEnv, row: dict[str, Any]) -> Any:
    try:
        return env.frame(row)
    except NotImplementedError:
        return None


def _about(env: BatchedEnv) -> str:
    agents = f"{env.num_agents} agents" if env.num_agents > 1 else "1 agent"
    seen, done = (_space(space) for space in (env.observation_space, env.action_space))
    return f"{agents}, observations {seen}, actions {done}"


def _space(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Box):
        return f"Box {list(space.shape)} {space.dtype}"
    return str(space)

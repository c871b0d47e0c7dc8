"""Wraps the author's functions of a batched environment and checks what they change, read, draw, and return."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from tau_trainer.envs.batched.contract import CLOCK, BatchedEnv, Outcome, branches, torch_dtype
from tau_trainer.envs.batched.findings import OURS, TORCH, Part, Refused, Tell, reporting

_FUNCTIONS = "begin", "advance", "observe", "allowed"
_ASKING = {
    *("item", "tolist", "numpy", "cpu", "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive"),
    *("equal", "allclose", "is_nonzero", "bincount", "__array__", "__bool__", "__int__", "__float__", "__index__"),
    *("__contains__", "__format__"),
}
"""Torch functions whose result, or its shape, is known only after waiting for the device."""


class Watch:
    """Checks every call of the functions of ``env`` from now on and reports faults."""

    def __init__(self, env: BatchedEnv, tell: Tell) -> None:
        self._env, self._tell = env, tell
        self._schema: dict[str, tuple[torch.Size, torch.dtype]] = {}
        for name in _FUNCTIONS:
            setattr(env, name, partial(self._called, name, getattr(env, name)))

    def _called(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call it twice and check everything. Raises Refused if its result is unusable."""
        given = [_copied(arg) for arg in args]
        memory, generators = self._memory(), _generators()
        with _Asked() as asked, reporting(name, self._tell):
            answer = function(*args)
        for place, what in asked.places.items():
            self._tell(
                "asked",
                f"{name} {place}",
                f"{name} reads a number or a shape from a tensor ({what}, {place}), which waits for the device; use "
                "torch.where and masks",
            )
        getattr(self, f"_look_at_{name}")(answer, args)
        changed = [self._changed_in_place(name, arg, before) for arg, before in zip(args, given, strict=True)]
        drawn = {kind for kind, state in _generators().items() if state != generators[kind]}
        for kind in sorted(drawn):
            self._tell("random", name, f"{name} draws from {kind}'s own generator; draw all numbers from `draws`")
        now = self._memory()
        kept = sorted(key for key in now.keys() | memory.keys() if now.get(key) != memory.get(key))
        for key in kept:
            self._tell("pure", f"{name} self.{key}", f"{name} changes self.{key}; keep a copy's data in its state")
        if not (any(changed) or drawn or kept):
            with reporting(name, self._tell):
                again = function(*args)
            if not _same(answer, again):
                text = f"{name} returns different results for the same arguments"
                self._tell("random", name, f"{text}; draw all numbers from `draws`, and keep nothing but the state")
        return answer

    def _changed_in_place(self, name: str, arg: Any, before: Any) -> bool:
        if isinstance(arg, dict):
            keys = sorted(key for key in arg.keys() | before.keys() if arg.get(key) is not before.get(key, (None,))[0])
            for key in keys:
                text = f"{name} puts '{key}' into the state it was given; return it instead"
                self._tell("pure", f"{name} {key}", text)
            values = {f"state['{key}']": (arg[key], before[key][1]) for key in arg if key in before and key not in keys}
        elif isinstance(arg, torch.Tensor):
            keys, values = [], {"the actions": (arg, before)}
        else:
            return False
        for what, (value, old) in values.items():
            if not _same(value, old):
                at = tuple(differing(value, old).nonzero()[0].tolist())
                self._tell(
                    "pure",
                    f"{name} {what}",
                    f"{name} changes {what} in place (copy {at[0]}: {_shown(old[at])} became {_shown(value[at])}); "
                    "make a new tensor: x = x + 1, not x += 1",
                )
                return True
        return bool(keys)

    def _memory(self) -> dict[str, Any]:
        """A fingerprint of the environment's attributes, to detect changes."""
        inherited = {"state", "_log", "_watched", "_pool", "_seeds", *_FUNCTIONS}
        return {key: _print_of(value) for key, value in vars(self._env).items() if key not in inherited}

    # Checks of each function's result.

    def _look_at_begin(self, answer: Any, args: tuple[Any, ...]) -> None:
        count = len(args[0].bits(0))
        if not isinstance(answer, dict):
            self._refuse("tensors", f"begin returns {_kind(answer)}; return a dict of tensors")
        for key in [key for key in answer if key in CLOCK]:
            self._refuse("tensors", f"begin returns '{key}', which the base class keeps; give it another name")
        for key, value in answer.items():
            self._tensor(f"'{key}' of begin", value, count, asked=True)
        known = {key: (value.shape[1:], value.dtype) for key, value in answer.items()}
        self._schema = self._schema or known
        if known != self._schema:
            self._refuse(
                "tensors", "begin returns other names, shapes or types than in its first call; always return the same"
            )
        for key, value in answer.items():
            self._finite(f"'{key}' of begin", value)

    def _look_at_advance(self, answer: Any, args: tuple[Any, ...]) -> None:
        env, (state, _, _) = self._env, args
        count = len(state["seed"])
        if not isinstance(answer, Outcome):
            self._refuse("tensors", f"advance returns {_kind(answer)}; return an Outcome")
        for key, value in answer.state.items():
            if key in CLOCK:
                self._refuse("tensors", f"advance returns '{key}', which the base class keeps; leave it out")
            if key not in self._schema:
                self._refuse("tensors", f"advance returns '{key}', which begin does not; return it there too")
            self._tensor(f"'{key}' of advance", value, count)
            shape, dtype = self._schema[key]
            if (value.shape[1:], value.dtype) != (shape, dtype):
                self._refuse(
                    "tensors",
                    f"'{key}' is {_type(dtype, ('E', *shape))} in begin, but "
                    f"{_type(value.dtype, ('E', *value.shape[1:]))} in advance; keep shape and type",
                )
        wanted = {"rewards": torch.float32, "terminated": torch.bool, "truncated": torch.bool}
        for key, dtype in wanted.items():
            value = getattr(answer, key)
            self._tensor(f"{key} of advance", value)
            if (value.dtype, tuple(value.shape)) != (dtype, (count, env.num_agents)):
                self._refuse(
                    "tensors",
                    f"{key} of advance is {_type(value.dtype, value.shape)} where {count} copies have {env.num_agents} "
                    f"agents each; make it {_type(dtype, (count, env.num_agents))}",
                )
        for key, value in answer.state.items():
            self._finite(f"'{key}' of advance", value)
        self._look_at_rewards(answer, state["present"])
        if not env.truncates and bool((answer.truncated & ~answer.terminated & state["present"]).any()):
            text = "advance truncates, but the class says it never does, so no final observations would be kept"
            self._tell("tensors", "truncates", f"{text}; set `truncates = True` in the class")

    def _look_at_rewards(self, answer: Outcome, present: torch.Tensor) -> None:
        bad = ~torch.isfinite(answer.rewards)
        for part, rows, whom in (
            ("tensors", bad & present, "rewards"),
            ("left", bad & ~present, "rewards of who left"),
        ):
            if bool(rows.any()):
                copy, agent = map(int, rows.nonzero()[0])
                where = f"copy {copy}, agent {self._env.agents[agent]}"
                text = f"advance returns {_shown(answer.rewards[copy, agent])} among {whom} ({where})"
                self._tell(part, whom, f"{text}; return finite numbers")  # type: ignore[arg-type]

    def _look_at_observe(self, answer: Any, args: tuple[Any, ...]) -> None:
        env, space = self._env, self._env.observation_space
        wanted = (len(args[0]["seed"]), env.num_agents, *space.shape)
        dtype = torch_dtype(space)
        self._tensor("what observe returns", answer)
        if (answer.dtype, tuple(answer.shape)) != (dtype, wanted):
            self._refuse(
                "tensors",
                f"observe returns {_type(answer.dtype, answer.shape)}, but the observation space and {wanted[0]} "
                f"copies of {wanted[1]} agents ask for {_type(dtype, wanted)}",
            )
        if not self._finite("what observe returns", answer):
            return
        low, high = (torch.as_tensor(bound, device=answer.device) for bound in (space.low, space.high))
        slack = 1e-5 * (1 + torch.nan_to_num(high.abs(), posinf=0.0)) if dtype.is_floating_point else 0
        outside = (answer < low - slack) | (answer > high + slack)
        if bool(outside.any()):
            at = tuple(outside.nonzero()[0].tolist())
            bounds = f"{_shown(low[at[2:]])} to {_shown(high[at[2:]])}"
            where = f"copy {at[0]}, agent {env.agents[at[1]]}, place {list(at[2:])}"
            text = f"observe returns {_shown(answer[at])} ({where}) where the observation space goes from {bounds}"
            self._tell("tensors", "bounds", f"{text}; widen the space or fix the observation")

    def _look_at_allowed(self, answer: Any, args: tuple[Any, ...]) -> None:
        env, (state,) = self._env, args
        if answer is None:
            return
        sizes = branches(env.action_space)
        if not sizes:
            self._refuse("masks", "allowed returns a mask, but a Box of actions has no mask; return None")
        wanted = (len(state["seed"]), env.num_agents, sum(sizes))
        self._tensor("what allowed returns", answer)
        if (answer.dtype, tuple(answer.shape)) != (torch.bool, wanted):
            self._refuse(
                "masks",
                f"allowed returns {_type(answer.dtype, answer.shape)}, but the action space and {wanted[0]} copies "
                f"of {wanted[1]} agents ask for {_type(torch.bool, wanted)}",
            )
        for branch, part in enumerate(answer.split(sizes, dim=2)):
            nothing = ~part.any(dim=2) & state["present"]
            if bool(nothing.any()):
                copy, agent = map(int, nothing.nonzero()[0])
                of = f" on branch {branch}" if len(sizes) > 1 else ""
                where = f"copy {copy}, agent {env.agents[agent]}, step {int(state['step'][copy])}"
                text = f"allowed lets nothing be chosen{of} ({where})"
                self._tell(
                    "masks", f"nothing {branch}", f"{text}; allow at least one action, or end the episode before"
                )

    # Checks of every tensor.

    def _tensor(self, what: str, value: Any, count: int | None = None, *, asked: bool = False) -> None:
        if not isinstance(value, torch.Tensor):
            self._refuse("tensors", f"{what} is {_kind(value)}; make it a tensor")
        if value.device.type != self._env.device.type:
            self._refuse("tensors", f"{what} is on {value.device}, but the environment is on {self._env.device}")
        if count is not None and (value.dim() == 0 or len(value) != count):
            of = "was asked for" if asked else "was given"
            shape = list(value.shape)
            text = f"{what} has the shape {shape}, but it {of} {count} copies"
            self._refuse("tensors", f"{text}; take sizes from the arguments, not from self.num_envs")

    def _finite(self, what: str, value: torch.Tensor) -> bool:
        bad = torch.isnan(value) if value.is_floating_point() else torch.zeros_like(value, dtype=torch.bool)
        if not bool(bad.any()):
            return True
        at = bad.nonzero()[0].tolist()
        where = f"copy {at[0]}" + (f", place {at[1:]}" if at[1:] else "")
        self._tell("tensors", f"nan {what}", f"{what} is nan ({where}); look for 0 / 0 or the root of a negative")
        return False

    def _refuse(self, part: Part, text: str) -> None:
        self._tell(part, text, text)
        raise Refused


def differing(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Where two tensors differ in any bit; nan equals nan."""
    return (tensor != other) & ~(torch.isnan(tensor) & torch.isnan(other))


class _Asked(TorchFunctionMode):
    """Records operations that wait for the device: the operation, by place in the code."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, str] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name == "numpy" and sys._getframe(1).f_code.co_filename in OURS:  # `Draws`, only on the CPU
            return func(*args, **(kwargs or {}))
        if name in _ASKING or _by_mask(name, args) or _by_number(name, args):
            self.places.setdefault(_place(), name.strip("_"))
        return func(*args, **(kwargs or {}))


def _by_mask(name: str, args: tuple[Any, ...]) -> bool:
    """Whether a mask selects rows, so that the number of rows depends on its values."""
    if name == "where":
        return len(args) == 1
    if name not in ("__getitem__", "__setitem__"):
        return False
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    masked = any(isinstance(part, torch.Tensor) and part.dtype == torch.bool for part in index)
    return masked and not (name == "__setitem__" and not (isinstance(args[2], torch.Tensor) and args[2].numel() > 1))


def _by_number(name: str, args: tuple[Any, ...]) -> bool:
    """Whether sizes are taken from a tensor."""
    asks = {"arange": args, "full": args[1:], "repeat_interleave": args[1:]}.get(name, ())
    return any(isinstance(size, torch.Tensor) for size in asks)


def _place() -> str:
    """File and line of the call to torch."""
    frame = sys._getframe(2)
    while frame.f_back is not None and (frame.f_code.co_filename.startswith(TORCH) or frame.f_code.co_filename in OURS):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _copied(arg: Any) -> Any:
    """A copy of an argument: for a state, each tensor and its values; for a tensor, its values."""
    if isinstance(arg, dict):
        return {key: (value, value.clone()) for key, value in arg.items()}
    return arg.clone() if isinstance(arg, torch.Tensor) else None


def _generators() -> dict[str, Any]:
    """States of the global random generators."""
    legacy: Any = np.random.get_state()
    return {
        "torch": bytes(torch.get_rng_state().numpy().tobytes()),
        "numpy": (legacy[1].tobytes(), legacy[2:]),
        "Python": hash(random.getstate()),
    }


def _print_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return id(value), value._version
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, dict | list | set):
        return len(value), repr(value) if len(value) < 100 else ""
    return value if isinstance(value, int | float | str | bool | tuple | None) else id(value)


def _same(value: Any, other: Any) -> bool:
    """Whether two results are equal in every bit; nan equals nan."""
    if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
        if value.shape != other.shape or value.dtype != other.dtype:
            return False
        return not bool(differing(value, other).any())
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_same(value[key], other[key]) for key in value)
    if isinstance(value, tuple) and isinstance(other, tuple):
        return len(value) == len(other) and all(map(_same, value, other))
    return value is other


def _shown(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def _type(dtype: torch.dtype, shape: Any) -> str:
    return f"{str(dtype).removeprefix('torch.')} [{', '.join(map(str, shape))}]"


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"

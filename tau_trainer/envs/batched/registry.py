"""Batched environments by name: built-in ones, those of other packages, and a user's ``module:Class``.

An environment's arguments are the keyword arguments of its ``__init__`` and of the base classes that get its
``**options``.
"""

from __future__ import annotations

import inspect
from typing import Any, get_args

import torch

from tau_trainer import plugins
from tau_trainer.envs.batched.contract import BatchedEnv, Starts, Twin
from tau_trainer.errors import SettingsError, TauError, is_out_of_memory
from tau_trainer.settings.problems import did_you_mean
from tau_trainer.specs import Json

_PLAIN: dict[str, tuple[Any, str]] = {
    "int": (int, "a whole number"),
    "float": (int | float, "a number"),
    "bool": (bool, "true or false"),
    "str": (str, "a word"),
}
"""Annotations that describe an argument's type completely."""


def names() -> tuple[str, ...]:
    """All names, without ``module:Class``."""
    return plugins.names("batched")


def make(
    name: str,
    num_envs: int,
    *,
    seed: int | torch.Tensor = 0,
    device: torch.device | str = "cpu",
    starts: Starts | None = None,
    pool: int = 1024,
    **arguments: Any,
) -> BatchedEnv:
    """``num_envs`` copies of the environment ``name``.

    ``arguments`` are its own; the others are those of every :class:`BatchedEnv`; ``starts``: None for its default.

    Raises:
        SettingsError: the name is unknown, it cannot be loaded, or does not accept these arguments.
    """
    cls = environment(name)
    check_arguments(name, arguments)
    for key, number in (("num_envs", num_envs), ("pool", pool)):
        if number < 1:
            raise SettingsError(f"{key} is {number}; at least 1 is needed")
    if starts is not None and starts not in get_args(Starts):
        raise SettingsError(f"starts is '{starts}'; use {', '.join(get_args(Starts))}")
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise SettingsError(f"device is '{device}', which torch does not know; use cpu or cuda") from error
    options = {"seed": seed, "device": place, "pool": pool} | ({} if starts is None else {"starts": starts})
    made: BatchedEnv = _made(name, cls, arguments, num_envs, **options)
    return made


def twin(name: str, **arguments: Any) -> Twin:
    """The plain numpy twin of the environment ``name``, with the same arguments.

    Raises:
        SettingsError: as :func:`make`, or it has no twin.
    """
    if not has_twin(name):
        raise SettingsError(f"{name} has no twin; those that have one: {', '.join(plugins.names('twins'))}")
    check_arguments(name, arguments)
    made: Twin = _made(name, plugins.load("twins", name), arguments)
    return made


def other(name: str, num_envs: int, *, seed: int, **arguments: Any) -> BatchedEnv | Twin:
    """The environment (on the CPU) or twin ``name`` to compare an environment with. Raises SettingsError."""
    if plugins.is_place("batched", name):
        found = plugins.load("batched", name)
        if not (isinstance(found, type) and issubclass(found, BatchedEnv)):
            if not all(callable(getattr(found, function, None)) for function in ("advance", "observe")):
                raise SettingsError(f"'{name}' is neither a batched environment nor a twin with advance and observe")
            made: Twin = _made(name, found, arguments)
            return made
    return make(name, num_envs, seed=seed, **arguments)


def has_twin(name: str) -> bool:
    """Whether the environment has a twin."""
    return name in plugins.names("twins")


def environment(name: str) -> type[BatchedEnv]:
    """The environment class ``name``. Raises SettingsError."""
    if name not in names() and not plugins.is_place("batched", name):
        raise SettingsError(
            f"no batched environment is named '{name}'; {did_you_mean(name, [*names(), 'MODULE:CLASS of your own'])}"
        )
    found = plugins.load("batched", name)
    if not (isinstance(found, type) and issubclass(found, BatchedEnv)):
        raise SettingsError(f"'{name}' is not a subclass of tau_trainer.envs.batched.BatchedEnv; name a class that is")
    return found


def check_arguments(name: str, arguments: Json) -> None:
    """Raises SettingsError if the environment ``name`` does not accept all of ``arguments``, or needs more."""
    shared = inspect.signature(BatchedEnv.__init__).parameters
    parameters = {key: parameter for key, parameter in _parameters(environment(name)).items() if key not in shared}
    for key in arguments:
        if key in shared:
            raise SettingsError(f"{name}: '{key}' is not one of its arguments; set it next to the name instead")
        if key not in parameters:
            raise SettingsError(f"{name} has no argument '{key}'; {did_you_mean(key, parameters)}")
    for key, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and key not in arguments:
            raise SettingsError(f"{name} needs the argument '{key}'; give it a value")


def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    """Keyword arguments of the constructor, including those that it passes on to base classes."""
    found: dict[str, inspect.Parameter] = {}
    for owner in cls.__mro__:
        if "__init__" not in vars(owner):
            continue
        parameters = inspect.signature(vars(owner)["__init__"]).parameters
        by_name = {key: it for key, it in parameters.items() if it.kind in (it.POSITIONAL_OR_KEYWORD, it.KEYWORD_ONLY)}
        found = by_name | found  # a class overrides its base classes
        if not any(it.kind is it.VAR_KEYWORD for it in parameters.values()):
            break
    return found


def _made(name: str, cls: Any, arguments: Json, *positional: Any, **options: Any) -> Any:
    try:
        return cls(*positional, **arguments, **options)
    except TauError:
        raise
    except Exception as error:  # a user's class can raise anything
        if is_out_of_memory(error):
            raise
        known = _parameters(cls)
        for key, given in arguments.items():
            annotation = known[key].annotation if key in known else object
            kind, words = _PLAIN.get(getattr(annotation, "__name__", str(annotation)), (object, ""))
            if not isinstance(given, kind) or (isinstance(given, bool) and kind not in (bool, object)):
                raise SettingsError(f"{name}: {key} is {given!r}; it must be {words}") from error
        given = " ".join(f"{key}={value}" for key, value in arguments.items())
        reason = ": ".join((type(error).__name__, *str(error).splitlines()[:1]))
        raise SettingsError(f"{name} cannot be made{' with ' if given else ''}{given}: {reason}") from error

"""Reads the expert demonstrations that the Godot RL Agents plugin records.

A file is a JSON list of episodes, each ``[[obs, ...], [actions, ...]]`` with one observation more than actions. There
are no rewards, and nothing says which actions are discrete.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from tau_trainer.bridge.demonstrations import Demonstration
from tau_trainer.bridge.godot.spaces import SHARED
from tau_trainer.errors import DataError, SettingsError
from tau_trainer.files import reason
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    FloatArray,
    NamedAction,
    ObservationSpec,
)

SUFFIX: Final = ".json"
_KINDS: Final = re.compile(r"(d?)([1-9]\d{0,3})")


def read_kinds(text: str) -> tuple[NamedAction, ...]:
    """Recorded actions in their order: ``2,d3`` is 2 continuous values, then one of 3 choices. Raises SettingsError."""
    found = [_KINDS.fullmatch(part.strip()) for part in text.split(",")]
    if not all(found):
        raise SettingsError(
            f"--actions {text}: write the actions in their order, such as 2,d3 for two values and one of 3"
        )
    return tuple(NamedAction(f"action {i}", int(part[2]), bool(part[1])) for i, part in enumerate(found) if part)


def read_godot_demonstration(path: Path, kinds: tuple[NamedAction, ...] = (), behavior: str = SHARED) -> Demonstration:
    """Read one file.

    Args:
        path: the file.
        kinds: the recorded actions; none: all values are continuous.
        behavior: the agents' ``policy_name``.

    Raises:
        DataError: the file cannot be read, is not such a recording, or has other actions.
    """
    try:
        episodes = [_episode(episode) for episode in json.loads(path.read_bytes())]
        obs, acted, lengths = (list(part) for part in zip(*episodes, strict=True))
        seen, chosen = np.concatenate(obs), np.concatenate(acted)
    except OSError as error:
        raise DataError(f"demonstration '{path}' cannot be read ({reason(error)}); check its permissions") from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(
            f"demonstration '{path}' is not a recording of Godot RL Agents: a list of episodes, each a list of "
            "observations and a list with one action fewer"
        ) from error
    ended = np.zeros(len(seen), np.bool_)
    ended[np.cumsum(lengths) - 1] = True
    begins = np.concatenate(([True], ended[:-1]))
    actions = _actions(chosen, kinds or (NamedAction("actions", chosen.shape[1], False),), path)
    sizes = tuple(kind.size for kind in kinds if kind.discrete)
    spec = BehaviorSpec(
        behavior,
        (ObservationSpec("obs", (seen.shape[1],), (DimensionProperty.NONE,)),),
        ActionSpec(actions.continuous.shape[1], sizes),
    )
    nothing = np.zeros(len(seen), np.float32)
    return Demonstration(spec, (seen,), nothing, begins, ended, np.zeros_like(ended), actions)


def _episode(episode: Any) -> tuple[FloatArray, FloatArray, int]:
    """Observations [t + 1, k], actions [t + 1, a] with zeros at the end, and t + 1. Raises ValueError, TypeError."""
    seen, acted = episode
    obs = np.array(seen, np.float32).reshape(len(seen), -1)
    actions = np.array(acted, np.float32).reshape(len(acted), -1)
    if len(obs) != len(actions) + 1 or not len(actions) or not (np.isfinite(obs).all() and np.isfinite(actions).all()):
        raise ValueError
    return obs, np.concatenate((actions, np.zeros_like(actions[:1]))), len(obs)


def _actions(chosen: FloatArray, kinds: tuple[NamedAction, ...], path: Path) -> Actions:
    """Recorded values [k, a] as actions. Raises DataError."""
    widths = [1 if kind.discrete else kind.size for kind in kinds]
    if sum(widths) != chosen.shape[1]:
        raise DataError(
            f"demonstration '{path}' has actions of {chosen.shape[1]} values, --actions describes {sum(widths)}"
        )
    columns = [(kind, chosen[:, a:b]) for kind, (a, b) in zip(kinds, pairwise(np.cumsum([0, *widths])), strict=True)]
    for kind, values in columns:
        if kind.discrete and not ((values == np.rint(values)) & (values >= 0) & (values < kind.size)).all():
            raise DataError(
                f"demonstration '{path}' has an action that is not one of {kind.size} choices; check --actions"
            )
    continuous = [values for kind, values in columns if not kind.discrete]
    discrete = [values.astype(np.int32) for kind, values in columns if kind.discrete]
    none = chosen[:, :0]
    return Actions(
        np.concatenate([none, *continuous], axis=1), np.concatenate([none.astype(np.int32), *discrete], axis=1)
    )

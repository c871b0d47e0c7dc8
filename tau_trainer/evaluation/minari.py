"""Converts demonstrations to Minari data sets (extra ``[minari]``), and back.

| Minari | a demonstration |
| --- | --- |
| ``T + 1`` observations of an episode | its records; the last one ended it |
| ``T`` actions | answers, of all records but the last; a ``Box`` with bounds is [-1, 1] here |
| ``T`` rewards | of all records but the first: since the record before |
| ``terminations``, ``truncations`` | whether the last record ended it, or a limit did |
| ``infos["action_mask"]``, 1 = allowed | what was forbidden |

A behavior with one sensor observes a ``Box``, with several sensors a ``Dict`` of them; images are stored unchanged,
channels last. A behavior with continuous actions and branches acts in a ``Dict`` of both.
"""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tau_trainer.bridge.demonstrations import Demonstration, joined
from tau_trainer.envs.spaces import action_spec, arrays, channels_last, from_space, is_image, open_ended, sensors
from tau_trainer.errors import DataError, SettingsError
from tau_trainer.files import reason
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, ObservationSpec

PREFIX = "minari:"
"""Prefix that distinguishes the name of a data set from a file."""
_HYBRID = ("continuous", "discrete")
_MASK = "action_mask"

_log = logging.getLogger(__name__)


class MinariStore:
    """The data sets of this machine, where Minari keeps them (``MINARI_DATASETS_PATH``, or ``~/.minari/datasets``).

    Raises:
        SettingsError: the extra is not installed.
    """

    def __init__(self) -> None:
        try:
            import minari
            from minari.data_collector import EpisodeBuffer
            from minari.dataset.minari_dataset import parse_dataset_id
            from minari.storage import get_dataset_path
        except ImportError as error:
            raise SettingsError(
                f"this needs Minari, which is not installed: pip install 'tau-trainer[minari]' ({error})"
            ) from None
        self._minari, self._buffer = minari, EpisodeBuffer
        self._parse, self._path_of = parse_dataset_id, get_dataset_path

    def read(self, name: str) -> Demonstration:
        """Every episode of a data set. Raises DataError if it does not exist, or cannot be learned from."""
        self._check(name)
        try:
            dataset = self._minari.load_dataset(name)
        except FileNotFoundError:
            raise DataError(
                f"Minari has no data set '{name}' on this machine; fetch it with `minari download {name}`"
            ) from None
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"the data set '{name}' cannot be read ({error}); fetch it again") from error
        known, action_space = dataset.spec.env_spec, dataset.action_space
        behavior = known.id if known is not None else self._parse(name)[1]
        try:
            observed = tuple(sensors(dataset.observation_space))
            acted = _action_spec(action_space)
        except SettingsError as error:
            raise DataError(f"the data set '{name}' cannot be converted: {error}") from error
        for space in (_hybrid(action_space) or {"": action_space}).values():
            if said := open_ended(space):
                _log.warning("data set '%s': %s", name, said)
        spec = BehaviorSpec(behavior, observed, acted)
        parts = [self._episode(spec, dataset, episode) for episode in dataset.iterate_episodes() if len(episode)]
        if not parts:
            raise DataError(f"the data set '{name}' holds no decision")
        return joined(parts)

    def _episode(self, spec: BehaviorSpec, dataset: Any, episode: Any) -> Demonstration:
        count = len(episode) + 1  # records
        begins, ended, truncated = (np.zeros(count, np.bool_) for _ in range(3))
        begins[0] = ended[-1] = True
        truncated[-1] = not episode.terminations[-1]
        actions = Actions.zeros(spec.actions, count)
        answered = _actions(dataset.action_space, episode.actions)
        actions.continuous[:-1], actions.discrete[:-1] = answered.continuous, answered.discrete
        allowed = (episode.infos or {}).get(_MASK) if spec.actions.mask_size else None
        return Demonstration(
            spec,
            tuple(arrays(dataset.observation_space, episode.observations)),
            np.concatenate(([0.0], episode.rewards)).astype(np.float32),
            begins,
            ended,
            truncated,
            actions,
            None if allowed is None else np.asarray(allowed).reshape(count, -1) == 0,
        )

    def write(self, name: str, demonstration: Demonstration) -> int:
        """Create a data set; returns its number of episodes.

        An episode that was recorded without its end is cut before its last decision, whose result is unknown.

        Raises:
            DataError: the name exists, no decision is complete, or the data set cannot be written.
        """
        self._check(name)
        path = self._path_of(name)
        if path.exists():
            raise DataError(f"the Minari data set '{name}' already exists in '{path}'; choose another name or version")
        spec = demonstration.spec
        space = _observation_space(spec)
        buffers = list(self._buffers(demonstration))
        if not buffers:
            raise DataError(f"there is nothing to write to '{name}': no decision was recorded whole")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about missing facts on the author
                self._minari.create_dataset_from_buffers(
                    name,
                    buffers,
                    observation_space=space,
                    action_space=_action_space(spec.actions),
                    description=f"Demonstrations of behavior {spec.short_name}",
                    jpeg_encoding=False,
                )
        except BaseException as error:  # Ctrl-C too: nothing half-written stays
            shutil.rmtree(path, ignore_errors=True)
            if isinstance(error, OSError):
                raise DataError(f"'{path}' cannot be written ({reason(error)})") from error
            raise
        return len(buffers)

    def _buffers(self, demonstration: Demonstration) -> Iterator[Any]:
        spec, mask = demonstration.spec, demonstration.mask
        begins = np.flatnonzero(demonstration.begins)
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(demonstration)], strict=True):
            steps = end - begin - 1
            if steps < 1:
                continue
            over = bool(demonstration.ended[end - 1])
            terminations, truncations = np.zeros(steps, np.bool_), np.zeros(steps, np.bool_)
            truncations[-1] = not over or demonstration.truncated[end - 1]
            terminations[-1] = not truncations[-1]
            acted = Actions(
                demonstration.actions.continuous[begin : end - 1], demonstration.actions.discrete[begin : end - 1]
            )
            yield self._buffer(
                observations=_observed(spec, [sensor[begin:end] for sensor in demonstration.obs]),
                actions=_answers(spec.actions, acted),
                rewards=demonstration.reward[begin + 1 : end].astype(np.float64),
                terminations=terminations,
                truncations=truncations,
                infos={} if mask is None else {_MASK: (~mask[begin:end]).astype(np.int8)},
            )

    def _check(self, name: str) -> None:
        try:
            self._parse(name)
        except (ValueError, TypeError):
            raise DataError(
                f"'{name}' is not a valid name of a data set; use a name like expert-v0 or ball/expert-v0"
            ) from None


def _observation_space(spec: BehaviorSpec) -> spaces.Space[Any]:
    """Raises DataError for an image that would be read differently."""
    boxes: dict[str, spaces.Space[Any]] = {}
    for key, sensor in zip(_keys(spec), spec.observations, strict=True):
        shape = _stored_shape(sensor)
        low, high = (0, 255) if sensor.dtype == np.uint8 else (-np.inf, np.inf)
        box = spaces.Box(low, high, shape, sensor.dtype)  # type: ignore[arg-type]
        if _is_image(sensor) and is_image(box) and next(sensors(box)).shape != sensor.shape:
            raise DataError(f"sensor '{sensor.name}' {list(sensor.shape)} is an image whose axes Minari cannot tell")
        boxes[key] = box
    return next(iter(boxes.values())) if len(boxes) == 1 else spaces.Dict(boxes)


def _keys(spec: BehaviorSpec) -> list[str]:
    """Names of sensors, numbered if they would be read back in another order, because Gymnasium sorts them.

    A ``/`` is replaced, because it would be a folder within the file.
    """
    names = [sensor.name.replace("/", "_") for sensor in spec.observations]
    return names if names == sorted(set(names)) else [f"{i:02d}_{name}" for i, name in enumerate(names)]


def _is_image(sensor: ObservationSpec) -> bool:
    return len(sensor.shape) == 3


def _stored_shape(sensor: ObservationSpec) -> tuple[int, ...]:
    """Channels last, except for images that would then be read as channels first, or not as images."""
    if not _is_image(sensor):
        return sensor.shape
    channels, height, width = sensor.shape
    last = spaces.Box(0, 1, (height, width, channels), sensor.dtype)  # type: ignore[arg-type]
    return last.shape if is_image(last) and channels_last(last.shape) else sensor.shape


def _observed(spec: BehaviorSpec, obs: list[NDArray[Any]]) -> Any:
    """Observations in the structure of :func:`_observation_space`."""
    found = {}
    for key, sensor, values in zip(_keys(spec), spec.observations, obs, strict=True):
        moved = _is_image(sensor) and _stored_shape(sensor) != sensor.shape
        found[key] = np.ascontiguousarray(np.moveaxis(values, 1, -1)) if moved else values
    return next(iter(found.values())) if len(found) == 1 else found


def _action_space(spec: ActionSpec) -> spaces.Space[Any]:
    kinds: dict[str, spaces.Space[Any]] = {}
    if spec.continuous_size:
        kinds["continuous"] = spaces.Box(-1.0, 1.0, (spec.continuous_size,))
    if len(spec.discrete_branches) == 1:
        kinds["discrete"] = spaces.Discrete(spec.discrete_branches[0])
    elif spec.discrete_branches:
        kinds["discrete"] = spaces.MultiDiscrete(list(spec.discrete_branches))
    return next(iter(kinds.values())) if len(kinds) == 1 else spaces.Dict(kinds)


def _answers(spec: ActionSpec, actions: Actions) -> Any:
    """Actions in the structure of :func:`_action_space`."""
    discrete = actions.discrete.astype(np.int64)
    kinds: dict[str, NDArray[Any]] = {}
    if spec.continuous_size:
        kinds["continuous"] = actions.continuous.clip(-1.0, 1.0)
    if spec.discrete_branches:
        kinds["discrete"] = discrete[:, 0] if len(spec.discrete_branches) == 1 else discrete
    return next(iter(kinds.values())) if len(kinds) == 1 else kinds


def _hybrid(space: spaces.Space[Any]) -> Mapping[str, spaces.Space[Any]] | None:
    both = isinstance(space, spaces.Dict) and tuple(sorted(space.spaces)) == _HYBRID
    return space.spaces if both and isinstance(space, spaces.Dict) else None


def _action_spec(space: spaces.Space[Any]) -> ActionSpec:
    """Raises SettingsError for an unsupported space."""
    if (both := _hybrid(space)) is None:
        return action_spec(space)
    continuous, discrete = (action_spec(both[kind]) for kind in _HYBRID)
    return ActionSpec(continuous.continuous_size, discrete.discrete_branches)


def _actions(space: spaces.Space[Any], values: Any) -> Actions:
    """The actions [T], in the form of an agent's decision."""
    if (both := _hybrid(space)) is None:
        return from_space(space, values)
    continuous, discrete = (from_space(both[kind], values[kind]) for kind in _HYBRID)
    return Actions(continuous.continuous, discrete.discrete)

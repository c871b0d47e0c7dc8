"""Plug-ins, found by name: trainers, environments, parts of networks, tasks, recorders, callbacks, commands.

A package adds a plug-in with an entry point in the group ``tau_trainer.<kind>``, for example ``tau_trainer.trainers``.
The entry point's name is the name that users write; its value is ``module:attribute``. Plug-ins are imported on first
use. Other packages cannot replace the names of this package, whose games are plug-ins too. For trainers, callbacks and
batched environments, users can also write ``module:attribute`` directly.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

Kind = (
    Literal["trainers", "environments", "batched", "twins", "collectors"]
    | Literal["encoders", "memories", "tasks", "recorders", "callbacks", "commands"]
)
_BY_PLACE: tuple[Kind, ...] = ("trainers", "batched", "callbacks")
"""Kinds for which users can also write ``module:attribute``."""
_GAMES = "tau_trainer.games"
"""The package of our own games. Nothing imports it but by a name below, so an installation may lack it."""
_MLAGENTS_TRAINERS = "mlagents.trainer_type"
"""Entry-point group of trainers for mlagents-learn."""

_SETTINGS = "tau_trainer.settings.trainers"
_TRAINERS = (
    *("ppo", "a2c", "sac", "sac_ln", "dqn", "iqn", "ddpg", "td3", "maddpg"),
    *("bc", "iql", "awac"),
    *("poca", "mappo"),
)
_OWN: dict[Kind, dict[str, str]] = {
    # A tau_trainer.settings.TrainerType, or settings that name their algorithm, by `trainer_type`.
    "trainers": {name: f"{_SETTINGS}:{name.upper().replace('_', '')}TrainerSettings" for name in _TRAINERS},
    # From settings to a tau_trainer.envs.EnvironmentSource, by the prefix of `--env`.
    "environments": {
        "gym": "tau_trainer.envs.gymnasium:GymnasiumSource",
        "pettingzoo": "tau_trainer.envs.pettingzoo:PettingZooSource",
        "mlagents": "tau_trainer.envs.base_env:BaseEnvSource",
        "batched": "tau_trainer.envs.contract:no_engine",
    },
    # A tau_trainer.envs.batched.BatchedEnv, by `environment.name`; see tau_trainer.envs.batched.registry.
    "batched": {
        "tag_gridworld": f"{_GAMES}.tag_gridworld:TagGridworld",
        "tag_continuous": f"{_GAMES}.tag_continuous:TagContinuous",
        "cartpole": f"{_GAMES}.classic_control:CartPole",
        "acrobot": f"{_GAMES}.classic_control:Acrobot",
        "mountain_car": f"{_GAMES}.classic_control:MountainCar",
        "mountain_car_continuous": f"{_GAMES}.classic_control:MountainCarContinuous",
        "pendulum": f"{_GAMES}.classic_control:Pendulum",
        "tau": "tau_trainer.tau.batched:TauBatched",
        "polyhedra": f"{_GAMES}.polyhedra.env:Polyhedra",
        "hironaka": f"{_GAMES}.polyhedra.sides:Hironaka",
    },
    # A tau_trainer.envs.batched.Twin, by the name of its batched environment.
    "twins": {
        "tag_gridworld": f"{_GAMES}.twins.tag:TagGridworldTwin",
        "tag_continuous": f"{_GAMES}.twins.tag:TagContinuousTwin",
        "cartpole": f"{_GAMES}.twins.classic_control:CartPoleTwin",
        "acrobot": f"{_GAMES}.twins.classic_control:AcrobotTwin",
        "mountain_car": f"{_GAMES}.twins.classic_control:MountainCarTwin",
        "mountain_car_continuous": f"{_GAMES}.twins.classic_control:MountainCarContinuousTwin",
        "pendulum": f"{_GAMES}.twins.classic_control:PendulumTwin",
        "tau": "tau_trainer.tau.twin:TauTwin",
        "polyhedra": f"{_GAMES}.polyhedra.twin:PolyhedraTwin",
    },
    # A tau_trainer.training.batched.run.CopiesCollector, by the name of a batched environment that needs its own.
    "collectors": {"hironaka": f"{_GAMES}.polyhedra.hironaka:HironakaCollector"},
    # From sensor and network settings to a block, by `visual:<vis_encode_type>`; `lists` encodes all lists of entities.
    "encoders": {
        "visual:simple": "tau_trainer.models.encoders.convolutional:Simple",
        "visual:nature_cnn": "tau_trainer.models.encoders.convolutional:NatureCNN",
        "visual:resnet": "tau_trainer.models.encoders.resnet:ResNet",
        "visual:match3": "tau_trainer.models.encoders.convolutional:Match3",
        "visual:fully_connected": "tau_trainer.models.encoders.convolutional:FullyConnected",
        "lists": "tau_trainer.models.encoders.attention:EntityAttention",
    },
    # From input size and memory settings to a block, by `memory.type`.
    "memories": {"lstm": "tau_trainer.models.lstm:LSTM"},
    # From settings to a tau_trainer.training.task.Task, by the section of the file that asks for it.
    "tasks": {"tau": "tau_trainer.tau.task:TauTask"},
    # From settings and the run's folder to a tau_trainer.metrics.Recorder, by an entry of `recorders`; recorders of
    # other packages record every run.
    "recorders": {
        "mlflow": "tau_trainer.metrics.trackers.mlflow:MLflow",
        "wandb": "tau_trainer.metrics.trackers.wandb:WeightsAndBiases",
    },
    # Without arguments to a tau_trainer.Callback, by an entry of `callbacks`.
    "callbacks": {},
    # A function or an App of cyclopts, by the name of a command of tau-train.
    "commands": {"play": f"{_GAMES}.polyhedra.play:play_command"},
}


def _entry_points(group: str) -> EntryPoints:
    from importlib import metadata  # takes as long as all of `tau-train --help` may

    return metadata.entry_points(group=group)


@cache
def _found(kind: Kind) -> dict[str, str]:
    return {point.name: point.value for point in _entry_points(f"tau_trainer.{kind}")} | _OWN[kind]


def names(kind: Kind) -> tuple[str, ...]:
    """All names of a kind, this package's first."""
    return (*own(kind), *others(kind))


def own(kind: Kind) -> tuple[str, ...]:
    """Names of a kind that this package provides."""
    return tuple(_OWN[kind])


def others(kind: Kind) -> tuple[str, ...]:
    """Names of a kind that other packages provide."""
    return tuple(sorted(_found(kind).keys() - _OWN[kind].keys()))


def place(kind: Kind, name: str) -> str:
    """``module:attribute`` of an object of this package; imports nothing."""
    return _OWN[kind][name]


def is_place(kind: Kind, name: str) -> bool:
    """Whether :func:`load` reads ``name`` as ``module:attribute``."""
    module, colon, attribute = name.partition(":")
    return kind in _BY_PLACE and bool(module and colon and attribute) and name not in _found(kind)


def package_for_mlagents(trainer: str) -> str | None:
    """The package with an mlagents-learn trainer of that name, which this program cannot run; None if there is none."""
    for point in _entry_points(_MLAGENTS_TRAINERS):
        if point.name == trainer:
            return point.dist.name if point.dist is not None else point.value
    return None


def resolve(place: str) -> Any:
    """The object at ``module:attribute``."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def moved(earlier: str, now: str, name: str) -> Any:
    """The object ``name`` that was in the module ``earlier`` and is in ``now``, with a DeprecationWarning."""
    warnings.warn(f"{earlier}.{name} is in {now} now; import it from there", DeprecationWarning, stacklevel=3)
    return resolve(f"{now}:{name}")


def load(kind: Kind, name: str) -> Any:
    """The object that ``name`` refers to.

    Raises:
        SettingsError: the name is unknown, or its package cannot be imported, or it is a game that is not installed.
    """
    if name in _OWN[kind]:
        return _load_own(kind, name)
    found = _found(kind)
    if name not in found and not is_place(kind, name):
        known = ", ".join([*names(kind), *(["MODULE:NAME of your own"] if kind in _BY_PLACE else [])])
        raise SettingsError(f"'{name}' is not one of the {kind}; known: {known}")
    try:
        return resolve(found.get(name, name))
    except Exception as error:  # importing someone else's package can raise anything
        reason = ": ".join((type(error).__name__, *str(error).splitlines()[:1]))
        if name not in found:
            raise SettingsError(
                f"'{name}' cannot be loaded: {reason}; the module must be on Python's path (PYTHONPATH)"
            ) from error
        raise SettingsError(
            f"'{name}' ({found[name]}) cannot be loaded: {reason}; fix or uninstall its package"
        ) from error


def _load_own(kind: Kind, name: str) -> Any:
    try:
        return resolve(_OWN[kind][name])
    except ModuleNotFoundError as error:
        if error.name != _GAMES:
            raise
        raise SettingsError(
            f"'{name}' needs {_GAMES}, which is not installed here; install tau-trainer again"
        ) from error

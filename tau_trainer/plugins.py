"""Plug-ins, found by name: trainers, environments, encoders, memories, tasks, recorders, callbacks.

A package adds a plug-in with an entry point in the group ``tau_trainer.<kind>``, for example ``tau_trainer.trainers``.
The entry point's name is the name that users write; its value is ``module:attribute``. Plug-ins are imported on first
use. Other packages cannot replace the names of this package. For trainers, callbacks and batched environments, users
can also write ``module:attribute`` directly.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module, metadata
from typing import Any, Literal

from tau_trainer.errors import SettingsError

Kind = Literal["trainers", "environments", "batched", "encoders", "memories", "tasks", "recorders", "callbacks"]
_BY_PLACE: tuple[Kind, ...] = ("trainers", "batched", "callbacks")
"""Kinds for which users can also write ``module:attribute``."""
_MLAGENTS_TRAINERS = "mlagents.trainer_type"
"""Entry-point group of trainers for mlagents-learn."""

_OWN: dict[Kind, dict[str, str]] = {
    # A tau_trainer.settings.TrainerType, by `trainer_type`.
    "trainers": {
        "ppo": "tau_trainer.settings.trainers:PPO_TRAINER",
        "sac": "tau_trainer.settings.trainers:SAC_TRAINER",
        "sac_ln": "tau_trainer.settings.trainers:SAC_LN_TRAINER",
        "dqn": "tau_trainer.settings.trainers:DQN_TRAINER",
        "iqn": "tau_trainer.settings.trainers:IQN_TRAINER",
        "ddpg": "tau_trainer.settings.trainers:DDPG_TRAINER",
        "td3": "tau_trainer.settings.trainers:TD3_TRAINER",
        "maddpg": "tau_trainer.settings.trainers:MADDPG_TRAINER",
        "bc": "tau_trainer.settings.trainers:BC_TRAINER",
        "iql": "tau_trainer.settings.trainers:IQL_TRAINER",
        "awac": "tau_trainer.settings.trainers:AWAC_TRAINER",
        "poca": "tau_trainer.settings.trainers:POCA_TRAINER",
        "mappo": "tau_trainer.settings.trainers:MAPPO_TRAINER",
    },
    # From settings to a tau_trainer.envs.EnvironmentSource, by the prefix of `--env`.
    "environments": {
        "gym": "tau_trainer.envs.gymnasium:GymnasiumSource",
        "pettingzoo": "tau_trainer.envs.pettingzoo:PettingZooSource",
        "mlagents": "tau_trainer.envs.base_env:BaseEnvSource",
        "batched": "tau_trainer.envs.contract:no_engine",
    },
    # A tau_trainer.envs.batched.BatchedEnv, by `environment.name`; see tau_trainer.envs.batched.registry.
    "batched": {
        "tag_gridworld": "tau_trainer.envs.batched.tag_gridworld:TagGridworld",
        "tag_continuous": "tau_trainer.envs.batched.tag_continuous:TagContinuous",
        "cartpole": "tau_trainer.envs.batched.classic_control:CartPole",
        "acrobot": "tau_trainer.envs.batched.classic_control:Acrobot",
        "mountain_car": "tau_trainer.envs.batched.classic_control:MountainCar",
        "mountain_car_continuous": "tau_trainer.envs.batched.classic_control:MountainCarContinuous",
        "pendulum": "tau_trainer.envs.batched.classic_control:Pendulum",
        "tau": "tau_trainer.tau.batched:TauBatched",
        "polyhedra": "tau_trainer.envs.polyhedra:Polyhedra",
        "hironaka": "tau_trainer.envs.polyhedra:Hironaka",
    },
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
}


@cache
def _found(kind: Kind) -> dict[str, str]:
    others = {point.name: point.value for point in metadata.entry_points(group=f"tau_trainer.{kind}")}
    return others | _OWN[kind]


def names(kind: Kind) -> tuple[str, ...]:
    """All names of a kind, this package's first."""
    return (*own(kind), *others(kind))


def own(kind: Kind) -> tuple[str, ...]:
    """Names of a kind that this package provides."""
    return tuple(_OWN[kind])


def others(kind: Kind) -> tuple[str, ...]:
    """Names of a kind that other packages provide."""
    return tuple(sorted(_found(kind).keys() - _OWN[kind].keys()))


def is_place(kind: Kind, name: str) -> bool:
    """Whether :func:`load` reads ``name`` as ``module:attribute``."""
    module, colon, attribute = name.partition(":")
    return kind in _BY_PLACE and bool(module and colon and attribute) and name not in _found(kind)


def package_for_mlagents(trainer: str) -> str | None:
    """The package with an mlagents-learn trainer of that name, which this program cannot run; None if there is none."""
    for point in metadata.entry_points(group=_MLAGENTS_TRAINERS):
        if point.name == trainer:
            return point.dist.name if point.dist is not None else point.value
    return None


def resolve(place: str) -> Any:
    """The object at ``module:attribute``."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def load(kind: Kind, name: str) -> Any:
    """The object that ``name`` refers to.

    Raises:
        SettingsError: the name is unknown, or its package cannot be imported.
    """
    found = _found(kind)
    if name not in found and not is_place(kind, name):
        known = ", ".join([*names(kind), *(["MODULE:NAME of your own"] if kind in _BY_PLACE else [])])
        raise SettingsError(f"'{name}' is not one of the {kind}; known: {known}")
    try:
        return resolve(found.get(name, name))
    except Exception as error:  # importing someone else's package can raise anything
        if name in _OWN[kind]:
            raise
        reason = ": ".join((type(error).__name__, *str(error).splitlines()[:1]))
        if name not in found:
            raise SettingsError(
                f"'{name}' cannot be loaded: {reason}; the module must be on Python's path (PYTHONPATH)"
            ) from error
        raise SettingsError(
            f"'{name}' ({found[name]}) cannot be loaded: {reason}; fix or uninstall its package"
        ) from error

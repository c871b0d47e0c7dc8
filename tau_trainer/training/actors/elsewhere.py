"""Where actors run: on this machine, or on the nodes of a cluster. Imports no torch, and Ray only for a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tau_trainer import plugins
from tau_trainer.errors import ClusterError, SettingsError
from tau_trainer.remote.process import Places
from tau_trainer.settings import EDITOR, RunSettings

_PORTS = "leave --listen (collection.listen) out: engines are started on the nodes, beside their actors"


@contextmanager
def places_of(settings: RunSettings, say: Callable[[str], None]) -> Iterator[tuple[RunSettings, Places | None]]:
    """Settings as they are on the nodes that play, and how a place there is made; None: this machine.

    A private cluster ends with the context. ``say``: is told what begins.

    Raises:
        ClusterError: there is no such cluster, or its nodes cannot play this.
        SettingsError: neither could any other.
    """
    cluster = settings.cluster
    if cluster is None or settings.checkpoint_settings.inference:
        yield settings, None
        return
    settings = _playable(settings)
    if cluster.private:
        say(f"starting a private Ray cluster on this machine ({cluster.address})")
    else:
        say(f"connecting to the Ray cluster at {cluster.address}")
    from tau_trainer.cluster.connection import Connection

    connection = Connection(cluster)
    try:
        settings = _fitting(settings, connection.room, connection.described)
        connection.check(_build(settings))
        say(f"{settings.async_trainer.actors} actors (execution: async) on {connection.described}")
        yield settings, connection.place
    finally:
        connection.close()


def _playable(settings: RunSettings) -> RunSettings:
    """With a build by its whole path. Raises SettingsError for what only this machine has."""
    env = settings.env_settings
    if env.env_path in (None, EDITOR):
        raise SettingsError(
            "--cluster starts engines on its nodes, and the Unity editor is here; name a build with --env"
        )
    if settings.collection.listen is not None:
        raise SettingsError(f"--cluster: {_PORTS}")
    if _build(settings) is None:
        return settings
    whole = env.model_copy(update={"env_path": str(Path(env.env_path or "").expanduser().absolute())})
    return settings.model_copy(update={"env_settings": whole})


def _build(settings: RunSettings) -> str | None:
    """The build that is played; None: none, but an environment of Python or a scene of the headless engine."""
    path = settings.env_settings.env_path or ""
    prefix, colon, _ = path.partition(":")
    named = colon and (prefix == "headless" or prefix in plugins.names("environments"))
    return None if named else path


def _fitting(settings: RunSettings, room: int, described: str) -> RunSettings:
    """As many actors as nodes have room for, where nobody says how many. Raises ClusterError: too many."""
    chosen = settings.async_trainer
    spare = int(chosen.eval_interval > 0)
    if "actors" not in chosen.model_fields_set and chosen.exploration is None:
        chosen = chosen.model_copy(update={"actors": max(1, min(room - spare, 1000))})
        settings = settings.model_copy(update={"async_trainer": chosen})
    if chosen.actors + spare > room:
        evaluator = " and one that evaluates (eval_interval: 0 leaves it out)" if spare else ""
        raise ClusterError(
            f"the cluster has room for {room} processes, and {chosen.actors} actors are asked for{evaluator}: "
            f"{described}; lower --actors or cluster.resources, or add nodes"
        )
    return settings

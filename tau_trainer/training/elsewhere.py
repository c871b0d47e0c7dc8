"""The machines on which actors and ranks run: this one or a cluster's nodes.

Imports no torch, and Ray only for a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tau_trainer import plugins
from tau_trainer.errors import ClusterError, SettingsError
from tau_trainer.remote.process import Machines
from tau_trainer.settings import ClusterSettings, RunSettings
from tau_trainer.settings.engines import UNREAL_PREFIX
from tau_trainer.training.plan import RunKind
from tau_trainer.training.task import task_of

if TYPE_CHECKING:
    from tau_trainer.cluster.connection import Cluster


@contextmanager
def machines_of(
    command: RunKind, settings: RunSettings, say: Callable[[str], None]
) -> Iterator[tuple[RunSettings, Machines | None]]:
    """Settings adapted to the nodes that play, and these nodes; None: this machine alone.

    A private cluster ends with the context. ``say`` receives a sentence for each thing that starts.

    Raises:
        ClusterError: the cluster does not exist, or its nodes cannot play these settings.
        SettingsError: no cluster could play these settings.
    """
    cluster = settings.cluster
    if cluster is None or settings.checkpoint_settings.inference:
        yield settings, None
        return
    settings = playable(settings)
    with connected(cluster, say) as connection:
        described = connection.described
        if command == "parallel":
            settings = _pairs_fitting(settings, connection.room, described)
        else:
            settings = _fitting(settings, connection.room, described)
        connection.check(build_of(settings))
        actors = settings.async_trainer.actors
        say(f"{actors} actor{'s' if actors > 1 else ''} (execution: async) on {described}")
        yield settings, connection


@contextmanager
def connected(cluster: ClusterSettings, say: Callable[[str], None]) -> Iterator[Cluster]:
    """Connect to a cluster, or start a private one that ends with the context. Raises ClusterError."""
    if cluster.private:
        say(f"starting a private Ray cluster on this machine ({cluster.address})")
    else:
        say(f"connecting to the Ray cluster at {cluster.address}")
    from tau_trainer.cluster.connection import Cluster

    connection = Cluster(cluster)
    try:
        yield connection
    finally:
        connection.close()


def changed(settings: RunSettings, section: str, **values: object) -> RunSettings:
    """Settings with other values in one section."""
    return settings.model_copy(update={section: getattr(settings, section).model_copy(update=values)})


def playable(settings: RunSettings) -> RunSettings:
    """Settings with the absolute path of the build, because every node looks for it."""
    env, build = settings.env_settings, build_of(settings)
    if build is None:
        return settings
    kind = (env.env_path or "").removesuffix(build)
    return changed(settings, "env_settings", env_path=f"{kind}{Path(build).expanduser().absolute()}")


def build_of(settings: RunSettings) -> str | None:
    """The build to play; None if it is the editor, a Python environment or a scene of our own engine."""
    path = settings.env_settings.place or ""
    prefix, colon, _ = path.partition(":")
    named = colon and (prefix == "headless" or prefix in plugins.names("environments"))
    return None if named or not path else path.removeprefix(UNREAL_PREFIX)


def _fitting(settings: RunSettings, room: int, described: str) -> RunSettings:
    """Settings with as many actors as the nodes have room for, unless the user set a number.

    Raises ClusterError: too many.
    """
    chosen = settings.async_trainer
    spare = int(chosen.eval_interval > 0) + settings.devices - 1
    if "actors" not in chosen.model_fields_set and chosen.exploration is None:
        settings = changed(settings, "async_trainer", actors=max(1, min(room - spare, 1000)))
        chosen = settings.async_trainer
    evaluator = " and one that evaluates (eval_interval: 0 removes it)" if chosen.eval_interval else ""
    learn = f", {settings.devices - 1} that learn in addition to this one" if settings.devices > 1 else ""
    check_room(room, chosen.actors + spare, f"{chosen.actors} actors{evaluator}{learn}", f"{described}; lower --actors")
    return settings


def _pairs_fitting(settings: RunSettings, room: int, described: str) -> RunSettings:
    """Settings with pairs as actors; as many play at a time as the nodes have room for, unless the user set a number.

    The task evaluates policies, so no actor does. Raises ClusterError: too many.
    """
    if settings.async_trainer.mode == "lock_step":
        raise SettingsError("parallel does not run in lock_step on a cluster; remove async_trainer.mode, or use learn")
    task, tau = task_of(settings), settings.tau
    if task is None or tau is None:
        return settings  # without a task there are no pairs; the plan reports that
    settings = changed(settings, "async_trainer", actors=task.pairs, eval_interval=0, exploration=None)
    learn = settings.devices - 1  # in addition to this machine
    most = min(task.max_concurrent or max(1, room - learn), task.pairs)
    check_room(room, most + learn, f"{most} pairs at a time", f"{described}; lower --max-concurrent")
    settings = changed(settings, "env_settings", num_envs=1)  # num_envs was the number of pairs, or unset
    return changed(settings, "tau", max_concurrent=most)


def check_room(room: int, wanted: int, what: str, remedy: str) -> None:
    """Raises ClusterError if a cluster has no ``room`` for ``wanted`` processes."""
    if wanted > room:
        raise ClusterError(
            f"the cluster has room for {room} processes, but you ask for {what}: {remedy} or cluster.resources, or "
            "add nodes"
        )

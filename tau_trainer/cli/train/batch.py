"""``tau-train batch``: train the policies of an environment whose copies are tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tau_trainer.cli.options import RUN, BatchFlags, ClusterFlags, OutputFlags
from tau_trainer.cli.running import prepare, train
from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from tau_trainer.settings import BatchedSettings

Config = Annotated[str | None, Parameter(help="YAML file, or the name of a shipped one.")]


def batch(
    config: Config = None,
    /,
    *,
    run: BatchFlags = BatchFlags(),
    auto_scale: Annotated[
        bool, Parameter(help="First find the fastest numbers of copies and batch, as tau-train scale does.", group=RUN)
    ] = False,
    cluster: ClusterFlags = ClusterFlags(),
    output: OutputFlags = OutputFlags(),
) -> int:
    """Resolve the settings, train, and show the report; returns the exit code."""
    from tau_trainer.cli.resolving import batched_settings

    prepare(output)
    settings = batched_settings(config, run, cluster, output)
    if auto_scale:
        settings = _scaled(settings, output)
    return train("learn", settings, output)


def _scaled(settings: BatchedSettings, shown: OutputFlags) -> BatchedSettings:
    """With the sizes that are fastest here. Raises SettingsError where the run has its sizes already."""
    from tau_trainer.cli.train.scale import ScaleFlags, search, show
    from tau_trainer.search.sizes import resized

    if settings.checkpoint_settings.resume:
        raise SettingsError("--auto-scale is for a new run; one that is resumed goes on with the sizes that it has")
    silent = shown.quiet or shown.json
    found = search(settings, ScaleFlags(), silent=silent)
    if not silent:
        show(found)
    return resized(settings, found.sizes)

"""``tau-train batch``: train the policies of an environment whose copies are tensors on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tau_trainer.cli.options import RUN, BatchFlags, ClusterFlags, OutputFlags
from tau_trainer.cli.running import prepare, train
from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from tau_trainer.settings import RunSettings

Config = Annotated[str | None, Parameter(help="YAML file, or the name of a shipped one.")]


def batch(
    config: Config = None,
    /,
    *,
    run: BatchFlags = BatchFlags(),
    auto_scale: Annotated[
        bool, Parameter(help="First find the fastest num_envs and batch_size, as tau-train scale does.", group=RUN)
    ] = False,
    cluster: ClusterFlags = ClusterFlags(),
    output: OutputFlags = OutputFlags(),
) -> int:
    """Train the policies of an environment whose copies are tensors on one device.

    Acting, stepping and learning all stay on that device. The file names the environment and its policies;
    cartpole_batch is included as an example. All files of the run go to results/RUN-ID. Press Ctrl-C to save, evaluate
    and export.
    """
    from tau_trainer.cli.resolving import batched_settings

    prepare(output)
    settings = batched_settings(config, run, cluster, output)
    if auto_scale:
        settings = _scaled(settings, output)
    return train("learn", settings, output)


def _scaled(settings: RunSettings, shown: OutputFlags) -> RunSettings:
    """The settings with the fastest sizes for this machine. Raises SettingsError if the run is resumed."""
    from tau_trainer.cli.train.scale import ScaleFlags, search, show
    from tau_trainer.search.sizes import resized

    if settings.checkpoint_settings.resume:
        raise SettingsError("--auto-scale is for new runs; a resumed run keeps its sizes, so leave --auto-scale out")
    silent = shown.quiet or shown.json
    found = search(settings, ScaleFlags(), silent=silent)
    if not silent:
        show(found)
    return resized(settings, found.sizes)

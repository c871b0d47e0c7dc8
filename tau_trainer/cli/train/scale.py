"""``tau-train scale``: how many copies and how large a batch train fastest here, measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tau_trainer.cli.flags import flag_group, output_to, valued
from tau_trainer.cli.messages import show_json, show_lines, show_status
from tau_trainer.cli.options import SEARCH, BatchFlags, OutputFlags, Set
from tau_trainer.cli.progress import stoppable
from tau_trainer.cli.running import prepare, writable
from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from tau_trainer.search.probe import Prober
    from tau_trainer.search.scaling import Measure, Probe, Scaling
    from tau_trainer.search.sizes import Sizes
    from tau_trainer.settings import RunSettings

_BAR = 24
"""Signs of the chart's longest bar."""
_GIGA = 2**30


@flag_group(SEARCH)
class ScaleFlags:
    """Flags of the search for sizes."""

    first: Annotated[int, valued("Copies to start with. [default: 16]", "N")] = 16
    most: Annotated[int | None, valued("Maximum number of copies. [default: no limit]", "N")] = None
    gain: Annotated[float, valued("Minimum gain in speed of a doubling, as a share. [default: 0.1]", "SHARE")] = 0.1
    seconds: Annotated[float, valued("Seconds to measure each size. [default: 3]", "S")] = 3.0
    limit: Annotated[float, valued("Seconds after which a probe counts as too slow. [default: 120]", "S")] = 120.0
    device: Annotated[str | None, valued("Device for all computation. [default: the config's]", "DEVICE")] = None
    set: Set = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search."""

    curves: Mapping[str, Scaling]
    """For ``num_envs``, and for ``batch_size`` if there is one to choose."""
    sizes: Sizes
    """Sizes to write, by their place in the settings."""

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "sizes": {".".join(map(str, place)): size for place, size in self.sizes.items()},
            **{
                name: {"best": curve.best, "ended": curve.ended, "probes": [asdict(probe) for probe in curve.probes]}
                for name, curve in self.curves.items()
            },
        }


def scale(
    config: Annotated[str, Parameter(help="YAML file, or the name of a shipped one.")],
    /,
    *,
    flags: ScaleFlags = ScaleFlags(),
    to: Annotated[
        Path | None, output_to("Copy to write. [default: NAME-scaled.yaml, next to the file]"), Parameter(group=SEARCH)
    ] = None,
    overwrite: Annotated[bool, Parameter(name="--force", help="Overwrite the copy.", group=SEARCH)] = False,
    output: OutputFlags = OutputFlags(),
) -> int:
    """Find how many copies of a batched environment, and how large a batch, train fastest here.

    It doubles each size while that makes training faster, then bisects. Each size is tried in its own process, so
    running out of memory does no harm. Your file is not changed: the sizes are written to a copy. If you press Ctrl-C,
    the results so far are kept.
    """
    from tau_trainer.cli.resolving import batched_settings
    from tau_trainer.files import atomic_write_text
    from tau_trainer.settings import find_config
    from tau_trainer.settings.document import edited

    prepare(output)
    source = find_config(config)
    target = to or (source if Path(config).is_file() else Path(source.name)).with_name(f"{source.stem}-scaled.yaml")
    if target.resolve() == source.resolve():
        raise SettingsError(f"--output {target}: this is the config, which is never overwritten; choose another name")
    writable(target, overwrite)
    settings = batched_settings(config, BatchFlags(device=flags.device, set=flags.set), output)
    found = search(settings, flags, silent=output.quiet or output.json)
    text, kept = edited(source.read_text("utf-8-sig"), str(source), found.sizes)
    atomic_write_text(target, text)
    if output.json:
        show_json({**found.to_dict(), "file": str(target)})
    elif not output.quiet:
        show(found)
        comments = "with its comments" if kept else f"without comments, which could not be copied from {source}"
        show_lines([f"written: {target}, {comments}"])
    return 0


def search(settings: RunSettings, flags: ScaleFlags, *, silent: bool = False) -> Found:
    """Find the number of copies, then the batch size. Ctrl-C stops and keeps the results; a second one quits at once.

    Raises:
        SettingsError: a flag has an invalid value.
        TauError: no size runs at all.
    """
    from tau_trainer.search.probe import Prober
    from tau_trainer.search.scaling import scaled
    from tau_trainer.search.sizes import batch_range, resized, with_batch, with_copies
    from tau_trainer.settings import check_device

    numbers = {"first": float(flags.first), "gain": flags.gain, "seconds": flags.seconds, "limit": flags.limit}
    for name, number in numbers.items():
        if not 0.0 < number < float("inf"):
            raise SettingsError(f"--{name} {number:g}: must be a number above 0")
    if flags.most is not None and flags.most < flags.first:
        raise SettingsError(f"--most {flags.most} is below --first {flags.first}; raise it, or lower --first")
    check_device(settings)
    asked: list[Prober] = []

    def probing(name: str, sizes: Callable[[int], Sizes]) -> Measure:
        asked.append(Prober(settings, sizes, seconds=flags.seconds, limit_s=flags.limit))
        return asked[-1] if silent else _shown(name, asked[-1])

    def stopped() -> bool:
        return asked[-1].stopped

    copies = probing("num_envs", lambda size: with_copies(settings, size))
    with stoppable(lambda: asked[-1].stop(), "the results so far are kept"):
        curves = {"num_envs": scaled(copies, flags.first, gain=flags.gain, most=flags.most, stopped=stopped)}
        sizes = with_copies(settings, curves["num_envs"].best)
        settings = resized(settings, sizes)
        batches = batch_range(settings)
        if batches is not None and not stopped():
            first, most = batches
            batch = probing("batch_size", lambda size: with_batch(settings, size))
            curves["batch_size"] = scaled(batch, first, gain=flags.gain, most=most, stopped=stopped)
            sizes = sizes | with_batch(settings, curves["batch_size"].best)
    return Found(curves, sizes)


def _shown(name: str, measure: Measure) -> Measure:
    """``measure``, which also prints each size that it tries, and its result."""
    best = 0.0

    def shown(size: int) -> Probe:
        nonlocal best
        show_status(f"{name} {size:,}: trying")
        probe = measure(size)
        what = probe.text if probe.failure else f"{probe.rate:,.0f} decisions/s"
        if best and not probe.failure:
            what += f", {probe.rate / best:.2f} times the best so far"
        best = max(best, probe.rate)
        show_status(f"{name} {size:,}: {what}")
        return probe

    return shown


def show(found: Found) -> None:
    """Print each curve as a table with bars, and a sentence."""
    from tau_trainer.cli.train.find import show_table
    from tau_trainer.console import Console

    ascii_only = Console().options.ascii_only
    for name, curve in found.curves.items():
        most = max(probe.rate for probe in curve.probes)
        rows = []
        for probe in curve.curve:
            memory = "-" if probe.memory is None else f"{probe.memory / _GIGA:.2f}"
            bar = ("#" if ascii_only else "█") * round(_BAR * probe.rate / most)
            note = {"memory": "no memory", "time": "too slow", "ended": "crashed", "error": "failed", None: ""}
            last = "chosen" if probe.size == curve.best else note[probe.failure]
            rate = f"{probe.rate:,.0f}" if probe.failure is None else "-"
            rows.append((f"{probe.size:,}", rate, memory, bar.ljust(_BAR), last))
        show_table(((name, "decisions/s", "GiB", "", ""), rows))
        show_lines([f"{name} {curve.best:,} with {curve.rate:,.0f} decisions/s: {curve.ended}.", ""])

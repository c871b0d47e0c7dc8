"""``tau-train demo``: inspect recordings, and convert them to and from Minari data sets, and from Godot's plugin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

from tau_trainer.cli.messages import set_up_logging, show_json, show_lines, show_status
from tau_trainer.cli.options import Debug, Json, commands
from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tau_trainer.bridge.demonstrations import Demonstration

app = commands("demo")


@app.command(name="info")
def info_command(
    paths: Annotated[list[Path], Parameter(help="Recordings, or folders of them.")],
    /,
    *,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Show the content of recordings: behavior, sensors, actions, episodes and their returns.

    Reads files of Unity's recorder and of tau-train record completely, as learning does. Changes nothing.
    """
    set_up_logging(debug=debug)
    from tau_trainer.bridge.demonstrations import demonstration_files, read_demonstration

    found = [facts_of(path, read_demonstration(path)) for path in demonstration_files(paths)]
    if json:
        show_json({"recordings": found})
    else:
        show_lines(line for facts in found for line in lines_of(facts))
    return 0


@app.command(name="convert")
def convert_command(
    source: Annotated[
        str, Parameter(help="A .demo file, a folder of them, a .json file of Godot's plugin, or minari:NAME.")
    ],
    target: Annotated[str, Parameter(help="minari:NAME if SOURCE is a .demo; else a .demo file.")],
    /,
    *,
    actions: Annotated[
        str | None,
        Parameter(help="Actions of a Godot recording in order: 2,d3 = 2 continuous, 1 of 3. [default: continuous]"),
    ] = None,
    behavior: Annotated[str | None, Parameter(help="Policy of a Godot recording. [default: shared_policy]")] = None,
    debug: Debug = False,
) -> int:
    """Convert recordings to a Minari data set, or a data set or a recording of Godot's plugin to a recording.

    Minari keeps its data sets in MINARI_DATASETS_PATH, or ~/.minari/datasets. Nothing is overwritten.
    """
    set_up_logging(debug=debug)
    from tau_trainer.bridge.demonstrations import SUFFIX, read_demonstrations, write_demonstration
    from tau_trainer.bridge.godot import demos as godot_demos
    from tau_trainer.bridge.godot.spaces import SHARED
    from tau_trainer.evaluation.minari import PREFIX, MinariStore

    from_minari, to_minari = source.startswith(PREFIX), target.startswith(PREFIX)
    of_godot = source.endswith(godot_demos.SUFFIX) and not from_minari
    if not of_godot and from_minari == to_minari:
        raise SettingsError(f"one of '{source}' and '{target}' must be a Minari data set: {PREFIX}NAME")
    if not of_godot and (actions or behavior):
        raise SettingsError("--actions and --behavior describe a .json recording of Godot's plugin; leave them out")
    show_status(f"reading {source}")
    if to_minari and not of_godot:
        demonstration, name = read_demonstrations([source]), target.removeprefix(PREFIX)
        episodes = MinariStore().write(name, demonstration)
        show_lines(
            [f"written: {episodes:,} episodes of {demonstration.spec.short_name} to the Minari data set '{name}'"]
        )
        return 0
    path = Path(target)
    if path.suffix != SUFFIX:
        raise SettingsError(f"'{target}' is not a valid name for a recording; it must end in {SUFFIX}")
    if path.exists():
        raise SettingsError(f"the file '{target}' already exists; choose another name")
    if of_godot:
        kinds = godot_demos.read_kinds(actions) if actions else ()
        demonstration = godot_demos.read_godot_demonstration(Path(source), kinds, behavior or SHARED)
    else:
        demonstration = MinariStore().read(source.removeprefix(PREFIX))
    write_demonstration(path, demonstration)
    show_lines(lines_of(facts_of(path, demonstration)))
    return 0


def facts_of(path: Path, demonstration: Demonstration) -> dict[str, Any]:
    """The facts of a recording in JSON types. Only finished episodes count."""
    spec, decisions = demonstration.spec, ~demonstration.ended
    episode = np.cumsum(demonstration.begins) - 1
    lengths = np.bincount(episode, decisions)[episode[demonstration.ended]]  # [e]: decisions of each
    return {
        "path": str(path),
        "bytes": path.stat().st_size,
        "behavior": spec.short_name,
        "sensors": [
            {"name": sensor.name, "shape": list(sensor.shape), "dtype": np.dtype(sensor.dtype).name}
            for sensor in spec.observations
        ],
        "continuous_actions": spec.actions.continuous_size,
        "discrete_branches": list(spec.actions.discrete_branches),
        "decisions": int(decisions.sum()),
        "masked": demonstration.mask is not None,
        "episodes": len(lengths),
        "cut_by_a_limit": int(demonstration.truncated.sum()),
        "without_end": int(demonstration.begins.sum()) - len(lengths),
        "returns": _spread(demonstration.returns),
        "lengths": _spread(lengths),
    }


def lines_of(facts: dict[str, Any]) -> list[str]:
    """The facts as lines of text."""
    branches = facts["discrete_branches"]
    actions = [f"{facts['continuous_actions']} continuous"] if facts["continuous_actions"] else []
    actions += [f"branches of {', '.join(map(str, branches))}"] if branches else []
    actions += ["some were forbidden"] if facts["masked"] else []
    sensors = [f"{sensor['name']} {sensor['dtype']} {sensor['shape']}" for sensor in facts["sensors"]]
    episodes = f"{facts['episodes']:,}"
    for key in ("cut_by_a_limit", "without_end"):
        if facts[key]:
            episodes += f", {facts[key]:,} {key.replace('_', ' ')}"
    spreads = [(name, spread) for name in ("returns", "lengths") if (spread := facts[name])]
    return [
        f"{facts['path']} ({facts['bytes'] / 1e6:,.2f} MB): {facts['behavior']}",
        f"  sensors    {'; '.join(sensors)}",
        f"  actions    {'; '.join(actions)}",
        f"  decisions  {facts['decisions']:,}",
        f"  episodes   {episodes}",
        *(f"  {name:<9}  mean {of['mean']:,.4g}, {of['least']:,.4g} to {of['most']:,.4g}" for name, of in spreads),
    ]


def _spread(values: NDArray[Any]) -> dict[str, float] | None:
    if not len(values):
        return None
    return {"mean": float(values.mean()), "least": float(values.min()), "most": float(values.max())}

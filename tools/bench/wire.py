"""Floors of the wire: exchanges a second with nothing but the engine, gRPC and our codec. No learning, no inference.

    python -m tools.bench wire [--engines 1 --agents 12 64 256 --runs 3 --seconds 5] [--mlagents-envs]

Columns: the scene stepped in this process without any wire; `bare`, replies of constant bytes from our server, which
is what gRPC in Python allows; `bridge`, messages read to arrays and actions written from arrays; processor time of the
trainer's side for each exchange of the bridge; `API`, one script on `UnityEnvironment` (`step`, `get_steps`,
`set_actions`); with `--mlagents-envs` the same script on the real one, in an environment of its own, and the ratio.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tau_trainer.headless.args import HeadlessOptions
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import create_scene
from tau_trainer.specs import Actions
from tools.bench import running, tables, trainers
from tools.peers import MLAGENTS_ENVS, ensure_peer

WARM_UP = 1.0
LOOPS = ("bare", "bridge", "API")
INCUMBENT = "mlagents-envs"
THEIRS = "mlagents-envs 1.1.0, messages read in Python, exchanges/s"
"""Protobuf in C++, which it has on Python 3.10, reads them faster."""


@dataclass(frozen=True, slots=True)
class Floor:
    """One run of one loop."""

    loop: str
    """Name of the loop: `bare`, `bridge`, `API` or `mlagents-envs`."""
    agents: int
    exchanges: float
    """Exchanges a second, all engines together."""
    cpu_ms: float
    """Processor milliseconds of the trainer's process for each exchange, launching and shaking hands included."""


def main() -> int:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", type=int, default=1)
    parser.add_argument("--agents", type=int, nargs="+", default=[12, 64, 256])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--mlagents-envs", action="store_true", help="measure the incumbent's API too")
    tables.add_output(parser)
    arguments = parser.parse_args()
    loops = [*LOOPS, *([INCUMBENT] if arguments.mlagents_envs else [])]
    floors = [
        measure(loop, arguments.engines, agents, arguments.seconds)
        for agents in arguments.agents
        for _ in range(arguments.runs)
        for loop in loops
    ]
    scenes = {agents: scene_rate(agents) for agents in arguments.agents}
    text = table(arguments.agents, floors, scenes)
    print(text)
    results = {"engines": arguments.engines, "scene": scenes, "floors": [asdict(floor) for floor in floors]}
    tables.write(arguments, "wire", text, results)
    return 0


def measure(loop: str, engines: int, agents: int, seconds: float) -> Floor:
    """One run of one loop in a process of its own, counted by the engines."""
    with tempfile.TemporaryDirectory(prefix="tau-wire-") as name:
        folder = Path(name)
        build = running.reporting_build(folder, "balance", ["--agents", str(agents)])
        played = running.play(commands(loop, build, engines, folder), folder, engines, seconds + WARM_UP)
        cpu = (folder / "program-0.log").read_text(encoding="utf-8").split() if loop in ("bare", "bridge") else []
        end = min(played.timeline.end(), played.ended)
        rate = played.timeline.rate(played.ready + WARM_UP, end, "exchanges")
        total = played.timeline.total(math.inf, "exchanges")
    return Floor(loop, agents, rate, 1000.0 * float(cpu[-1]) / total if cpu and total else math.nan)


def commands(loop: str, build: Path, engines: int, folder: Path) -> list[list[str]]:
    """The programs of a loop. Scripts on the API drive one engine each."""
    port = running.free_ports(engines)
    if loop in ("bare", "bridge"):
        program = [sys.executable, str(trainers.HERE / "drive_ours.py"), str(build), str(engines), str(port), "1"]
        return [program + (["bare"] if loop == "bare" else [])]
    python, script = sys.executable, trainers.HERE / "drive_mlagents.py"
    if loop == INCUMBENT:
        python = str(ensure_peer(MLAGENTS_ENVS))
    else:
        own = script.read_text(encoding="utf-8").replace("mlagents_envs.", "tau_trainer.envs.mlagents.")
        script = folder / "drive_api.py"
        script.write_text(own, encoding="utf-8")
    return [[python, str(script), str(build), str(worker), str(port), "1"] for worker in range(engines)]


def scene_rate(agents: int, seconds: float = 1.0) -> float:
    """Steps a second of the scene object alone."""
    parameters = EnvironmentParameters()
    scene = create_scene(HeadlessOptions(scene="balance", agents=agents), parameters)
    scene.reset(parameters)
    actions = {spec.name: Actions.zeros(spec.actions, agents) for spec in scene.specs}
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        scene.step(actions)
        steps += 1
    return steps / (time.perf_counter() - began)


def table(agents: list[int], floors: list[Floor], scenes: dict[int, float]) -> str:
    """Markdown, medians."""

    def of(loop: str, count: int) -> list[Floor]:
        return [floor for floor in floors if (floor.loop, floor.agents) == (loop, count)]

    def against(ours: list[Floor], theirs: list[Floor]) -> list[str]:
        ratio = tables.ratio([floor.exchanges for floor in ours], [floor.exchanges for floor in theirs])
        return [tables.spread([floor.exchanges for floor in theirs]), ratio]

    compared = any(floor.loop == INCUMBENT for floor in floors)
    rows = [
        [
            str(count),
            tables.number(scenes[count]),
            tables.spread([floor.exchanges for floor in of("bare", count)]),
            tables.spread([floor.exchanges for floor in of("bridge", count)]),
            tables.number(tables.median(floor.cpu_ms for floor in of("bridge", count)), 2),
            tables.spread([floor.exchanges for floor in of("API", count)]),
            *(against(of("API", count), of(INCUMBENT, count)) if compared else []),
        ]
        for count in agents
    ]
    header = ["agents", "scene alone, steps/s", "bare, exchanges/s", "bridge, exchanges/s", "bridge, CPU ms/exchange"]
    header += ["API, exchanges/s", *([THEIRS, "API, ratio"] if compared else [])]
    return tables.markdown(header, rows)

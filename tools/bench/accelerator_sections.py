"""The sections of `accelerator.py`, each in its own process: the measurements and their sizes.

    python -m tools.bench.accelerator_sections NAME '{"device": "cpu", "seconds": 0.5, "limit_s": 60}'

Each prints its rows as JSON, one per line. Pairs of sizes are for a GPU and a CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.autograd import profiler
from torch.utils._pytree import tree_flatten, tree_map

from tau_trainer import load_batched
from tau_trainer.algorithms import Setup
from tau_trainer.algorithms.autograd import AutogradEpochs
from tau_trainer.algorithms.batched import ActorInput, TensorActor
from tau_trainer.algorithms.batched.population import Population
from tau_trainer.envs.batched import BatchedEnv, registry
from tau_trainer.memory import TensorRollout
from tau_trainer.search.probe import Prober
from tau_trainer.search.sizes import with_copies
from tau_trainer.settings import NetworkSettings
from tau_trainer.settings.trainers import PPOTrainerSettings, TrainerSettings, trainer_type
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.training.batched import compiling
from tools.bench import batched, learner, tables, trainers
from tools.bench.accelerator import Plan, Row
from tools.bench.by_torch import PPOByTorch

WARPDRIVE = 2.9e6
"""Environment steps a second that WarpDrive publishes for Tag: 2,000 copies of 1,000 agents, one A100 (its paper)."""
STEPS, DECISIONS, MEGABYTES = "environment steps/s", "agent steps/s", "MB"
WAITING = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique", "Synchronize")
"""Parts of the names of operations, and of CUDA's calls, that wait for a device."""
_TRACED = "rollout"


@dataclass(frozen=True, slots=True)
class Task:
    """The measurement for one row."""

    what: str
    units: tuple[str, ...]
    measure: Callable[[], tuple[float, ...]]
    note: str = ""


def rows(name: str, tasks: Iterable[Task | Row], plan: Plan) -> Iterator[Row]:
    """Run the measurements in turn; if one fails, its row says so, and the others continue."""
    for task in tasks:
        if isinstance(task, Row):
            yield task
        elif plan.over:
            yield Row(name, task.what, note="left out: the time was over")
        else:
            try:
                values = task.measure()
            except Exception as error:  # for any error, the others continue
                # The first line says what failed, the last one of a log why.
                lines = [" ".join(line.split())[:160] for line in str(error).splitlines() if line.strip()]
                text = " ... ".join(dict.fromkeys([*lines[:1], *lines[-1:]]))
                yield Row(name, task.what, note=f"failed: {type(error).__name__}: {text}")
            else:
                yield Row(name, task.what, tuple(values), task.units, task.note)


def algorithms(plan: Plan) -> Iterator[Task | Row]:
    """PPO, A2C and DQN, in three ways each."""
    cell = batched.Cell("cartpole", 256 if plan.small else 10_000)
    ways = {"as it is": nothing, "compiled": compiled, "stepping and acting as CUDA graphs": graphed}
    for kind in ("a2c", "ppo", "dqn"):
        play = batched.Play(partial(settings_of, kind))
        for way, change in ways.items():
            what = f"{kind}, {cell.copies:,} copies, {way}"
            if plan.small and change is not nothing:
                reason = "compiling takes a minute on a CPU" if change is compiled else "CUDA graphs need a GPU"
                yield Row("algorithms", what, note=f"left out: {reason}")
            elif kind == "dqn" and change is not nothing:
                yield Task(what, (STEPS,), _rate(cell, plan, replace(play, change=change)), "its acting stays as it is")
            else:
                yield Task(what, (STEPS,), _rate(cell, plan, replace(play, change=change)))


def settings_of(kind: str, cell: batched.Cell) -> TrainerSettings:
    """PPO in four epochs of eight minibatches, A2C in one step, DQN by its own numbers."""
    if kind == "a2c":
        return batched.a2c(cell)
    rows = batched.HORIZON * cell.copies * cell.agents
    numbers = {"buffer_size": rows, "batch_size": rows // 8, "num_epoch": 4} if kind == "ppo" else {}
    shape = {"hidden_units": batched.HIDDEN[cell.name], "num_layers": batched.LAYERS_OF_NETWORK}
    return (
        trainer_type(kind).settings.model_validate({"hyperparameters": numbers, "network_settings": shape}).on_tensors()
    )


def _rate(cell: batched.Cell, plan: Plan, play: batched.Play) -> Callable[[], tuple[float, ...]]:
    return lambda: (batched.measured(cell, "learning", plan.seconds, plan.device, play=play),)


def nothing(env: BatchedEnv, actor: TensorActor) -> None:
    """Change nothing."""


def compiled(env: BatchedEnv, actor: TensorActor) -> None:
    """Same as `--compile on`. Raises RuntimeError if it fails."""
    done, text = compiling.choose("on", env, [(actor, range(env.num_agents))], 1)
    if not done:
        raise RuntimeError(text)


def graphed(env: BatchedEnv, actor: TensorActor) -> None:
    """The same two functions as `--compile on`, recorded instead of compiled."""
    with mock.patch.object(torch, "compile", lambda function, **options: Graphed(function)):
        compiled(env, actor)


class Graphed:
    """A function as a CUDA graph: recorded at the first call, with fixed shapes. It returns copies."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._graph: torch.cuda.CUDAGraph | None = None
        self._given: Any = None
        self._out: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Replay the graph with these arguments."""
        if self._graph is None:
            self._record(arguments)
        assert self._graph is not None
        for mine, given in zip(_tensors(self._given), _tensors(arguments), strict=True):
            mine.copy_(given)
        self._graph.replay()
        return _copied(self._out)

    def _record(self, arguments: Any) -> None:
        self._given = _copied(arguments)
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # objects made at the first call must not be recorded
            for _ in range(3):
                self._function(*self._given)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._out = self._function(*self._given)
        self._graph = graph


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _copied(tree: Any) -> Any:
    return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, tree)


def tag(plan: Plan) -> Iterator[Task | Row]:
    """Both games alone and with A2C, compared with WarpDrive's published figures."""
    copies = 100 if plan.small else 2000
    cells = [batched.Cell("tag_gridworld", copies, 4, 1), batched.Cell("tag_continuous", copies, 1, 4)]
    cells += [batched.Cell("tag_continuous", copies // 10 if plan.small else copies, 10, 90)]
    tasks = [(cell, layer) for cell in cells for layer in ("env", "learning")]
    whole = batched.Cell("tag_continuous", 2000, 100, 900)
    if not plan.small:
        tasks.append((whole, "env"))
    for cell, layer in tasks:
        yield Task(
            _named(cell, layer), (STEPS, DECISIONS, "of WarpDrive's environment steps/s"), _tag(cell, layer, plan)
        )
    if plan.small:
        yield Row("tag", _named(whole, "env"), note="left out: WarpDrive's own size is beyond a CPU")


def _named(cell: batched.Cell, layer: str) -> str:
    playing = "with A2C" if layer == "learning" else "alone"
    return f"{cell.name}, {cell.copies:,} copies of {cell.agents:,}, {playing}"


def _tag(cell: batched.Cell, layer: str, plan: Plan) -> Callable[[], tuple[float, ...]]:
    def measure() -> tuple[float, ...]:
        rate = batched.measured(cell, layer, plan.seconds, plan.device)
        return rate, rate * cell.agents, rate / WARPDRIVE

    return measure


def populations(plan: Plan) -> Iterator[Task | Row]:
    """Members that act and learn at once; observations and rewards are random."""
    for count in (1, 8) if plan.small else (1, 16, 64, 256):
        what = f"policies: {count}, with 32 copies each, 64 steps a rollout"
        yield Task(what, ("decisions/s", "updates/s of each"), partial(_population, count, plan))


def _population(count: int, plan: Plan) -> tuple[float, ...]:
    copies, steps, size, actions = 32, 64, 32, 3
    spec = BehaviorSpec("P", (ObservationSpec("o", (size,)),), ActionSpec(actions))
    asked = {"buffer_size": copies * steps, "batch_size": 256, "num_epoch": 3, "updates_per_buffer": 1}
    settings = PPOTrainerSettings.model_validate(
        {"trainer_type": "ppo", "hyperparameters": asked, "network_settings": {"hidden_units": 64}}
    )
    members = [PPOByTorch(Setup(spec, settings, seed, device=plan.device)) for seed in range(count)]
    threads = (os.cpu_count() or 1) if plan.small else 1
    population = Population(members, copies, threads)
    shape = steps, count * copies, 1
    observations = torch.randn(*shape, size, device=plan.device)
    never = torch.zeros(shape, dtype=torch.bool, device=plan.device)

    def step() -> None:
        acted = [population.act(ActorInput(each)) for each in observations]
        rollout = TensorRollout(
            observations=observations,
            actions=torch.stack([each.actions for each in acted]),
            mask=None,
            rewards=torch.randn(*shape, 1, device=plan.device),
            terminated=never,
            truncated=never,
            present=~never,
            final=observations,
            after=observations[0],
            after_mask=None,
            kept={name: torch.stack([each.kept[name] for each in acted]) for name in acted[0].kept},
        )
        population.learn(rollout, 0.0)

    updates = _timed(step, plan)
    return updates * steps * count * copies, updates


def _timed(step: Callable[[], object], plan: Plan) -> float:
    """Calls per second, after one that is not counted."""
    step()
    _wait(plan)
    calls, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < plan.seconds:
        step()
        _wait(plan)
        calls += 1
    return calls / spent


def _wait(plan: Plan) -> None:
    if plan.device.startswith("cuda"):
        torch.cuda.synchronize()


def images(plan: Plan) -> Iterator[Task | Row]:
    """PPO's minibatches of images, by each encoder."""
    batch = 2 if plan.small else 512
    for encoder in ("fully_connected", "match3", "simple", "nature_cnn", "resnet"):
        what = f"{encoder}, minibatches of {batch}"
        if plan.small and encoder == "match3":
            yield Row("images", what, note="left out: made for small boards, it takes minutes of a CPU here")
            continue
        yield Task(what, ("ms a minibatch", "images/s"), partial(_images, encoder, batch, plan.device))


def _images(encoder: str, batch: int, device: str) -> tuple[float, ...]:
    spec = BehaviorSpec("I", (ObservationSpec("camera", (3, 84, 84)),), ActionSpec(2))
    settings = NetworkSettings.model_validate({"vis_encode_type": encoder})
    samples = learner.random_samples(learner.Shape(1, 0, 0, 2, batch), device)
    count = len(samples.returns)
    pixels = torch.randint(0, 256, (count, 3, 84, 84), dtype=torch.uint8, device=device)
    vectors = torch.zeros(count, 0, device=device)  # no vector observations, but they come first
    path = learner.learning(spec, settings, samples._replace(inputs=[vectors, pixels]), AutogradEpochs, batch)
    times = learner.time_paths({encoder: path}, 1 if device == "cpu" else 3, device)[encoder]
    milliseconds = tables.median(times)
    return milliseconds, 1e3 * batch / milliseconds


def learners(plan: Plan) -> Iterator[Task | Row]:
    """PPO's minibatches of vectors, and `tau-train learn` with an engine that costs nothing."""
    for shape in learner.SHAPES[:1] if plan.small else learner.SHAPES:
        for device in dict.fromkeys((plan.device, "cpu")):
            for name in ("by torch's differentiation", "by hand"):
                what = f"{shape.label}, {name}, on {device}"
                yield Task(what, ("ms a minibatch",), partial(_minibatch, shape, name, device))
    if plan.small:
        yield Row("learner", learner.SHAPES[1].label, note="left out: a second each round on a CPU")
    seconds = max(1.0, 2 * plan.seconds)
    for agents in (12,) if plan.small else (12, 256):
        for device in dict.fromkeys((plan.device, "cpu")):
            what = f"`tau-train learn`, {agents} agents, `--torch-device {device}`"
            yield Task(what, ("decisions/s", MEGABYTES), partial(_run, agents, device, seconds))


def _minibatch(shape: learner.Shape, name: str, device: str) -> tuple[float, ...]:
    return (tables.median(learner.time_paths({name: learner.ours(shape, device)[name]}, 5, device)[name]),)


def _run(agents: int, device: str, seconds: float) -> tuple[float, ...]:
    found = learner.measure(learner.Cell(agents, "thread", "compiled"), seconds, "--torch-device", device)
    return found.decisions_per_second, found.megabytes


def devices(plan: Plan) -> Iterator[Task | Row]:
    """The same run by one process and by several."""
    gpus = torch.cuda.device_count()
    how = "gloo" if plan.small else "NCCL"
    if plan.small or gpus < 2:
        have = "no GPU" if not gpus else "one GPU"
        yield Row("devices", "NCCL", note=f"left out: needs two GPUs, and there is {have}")
    for count in (1, 2) if plan.small else [n for n in (1, 2, 4, 8) if n <= gpus]:
        copies, decisions = (256, 40_000) if plan.small else (16_384, 100_000_000)
        note = f"{how}; the processes share the cores" if plan.small and count > 1 else how if count > 1 else ""
        what = f"CartPole, {copies:,} copies, `--devices {count}`"
        yield Task(what, ("decisions/s",), partial(_devices, count, copies, decisions, plan), note)


def _devices(count: int, copies: int, decisions: int, plan: Plan) -> tuple[float, ...]:
    rows = batched.HORIZON * copies
    values = {
        "behaviors.agent.hyperparameters.buffer_size": rows,
        "behaviors.agent.hyperparameters.batch_size": rows // 8,
        "behaviors.agent.summary_freq": rows,
        "evaluation.episodes": 0,
    }
    with tempfile.TemporaryDirectory(prefix="tau-devices-") as folder:
        words = [trainers.Ours().tau_train(), "batch", "cartpole_batch", "--quiet", "--results-dir", folder]
        words += ["--run-id", "run", "--num-envs", str(copies), "--max-steps", str(decisions), "--seed", "1"]
        words += ["--device", plan.device.partition(":")[0], "--devices", str(count), "--compile", "off"]
        words += [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=plan.limit_s)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
        return (summaries_rate((Path(folder) / "run" / "log.jsonl").read_text("utf-8")),)


def summaries_rate(log: str) -> float:
    """Decisions a second from the first summary of a run's log to its last: start and end are left out."""
    lines = [json.loads(text) for text in log.splitlines()]
    found = [(told["step"], told["elapsed"]) for told in lines if told["type"] == "summary"]
    if len(found) < 2:
        raise RuntimeError("the run was over before its second summary")
    (first, begun), (last, ended) = found[0], found[-1]
    return float((last - first) / (ended - begun))


def profile(plan: Plan) -> Iterator[Task | Row]:
    """Rollouts of every game, traced."""
    cells = [batched.Cell("cartpole", 64), batched.Cell("tag_gridworld", 64, 4, 1)]
    cells += [batched.Cell("tag_continuous", 64, 2, 8)]
    note = "the CPU's own path, which looks at who has left: it costs nothing there, and says nothing of a GPU"
    for cell in cells:
        what = f"{cell.name}, {batched.HORIZON} steps of {cell.copies} copies"
        yield Task(what, ("waits for the device",), partial(_waits, cell, plan.device), note if plan.small else "")


def _waits(cell: batched.Cell, device: str) -> tuple[float, ...]:
    return (float(sum(waits(cell, device).values())),)


def waits(cell: batched.Cell, device: str, steps: int = batched.HORIZON) -> Counter[str]:
    """What waits for the device while a rollout is collected, by name: as traced, and on CUDA as torch warns."""
    env = registry.make(cell.name, cell.copies, device=device, **cell.arguments)
    _, collector = batched.seated(env, cell)
    collector.collect(steps)
    cuda = device.startswith("cuda")
    if cuda:
        torch.cuda.synchronize()
    # The base of torch.profiler, which would import torch's compiler.
    with profiler.profile(use_device="cuda" if cuda else None) as trace, profiler.record_function(_TRACED):
        collector.collect(steps)
    events = trace.function_events or []
    whole = next(event.time_range for event in events if event.name == _TRACED)
    # The tracer also waits for the device, after the rollout.
    within = [event.name for event in events if whole.start <= event.time_range.start <= whole.end]
    found = Counter(name for name in within if any(part in name for part in WAITING))
    if cuda:
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                collector.collect(steps)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        found["torch's warnings"] = sum("synchronizing" in str(each.message) for each in warned)
    return found


def memory(plan: Plan) -> Iterator[Task | Row]:
    """Each size in its own process."""
    where = "of the process, torch among it" if plan.small else "of the device"
    for copies in (256, 4096) if plan.small else (1024, 16_384, 131_072):
        what = f"PPO, {copies:,} copies"
        yield Task(what, (f"{MEGABYTES} {where}", "decisions/s"), partial(_memory, copies, plan))


def _memory(copies: int, plan: Plan) -> tuple[float, ...]:
    settings = load_batched("cartpole_batch", {"torch_settings.device": plan.device, "env_settings.seed": 1})
    found = Prober(settings, lambda size: with_copies(settings, size), seconds=plan.seconds, limit_s=60.0)(copies)
    if found.failure is not None:
        raise RuntimeError(f"{found.failure}: {found.text}")
    return (found.memory or 0) / 1e6, found.rate


SECTIONS: Mapping[str, Callable[[Plan], Iterator[Task | Row]]] = {
    "algorithms": algorithms,
    "tag": tag,
    "populations": populations,
    "images": images,
    "learner": learners,
    "devices": devices,
    "profile": profile,
    "memory": memory,
}


def main(name: str, told: str) -> None:
    """Print a section's rows as they come."""
    plan = Plan(**json.loads(told))
    torch.set_num_threads(1)  # as in every run
    torch.manual_seed(0)
    for row in rows(name, SECTIONS[name](plan), plan):
        print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

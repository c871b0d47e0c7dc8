"""One size of a batched run, tried in a separate process.

It measures real training: playing and learning, after every policy has learned once. A probe may use up all memory,
crash, or hang: this is its result, and it affects nothing else.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tau_trainer.errors import TauError, is_out_of_memory, sentence_of
from tau_trainer.metrics.usage import peak_memory
from tau_trainer.remote.job import Job
from tau_trainer.remote.process import Parent, Target
from tau_trainer.search.scaling import Probe
from tau_trainer.search.sizes import resized
from tau_trainer.search.stopping import Stoppable
from tau_trainer.settings import RunSettings
from tau_trainer.settings.document import Location

_EVER = 10**15
"""Decisions that no probe reaches: a probe whose policies had finished would wait forever for their next update."""
_FULL = 0.9
"""Share of the free memory that a probe may use: beyond it, the system may kill any process."""


class Prober(Stoppable):
    """Tries sizes, one after another.

    Args:
        settings: settings of the run.
        sizes: returns settings by place, for a size.
        seconds: seconds to measure.
        limit_s: maximum seconds of a probe, from its start.
    """

    def __init__(
        self,
        settings: RunSettings,
        sizes: Callable[[int], Mapping[Location, int]],
        *,
        seconds: float = 3.0,
        limit_s: float = 120.0,
    ) -> None:
        self._settings, self._sizes = settings, sizes
        self._seconds, self._limit_s = seconds, limit_s

    def __call__(self, size: int) -> Probe:
        """Try a size. Raises nothing: errors become the probe's failure."""
        try:
            sizes = dict(self._sizes(size))
            sizes |= {("behaviors", name, "max_steps"): _EVER for name in self._settings.behaviors}
            asked = {
                "settings": resized(self._settings, sizes).model_dump(mode="json"),
                "seconds": self._seconds,
            }
            preload = ["tau_trainer.training.batched.run"]
            target = Target(__name__, asked, "its process", ProbeEndedError, several=True, preload=preload)
            job = self.running(Job(target, limit_s=self._limit_s))
            answer = job.run(lambda progress: None)
        except TimeoutError:
            return Probe(size, failure="time", text=f"it was not finished after {self._limit_s:g} s")
        except ProbeEndedError as error:
            code = None if job.process is None else job.process.exit_code
            if sys.platform != "win32" and code == -signal.SIGKILL and not self.stopped:
                return Probe(size, failure="memory", text="it was killed, probably because memory was short")
            return Probe(size, failure="ended", text=str(error))
        except (TauError, ValueError) as error:
            return Probe(size, failure="error", text=str(error))
        if "full" in answer:
            return Probe(size, failure="memory", text=answer["full"])
        return Probe(size, answer["rate"], answer["memory"])


class ProbeEndedError(TauError):
    """The process of a probe has ended without an answer."""


def work(parent: Parent) -> None:
    """Main function of the process."""
    parent.listen()
    settings = RunSettings.model_validate(parent.arguments["settings"])
    _be_careful(settings.device)
    try:
        answer = _speed(settings, parent.arguments["seconds"])
    except Exception as error:
        full = _memory_error(error)
        if full is None:
            raise TauError(sentence_of(error)) from error
        answer = {"full": f"{type(full).__name__}: {str(full).strip().partition(chr(10))[0]}"}
    parent.say("answer", answer)


def _memory_error(error: BaseException) -> BaseException | None:
    """The out-of-memory error: ``error``, or an error that caused it; None if there is none."""
    inner: BaseException | None = error
    while inner is not None:
        if is_out_of_memory(inner):
            return inner
        inner = inner.__cause__
    return None


def _be_careful(device: str) -> None:
    """Let the system kill this process first if memory is short; on the CPU, limit memory so that it fails earlier."""
    if sys.platform != "linux":
        return
    import resource

    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if device != "cpu":  # a GPU's driver maps far more than it uses
        return
    sizes = dict(
        line.split(":", 1)
        for name in ("self/status", "meminfo")
        for line in Path("/proc", name).read_text().splitlines()
    )
    have, free = (int(sizes[name].split()[0]) * 1024 for name in ("VmData", "MemAvailable"))
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = have + int(_FULL * free)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if most < 0 else min(limit, most), most))


def _speed(settings: RunSettings, seconds: float) -> dict[str, Any]:
    """Decisions per second of a running run, and its memory in bytes."""
    import torch

    from tau_trainer.metrics import MetricsHub
    from tau_trainer.runs.folder import RunFolder
    from tau_trainer.runs.run import Run
    from tau_trainer.training.batched.run import CopiesCollector

    torch.set_num_threads(1)  # as in every run
    settings = settings.having(compile="off" if settings.compile == "auto" else settings.compile)
    device = torch.device(settings.device)

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    with tempfile.TemporaryDirectory(prefix="tau-probe-") as place, MetricsHub() as hub:
        run = Run(RunFolder(Path(place)), hub, settings.seed)
        copies = CopiesCollector(settings, run)
        run.collect_by(copies)
        learns = copies.playing.learning
        while not all(entry.learner.version for entry in learns):
            copies.advance()
        wait()
        begun, before = time.perf_counter(), copies.steps
        goal = [entry.learner.version + 1 for entry in learns]
        while time.perf_counter() - begun < seconds or any(
            entry.learner.version < least for entry, least in zip(learns, goal, strict=True)
        ):
            copies.advance()
        wait()
        rate = (copies.steps - before) / (time.perf_counter() - begun)
    return {"rate": rate, "memory": _memory(device)}


def _memory(device: Any) -> int | None:
    """Peak memory in bytes; None if unknown."""
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return peak_memory()

"""A trial in a process of its own: ``python -m tau_trainer.search.elsewhere``, one JSON object a line each way.

It gets its settings on standard input and tells on standard output how it goes and what came of it. Any further line,
or the end of the input (the searcher is gone), stops it. It is in a session of its own, so that Ctrl-C at the terminal
reaches the searcher alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import IO, Any

from tau_trainer.bridge.ports import is_free
from tau_trainer.bridge.protocol import BASE_PORT
from tau_trainer.errors import TauError
from tau_trainer.search.trial import Outcome, Trial
from tau_trainer.settings import RunSettings

_TELL_S = 1.0
"""How often it tells how it goes."""
_HIGHEST_PORT = 65535


class Places:
    """Ports for as many trials at a time as there are jobs, so that no two look for the same."""

    def __init__(self, candidates: Sequence[RunSettings], jobs: int) -> None:
        """Raises TauError where there are not enough free ports."""
        count = max(one.env_settings.num_envs for one in candidates)
        given = [one.env_settings.base_port for one in candidates if one.env_settings.base_port is not None]
        port = max([BASE_PORT, *given])
        self._free = queue.SimpleQueue[int]()
        for _ in range(jobs):
            while port + count - 1 <= _HIGHEST_PORT and not all(is_free(port + i) for i in range(count)):
                port += 1
            if port + count - 1 > _HIGHEST_PORT:
                raise TauError(f"there are not {jobs} times {count} free ports; lower --jobs or --num-envs")
            self._free.put(port)
            port += count

    @contextlib.contextmanager
    def take(self) -> Iterator[int]:
        """The first of the ports for one trial, until it ends."""
        port = self._free.get()
        try:
            yield port
        finally:
            self._free.put(port)


class Elsewhere:
    """What :class:`~tau_trainer.search.trial.Trial` is, in another process."""

    def __init__(
        self, settings: RunSettings, decisions: int, base_port: int, told: Callable[[Outcome], None] | None = None
    ) -> None:
        self.outcome = Outcome()
        env = settings.env_settings.model_copy(update={"base_port": base_port})
        self._asked = {
            "settings": settings.model_copy(update={"env_settings": env}).model_dump(mode="json"),
            "decisions": decisions,
        }
        self._told = told or (lambda outcome: None)
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._input: IO[bytes] | None = None
        self._stopped = False

    def stop(self) -> None:
        """End it soon. Call from any thread, before it runs too."""
        with self._lock:
            self._stopped = True
            if self._input is not None:
                with contextlib.suppress(OSError, ValueError):
                    self._input.close()

    def run(self) -> Outcome:
        """Wait for its end. Raises TauError: it could not be tried, or its process has ended without a word."""
        with tempfile.TemporaryFile() as errors:
            process = self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tau_trainer.search.elsewhere"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                **_alone(),
            )
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                self._ask(process.stdin)
                answer = self._listen(process.stdout)
            finally:
                self.stop()
                process.stdout.close()
                code = process.wait()
            if answer is None:
                errors.seek(0)
                last = errors.read().decode("utf-8", "replace").splitlines()[-1:]
                raise TauError(f"the process of a trial ended with exit code {code}: {''.join(last) or 'no word'}")
        if "error" in answer:
            raise TauError(answer["error"])
        self.outcome = _outcome(answer["outcome"])
        return self.outcome

    def _ask(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError):  # it ended at once; what it said is told
            stream.write(json.dumps(self._asked).encode() + b"\n")
            stream.flush()
        with self._lock:
            self._input = stream
        if self._stopped:
            self.stop()

    def _listen(self, stream: IO[bytes]) -> dict[str, Any] | None:
        """The last word; None where there is none."""
        for line in stream:
            told: dict[str, Any] = json.loads(line)
            if "progress" not in told:
                return told
            self.outcome = _outcome(told["progress"])
            self._told(self.outcome)
        return None


def _alone() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _outcome(told: dict[str, Any]) -> Outcome:
    rewards, losses = ([(int(at), float(value)) for at, value in told[name]] for name in ("rewards", "losses"))
    return Outcome(rewards, losses, told["decisions"], told["ending"])


def main() -> None:
    """Try what is asked for on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sink = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints must not end up between two lines
    sys.stdout = sys.stderr
    asked = json.loads(sys.stdin.buffer.readline())
    lock = threading.Lock()

    def say(**told: Any) -> None:
        with lock, contextlib.suppress(OSError):
            sink.write(json.dumps(told) + "\n")
            sink.flush()

    try:
        trial = Trial(RunSettings.model_validate(asked["settings"]), asked["decisions"])

        def listen() -> None:
            sys.stdin.buffer.readline()
            trial.stop()

        def report() -> None:
            while True:
                time.sleep(_TELL_S)
                say(progress=asdict(trial.outcome))

        for work in (listen, report):
            threading.Thread(target=work, daemon=True).start()
        say(outcome=asdict(trial.run()))
    except TauError as error:
        say(error=str(error))
    except Exception as error:
        traceback.print_exc()
        say(error=f"internal error: {type(error).__name__}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()

"""Work in a process of its own: ``python -m MODULE``, one JSON object a line each way.

It gets what it is asked on standard input and tells on standard output how it goes and what came of it. Any further
line, or the end of the input (whoever asked is gone), stops it. It is in a session of its own, so that Ctrl-C at the
terminal reaches whoever asked alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from tau_trainer.errors import TauError
from tau_trainer.remote.launching import Running, launch


class ProcessEndedError(TauError):
    """The process has ended without a word.

    Attributes:
        code: its exit code.
        late: whether it was ended because its time was up.
    """

    def __init__(self, text: str, code: int, late: bool) -> None:
        super().__init__(text)
        self.code, self.late = code, late


class Elsewhere:
    """``python -m module``, asked one thing.

    Attributes:
        process: since it runs.
    """

    def __init__(
        self, module: str, asked: Mapping[str, Any], *, limit_s: float | None = None, preload: Sequence[str] = ()
    ) -> None:
        """Nothing is started yet.

        Args:
            module: whose ``main`` calls :func:`answer`.
            asked: JSON.
            limit_s: after which it is killed.
            preload: modules that it loads late.
        """
        self.process: Running | None = None
        self._module, self._asked, self._limit_s, self._preload = module, asked, limit_s, preload
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

    def run(self, told: Callable[[Any], None]) -> dict[str, Any]:
        """Its last word; ``told`` of everything under ``progress`` before that.

        Raises:
            ProcessEndedError: there is no last word.
        """
        with tempfile.TemporaryFile() as errors:
            launched = launch(self._module, errors=errors, session=True, several=True, preload=self._preload)
            process = self.process = launched.process
            late = threading.Event()

            def end() -> None:
                late.set()
                process.kill()

            watch = threading.Timer(self._limit_s or 0.0, end)
            if self._limit_s is not None:
                watch.start()
            try:
                self.ask(launched.sink)
                answer = self._listen(launched.source, told)
            finally:
                self.stop()
                launched.source.close()
                code = process.wait()
                watch.cancel()
            if answer is None:
                errors.seek(0)
                last = errors.read().decode("utf-8", "replace").splitlines()[-1:]
                raise ProcessEndedError(
                    f"ended with exit code {code}: {''.join(last) or 'no word'}", code, late.is_set()
                )
        return answer

    def ask(self, stream: IO[bytes]) -> None:
        """Tell a process what it is asked; where it was stopped before, that too."""
        with contextlib.suppress(OSError):  # it ended at once; what it said is told
            stream.write(json.dumps(self._asked).encode() + b"\n")
            stream.flush()
        with self._lock:
            self._input = stream
        if self._stopped:
            self.stop()

    def _listen(self, stream: IO[bytes], told: Callable[[Any], None]) -> dict[str, Any] | None:
        """The last word; None where there is none."""
        for line in stream:
            said: dict[str, Any] = json.loads(line)
            if "progress" not in said:
                return said
            told(said["progress"])
        return None


def answer(work: Callable[[dict[str, Any], Callable[..., None], Callable[[Callable[[], None]], None]], None]) -> None:
    """In the process: do what is asked on standard input.

    Args:
        work: gets what is asked; how to say something, by keyword; and how to be told when to stop. A TauError, or any
            other exception, is its last word.
    """
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

    def on_stop(stop: Callable[[], None]) -> None:
        def listen() -> None:
            sys.stdin.buffer.readline()
            stop()

        threading.Thread(target=listen, daemon=True).start()

    try:
        work(asked, say, on_stop)
    except TauError as error:
        say(error=str(error))
    except Exception as error:
        traceback.print_exc()
        say(error=f"internal error: {type(error).__name__}: {' '.join(str(error).split())}")

"""A trial in a process of its own: ``python -m tau_trainer.search.elsewhere``, see :mod:`.process`."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tau_trainer.bridge.ports import is_free
from tau_trainer.bridge.protocol import BASE_PORT
from tau_trainer.errors import TauError
from tau_trainer.remote.lines import Elsewhere, ProcessEndedError, answer
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


class TrialElsewhere:
    """What :class:`~tau_trainer.search.trial.Trial` is, in another process."""

    def __init__(
        self, settings: RunSettings, decisions: int, base_port: int, told: Callable[[Outcome], None] | None = None
    ) -> None:
        self.outcome = Outcome()
        env = settings.env_settings.model_copy(update={"base_port": base_port})
        given = settings.model_copy(update={"env_settings": env}).model_dump(mode="json")
        self.elsewhere = Elsewhere(
            __name__, {"settings": given, "decisions": decisions}, preload=["tau_trainer.training.run"]
        )
        self._told = told or (lambda outcome: None)

    def stop(self) -> None:
        """End it soon. Call from any thread, before it runs too."""
        self.elsewhere.stop()

    def run(self) -> Outcome:
        """Wait for its end. Raises TauError: it could not be tried, or its process has ended without a word."""
        try:
            answer = self.elsewhere.run(self._progress)
        except ProcessEndedError as error:
            raise TauError(f"the process of a trial {error}") from error
        if "error" in answer:
            raise TauError(answer["error"])
        self.outcome = _outcome(answer["outcome"])
        return self.outcome

    def _progress(self, told: dict[str, Any]) -> None:
        self.outcome = _outcome(told)
        self._told(self.outcome)


def _outcome(told: dict[str, Any]) -> Outcome:
    rewards, losses = ([(int(at), float(value)) for at, value in told[name]] for name in ("rewards", "losses"))
    return Outcome(rewards, losses, told["decisions"], told["ending"])


def _try(asked: dict[str, Any], say: Callable[..., None], on_stop: Callable[[Callable[[], None]], None]) -> None:
    trial = Trial(RunSettings.model_validate(asked["settings"]), asked["decisions"])

    def report() -> None:
        while True:
            time.sleep(_TELL_S)
            say(progress=asdict(trial.outcome))

    on_stop(trial.stop)
    threading.Thread(target=report, daemon=True).start()
    say(outcome=asdict(trial.run()))


def main() -> None:
    """Be that process."""
    answer(_try)


if __name__ == "__main__":
    main()

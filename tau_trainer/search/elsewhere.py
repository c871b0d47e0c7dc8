"""A trial in a separate process."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from tau_trainer.bridge.protocol import BASE_PORT
from tau_trainer.errors import TauError
from tau_trainer.remote.job import Job
from tau_trainer.remote.process import GoneError, Parent, Place, Target
from tau_trainer.search.trial import Trial, TrialResult
from tau_trainer.settings import RunSettings

_TELL_S = 1.0
"""Seconds between reports of progress."""


class TrialElsewhere:
    """A :class:`~tau_trainer.search.trial.Trial` in another process."""

    def __init__(
        self,
        settings: RunSettings,
        decisions: int,
        on_progress: Callable[[TrialResult], None] = lambda outcome: None,
        place: Place | None = None,
    ) -> None:
        self.outcome = TrialResult()
        # Use the first free ports: another trial may use those of the settings.
        given = settings.having(env_settings={"base_port": BASE_PORT}).model_dump(mode="json")
        self.target = Target(
            __name__,
            {"settings": given, "decisions": decisions},
            name="the process of a trial",
            failure=TauError,
            several=True,
            preload=["tau_trainer.training.pairs.collector"],
        )
        self.job = Job(self.target, place=place)
        self._on_progress = on_progress

    def stop(self) -> None:
        """End the trial soon. Call from any thread, also before it runs."""
        self.job.stop()

    def run(self) -> TrialResult:
        """Wait for the trial's end. Raises TauError: it could not run, or its process ended without an answer."""
        self.outcome = _outcome(self.job.run(self._progress))
        return self.outcome

    def _progress(self, data: dict[str, Any]) -> None:
        self.outcome = _outcome(data)
        self._on_progress(self.outcome)


def _outcome(data: dict[str, Any]) -> TrialResult:
    rewards, losses = ([(int(at), float(value)) for at, value in data[name]] for name in ("rewards", "losses"))
    return TrialResult(rewards, losses, data["decisions"], data["ending"])


def work(parent: Parent) -> None:
    """Main function of the process."""
    trial = Trial(RunSettings.model_validate(parent.arguments["settings"]), parent.arguments["decisions"])

    def report() -> None:
        with contextlib.suppress(GoneError):
            while True:
                time.sleep(_TELL_S)
                parent.say("progress", asdict(trial.outcome))

    parent.listen(gone=trial.stop)
    threading.Thread(target=report, daemon=True).start()
    parent.say("answer", asdict(trial.run()))

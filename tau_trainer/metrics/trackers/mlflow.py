"""MLflow (extra ``[mlflow]``): a run of an experiment on the tracking server that ``MLFLOW_TRACKING_URI`` names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tau_trainer.errors import SettingsError
from tau_trainer.metrics.trackers.tracker import PROJECT, Tracker, said

_OUTCOMES = {"completed": "FINISHED", "cancelled": "KILLED"}
_PARAMETERS, _METRICS = 100, 1000
"""Maximum number of values that MLflow accepts in one call."""


class MLflow(Tracker):
    """Scalars as metrics, settings as parameters, models and the files next to them as artifacts.

    A resumed run keeps the parameters that it began with, because MLflow does not let them change; its
    ``configuration.yaml`` is the newest.
    """

    name: ClassVar[str] = "mlflow"

    def connect(self) -> None:
        """Check the tracking server."""
        # The library waits minutes for each request; failed requests are tried again here.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        from mlflow import MlflowClient, entities, get_tracking_uri

        try:
            self._client: Any = MlflowClient()
        except Exception as error:  # the address is invalid, or needs another package
            place = f"{get_tracking_uri()}, as MLFLOW_TRACKING_URI or its default says"
            raise SettingsError(f"recorders: mlflow cannot track at {place}: {said(error)}") from error
        self._entities: Any = entities
        self._tracked = ""

    def begin(self, known: str | None) -> str:
        """A run of the experiment ``MLFLOW_EXPERIMENT_NAME``, by its id."""
        client = self._client
        if known is not None:
            client.update_run(known, status="RUNNING")
            self._tracked = known
            return known
        if not self._tracked:  # otherwise it was made, but its parameters were not accepted
            named = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
            experiment = client.get_experiment_by_name(named)
            place = client.create_experiment(named) if experiment is None else experiment.experiment_id
            self._tracked = str(client.create_run(place, run_name=self.folder.name).info.run_id)
        parameters = [self._entities.Param(_plain(key), str(value)) for key, value in self.parameters.items()]
        for first in range(0, len(parameters), _PARAMETERS):
            client.log_batch(self._tracked, params=parameters[first : first + _PARAMETERS])
        return self._tracked

    def write(self, values: Mapping[str, float], behavior: str, step: int, time: float) -> None:
        """Metrics at that step."""
        metrics = [self._entities.Metric(_plain(key), value, int(time * 1000), step) for key, value in values.items()]
        for first in range(0, len(metrics), _METRICS):
            self._client.log_batch(self._tracked, metrics=metrics[first : first + _METRICS])

    def end(self, outcome: str, files: list[Path]) -> None:
        """Artifacts, and the run's status."""
        for file in files:
            self._client.log_artifact(self._tracked, str(file))
        self._client.set_terminated(self._tracked, _OUTCOMES.get(outcome, "FAILED"))


def _plain(key: str) -> str:
    """A name that MLflow accepts: letters, digits and a few other characters."""
    return re.sub(r"[^\w\-. /]", "_", key)

"""MLflow's tracker, against a stand-in for the part of its client that is used: the library is no part of the gate."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.metrics.trackers.mlflow import MLflow
from tau_trainer.settings import RunSettings


class Client:
    """Takes no more parameters at once than MLflow, and no names that MLflow refuses."""

    broken = False

    def __init__(self) -> None:
        if self.broken:
            raise ValueError("no\nstore")
        self.told: list[Any] = []
        self.logged: dict[str, Any] = {}

    def get_experiment_by_name(self, name: str) -> None:
        self.told.append(("experiment", name))

    def create_experiment(self, name: str) -> str:
        return f"id of {name}"

    def create_run(self, experiment: str, run_name: str) -> Any:
        self.told.append((experiment, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def update_run(self, run: str, status: str) -> None:
        self.told.append((run, status))

    def log_batch(self, run: str, metrics: Any = (), params: Any = ()) -> None:
        assert len(params) <= 100
        assert len(metrics) <= 1000
        assert run == "r1"
        self.logged |= {key: rest for key, *rest in (*metrics, *params)}

    def log_artifact(self, run: str, file: str) -> None:
        self.told.append((run, Path(file).name))

    def set_terminated(self, run: str, status: str) -> None:
        self.told.append((run, status))


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("mlflow")
    module.__dict__.update(
        MlflowClient=type("MlflowClient", (Client,), {}),
        entities=SimpleNamespace(Metric=lambda *values: values, Param=lambda *values: values),
        get_tracking_uri=lambda: "http://here",
    )
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "5")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    return module


def test_a_new_run_has_its_parameters_metrics_artifacts_and_status(tmp_path: Path) -> None:
    tracked = MLflow(RunSettings(), tmp_path / "3DBall-1")
    tracked.parameters = {f"key {number}": number for number in range(150)} | {"behaviors.A?b.gamma": 0.9}
    assert tracked.begin(None) == "r1"
    tracked.write({"B/Pair 3 (x)%": 1.5, "B/Losses/Policy Loss": math.nan}, "B", 40, 12.5)
    tracked.end("cancelled", [tmp_path / "B.onnx"])
    client = tracked._client
    assert client.told == [
        ("experiment", "mine"),
        ("id of mine", "3DBall-1"),
        ("r1", "B.onnx"),
        ("r1", "KILLED"),
    ]
    assert client.logged["key 149"] == ["149"]
    assert client.logged["behaviors.A_b.gamma"] == ["0.9"]
    assert client.logged["B/Pair 3 _x__"] == [1.5, 12500, 40]
    assert math.isnan(client.logged["B/Losses/Policy Loss"][0])


def test_a_run_whose_parameters_were_not_taken_is_begun_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **given: Any) -> None:
        raise OSError("nobody answers")

    tracked = MLflow(RunSettings(), tmp_path / "3DBall-1")
    with monkeypatch.context() as patch:
        patch.setattr(Client, "log_batch", away)
        with pytest.raises(OSError, match="nobody answers"):
            tracked.begin(None)
    assert tracked.begin(None) == "r1"
    assert tracked._client.told == [("experiment", "mine"), ("id of mine", "3DBall-1")]
    assert tracked._client.logged["env_settings.num_envs"] == ["1"]
    again = MLflow(RunSettings(), tmp_path)
    assert again.begin("r1") == "r1"
    again.end("failed", [])
    assert again._client.told == [("r1", "RUNNING"), ("r1", "FAILED")]
    assert again._client.logged == {}, "it has them"


def test_how_long_a_request_may_take_is_the_users_where_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_TIMEOUT")
    MLflow(RunSettings(), tmp_path)
    assert os.environ.pop("MLFLOW_HTTP_REQUEST_TIMEOUT") == "10"
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "5"


def test_a_place_that_is_none_is_refused_before_the_run_begins(tmp_path: Path, library: Any) -> None:
    library.MlflowClient.broken = True
    with pytest.raises(SettingsError, match=r"^recorders: mlflow cannot track at http://here, as .*: no store$"):
        MLflow(RunSettings(), tmp_path)

"""Callbacks hear everything in order, in one thread, and may end a run; an error of theirs does."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tau_trainer import Callback, LambdaCallback
from tau_trainer.errors import CallbackError, SettingsError
from tau_trainer.metrics import RunReport, keys
from tau_trainer.runs.callbacks import _HOOKS, Callbacks, EpisodeInfo
from tau_trainer.settings import RunSettings
from tau_trainer.training.manager import ParallelTrainerManager
from tests.training.fakes import WAIT_S, Stage, sac_settings, tau_settings

SHORT: dict[str, Any] = {"env_settings__env_args": ["--max-decisions", "10"]}


def run(settings: RunSettings, *callbacks: Callback, command: Any = "parallel") -> RunReport:
    return ParallelTrainerManager().start(settings, command, callbacks=callbacks).wait(WAIT_S)


class Listener(Callback):
    """Notes everything."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.threads: set[str] = set()
        for hook in _HOOKS:
            setattr(self, hook, lambda info, hook=hook: self._note(hook, info))

    def _note(self, hook: str, info: Any) -> None:
        self.heard.append((hook, info))
        self.threads.add(threading.current_thread().name)

    def of(self, hook: str) -> list[Any]:
        return [info for name, info in self.heard if name == hook]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.heard]


class Loud(Callback):
    """By a settings file."""

    episodes = 0

    def on_episode_end(self, info: EpisodeInfo) -> None:
        Loud.episodes += 1


def nothing_at_all() -> int:
    return 3


@pytest.mark.parametrize(
    ("settings", "where"), [(tau_settings, "thread"), (sac_settings, "thread"), (sac_settings, "process")]
)
def test_everything_is_told_in_order_and_in_one_thread(stage: Stage, tmp_path: Path, settings: Any, where: str) -> None:
    listener = Listener()
    short: dict[str, Any] = {**SHORT, "behaviors__TauAgent__max_steps": 200}
    report = run(settings(tmp_path, **short, collection__learner=where), listener)
    assert report.outcome == "completed"
    assert listener.threads == {"run run"}
    assert listener.names[0] == "on_train_begin"
    assert listener.names[-1] == "on_train_end"
    (begun,), (ended,) = listener.of("on_train_begin"), listener.of("on_train_end")
    assert (begun.run_id, begun.seed, begun.decisions, begun.report) == ("run", 7, 0, None)
    assert ended.report is not None
    assert ended.report.decisions == ended.decisions == report.decisions
    assert len(listener.of("on_episode_end")) == sum(pair.episodes for pair in report.pairs)
    assert 0 <= len(listener.of("on_episode_begin")) - len(listener.of("on_episode_end")) <= 8, "one open an agent"
    assert {info.length for info in listener.of("on_episode_end")} == {10}
    updates = [(name, info) for name, info in listener.heard if name.startswith(("on_update", "on_batch"))]
    order = [name.removeprefix("on_") for name, _ in updates]
    inside = [i for i, name in enumerate(order) if name.startswith("batch")]
    assert inside, "minibatches are told"
    for i, name in enumerate(order):
        expected = {
            "update_begin": (i == 0 or order[i - 1] == "update_end"),
            "batch_begin": order[i - 1] in ("update_begin", "batch_end"),
            "batch_end": order[i - 1] == "batch_begin",
            "update_end": order[i - 1] in ("update_begin", "batch_end"),
        }
        assert expected[name], f"{order[max(0, i - 2) : i + 1]}"
    told = listener.of("on_update_end")
    assert [info.version for info in told] == list(range(1, len(told) + 1))
    assert all(info.error is None for info in told)
    assert any(keys.POLICY_LOSS in info.statistics for info in told)
    steps = sum(info.minibatches for info in listener.of("on_batch_end"))
    assert steps == sum(info.statistics.get(keys.MINIBATCHES, 0) for info in told) > 0
    assert all(info.statistics for info in listener.of("on_batch_end"))
    assert len(listener.of("on_evaluation_begin")) == len(listener.of("on_evaluation_end")) > 0
    assert keys.VALIDATION_ACCURACY in listener.of("on_evaluation_end")[0].scores
    assert listener.of("on_evaluation_end")[-1].scores["accuracy"] == report.score("accuracy")
    saved = listener.of("on_save_end")
    assert len(listener.of("on_save_begin")) == len(saved) > 0
    assert all(info.path.is_dir() for info in saved[-1:])


def test_learning_is_the_same_with_callbacks(stage: Stage, tmp_path: Path) -> None:
    lasts = []
    for run_id, callbacks in (("with", [Listener()]), ("without", [])):
        report = run(sac_settings(tmp_path, run_id, collection__deterministic=True), *callbacks)
        path = max((report.folder / "checkpoints").glob("TauAgent-*"), key=lambda one: one.stat().st_mtime_ns)
        lasts.append((path / "tensors.safetensors").read_bytes())
    assert lasts[0] == lasts[1]


def test_a_callback_that_fails_at_the_begin_leaves_nothing(stage: Stage, tmp_path: Path) -> None:
    def fail(info: Any) -> None:
        raise ValueError("wrong\nand more")

    with pytest.raises(
        CallbackError, match=r"^the callback LambdaCallback failed in on_train_begin: ValueError: wrong;"
    ):
        run(tau_settings(tmp_path), LambdaCallback(on_train_begin=fail))
    assert not (tmp_path / "run").exists()
    assert stage.starts == [], "no engine was started"


def test_a_callback_hears_what_it_overrides_and_nothing_more_once_it_has_failed() -> None:
    calls: list[int] = []
    errors: list[CallbackError] = []

    class Once(Callback):
        def on_save_begin(self, info: Any) -> None:
            calls.append(1)
            raise RuntimeError

        def on_save_end(self, info: Any) -> None:
            calls.append(2)

    callbacks = Callbacks([Once()], on_error=errors.append)
    assert [hook for hook in _HOOKS if hook in callbacks.wanted] == ["on_save_begin", "on_save_end"]
    for _ in range(2):
        callbacks.tell("on_save_begin", None)
        callbacks.tell("on_save_end", None)
    assert calls == [1]
    assert len(errors) == 1
    assert isinstance(errors[0].__cause__, RuntimeError)


def test_a_lambda_callback_knows_its_names() -> None:
    with pytest.raises(TypeError, match="'on_epoch_end' is not an event of callbacks; known: on_train_begin"):
        LambdaCallback(on_epoch_end=print)


def test_a_settings_file_names_callbacks(stage: Stage, tmp_path: Path) -> None:
    Loud.episodes = 0
    report = run(tau_settings(tmp_path, **SHORT, callbacks=[f"{__name__}:Loud"]))
    assert Loud.episodes == sum(pair.episodes for pair in report.pairs) > 0
    assert f"- {__name__}:Loud" in (report.folder / "configuration.yaml").read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("loud", "'loud' is not one of the callbacks; known: MODULE:NAME of your own"),
        ("no_such_module:A", "'no_such_module:A' cannot be loaded: ModuleNotFoundError.*on Python's path"),
        (f"{__name__}:Nobody", "cannot be loaded: AttributeError"),
        (f"{__name__}:EpisodeInfo", "cannot be created: TypeError.*it gets no arguments"),
        (f"{__name__}:nothing_at_all", "must create a tau_trainer.Callback, not int"),
    ],
)
def test_a_callback_that_cannot_be_made_is_told_before_anything_starts(
    stage: Stage, tmp_path: Path, name: str, text: str
) -> None:
    with pytest.raises(SettingsError, match=text):
        run(tau_settings(tmp_path, callbacks=[name]))
    assert not (tmp_path / "run").exists()

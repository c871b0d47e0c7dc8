"""``README.md`` of a shared run: front matter for the Hub, a description, and how to use the run.

The front matter has the names of the Hub's ML-Agents integration, so that a run is found where its users look.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from tau_trainer import __version__, plugins
from tau_trainer.metrics import keys
from tau_trainer.metrics.format import format_percent
from tau_trainer.metrics.history import mapping, number
from tau_trainer.report import RunRecord
from tau_trainer.report.cells import or_dash
from tau_trainer.report.numbers import duration, reward
from tau_trainer.shown import shown

CARD_NAME = "README.md"
_TAGS = ("unity-ml-agents", "ml-agents", "deep-reinforcement-learning", "reinforcement-learning", "tau-trainer")
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&!$])")
_MOST_LISTED = 20


def model_card(run: RunRecord, repository: str, models: Sequence[str]) -> str:
    """The card of ``run`` for ``repository``, with these ONNX files."""
    head = yaml.safe_dump(_front_matter(run), sort_keys=False, allow_unicode=True, width=10_000)
    return f"---\n{head}---\n\n" + "\n".join(_body(run, repository, models)) + "\n"


def environment_of(run: RunRecord) -> str:
    """Short name of the run's environment: a Gymnasium id, or the name of its first behavior."""
    prefix, colon, name = (run.configuration.environment or "").partition(":")
    if colon and prefix in plugins.names("environments"):
        return name
    behaviors = [*run.configuration.trainers, *run.history.steps]
    return behaviors[0] if behaviors else run.name


def mean_reward(run: RunRecord) -> tuple[float, float | None, str] | None:
    """Mean, deviation and their source: test rows, or the last summary of training; None if there is no reward."""
    tested = number(run.evaluation.get("reward"))
    if tested is not None:
        return tested, None, "of a decision on test rows, deterministic actions"
    decided = _last(run, run.history.task.get("reward", ""), "of a decision")
    return _last(run, keys.CUMULATIVE_REWARD, "of the episodes") or decided


def _scores(run: RunRecord) -> Iterator[tuple[str, str, str]]:
    """Key, value in the format of leaderboards on the Hub (``200.53 +/- 30.10``), and source of the mean rewards."""
    of_groups = _last(run, keys.GROUP_CUMULATIVE_REWARD, "of the episodes of groups")
    for key, score in (("mean_reward", mean_reward(run)), ("mean_group_reward", of_groups)):
        if score is not None:
            mean, deviation, source = score
            yield key, f"{mean:.3f}" if deviation is None else f"{mean:.2f} +/- {deviation:.2f}", source


def _last(run: RunRecord, key: str, of_what: str) -> tuple[float, float | None, str] | None:
    for behavior, curve in run.history.overall(key).items():
        spread = run.history.spreads["std"].get(key, {}).get((behavior, None))
        known = spread is not None and spread.x and spread.x[-1] == curve.x[-1]
        deviation = spread.y[-1] if spread is not None and known else None
        return curve.y[-1], deviation, f"{of_what} in the last summary of training, exploration included"
    return None


def _front_matter(run: RunRecord) -> dict[str, Any]:
    environment = environment_of(run)
    kinds = dict.fromkeys(run.configuration.trainers.values())
    tags = [*_TAGS, f"ML-Agents-{re.sub(r'[^A-Za-z0-9._-]+', '-', environment)}", *kinds]
    head: dict[str, Any] = {"library_name": "ml-agents", "tags": tags}
    values: list[tuple[str, str, object]] = [(key, key, value) for key, value, _ in _scores(run)]
    if values:
        if (accuracy := number(run.evaluation.get("accuracy"))) is not None:
            values.append(("accuracy", "test accuracy", round(accuracy, 4)))
        metrics = [{"type": kind, "name": name, "value": value, "verified": False} for kind, name, value in values]
        result = {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"name": environment, "type": environment},
            "metrics": metrics,
        }
        head["model-index"] = [{"name": run.name, "results": [result]}]
    return head


def _body(run: RunRecord, repository: str, models: Sequence[str]) -> Iterator[str]:
    kinds = ", ".join(dict.fromkeys(run.configuration.trainers.values())) or "A policy"
    yield f"# **{text(kinds)}** playing **{text(environment_of(run))}**\n"
    yield f"Trained with Tau Trainer {__version__}, which speaks Unity ML-Agents' protocol and reads its files.\n"
    verdict = run.result.get("verdict")
    if verdict:
        yield f"{text(verdict)}\n"
    yield from _figures(run)
    yield "![The learning curve](learning_curve.png)\n"
    yield "[report.html](report.html) has every curve, setting and fault: download it and open it in a browser.\n"
    yield from _baselines(run)
    yield from _use(run, repository, models)


def _figures(run: RunRecord) -> Iterator[str]:
    yield "| | |"
    yield "| --- | --- |"
    accuracy = number(run.evaluation.get("accuracy"))
    if accuracy is not None:
        yield f"| test accuracy | {format_percent(accuracy)} |"
    yield from (f"| {key.replace('_', ' ')} | {value}, {source} |" for key, value, source in _scores(run))
    speed = number(run.result.get("decisions_per_second"))
    yield f"| decisions | {run.decisions:,}{f', {speed:,.0f} a second' if speed else ''} |"
    yield f"| time | {duration(run.seconds)} |"
    yield f"| outcome | {text(run.outcome)} |"
    machine = mapping(run.provenance.get("hardware"))
    if machine.get("cpu"):
        yield f"| machine | {text(machine['cpu'])}, {text(machine.get('cores'))} cores |"
    yield f"| seed | {text(run.provenance.get('seed', 'unknown'))} |"
    yield ""


def _baselines(run: RunRecord) -> Iterator[str]:
    baselines = mapping(run.evaluation.get("baselines"))
    scores: dict[str, Mapping[str, Any]] = {str(name): mapping(score) for name, score in baselines.items()}
    if not scores:
        return
    strongest = str(run.evaluation.get("strongest"))
    scores["**this policy**"] = run.evaluation
    yield "## Comparison with baselines\n"
    yield "On test rows, which were not used to choose the policy. A reward means little without these.\n"
    yield "| policy | accuracy | reward |"
    yield "| --- | ---: | ---: |"
    known = {name: (number(score.get("accuracy")), number(score.get("reward"))) for name, score in scores.items()}
    for name, (accuracy, earned) in sorted(known.items(), key=lambda item: item[1][0] or 0.0):
        mark = " (strongest baseline)" if name == strongest else ""
        shown = name if name not in baselines else text(name)
        yield f"| {shown}{mark} | {format_percent(accuracy)} | {or_dash(earned, reward)} |"
    yield ""


def _use(run: RunRecord, repository: str, models: Sequence[str]) -> Iterator[str]:
    name = repository.rpartition("/")[2]
    yield "## Use it\n"
    if models:
        yield "In Unity: download a model, put it into `Assets/`, and drag it on *Model* in *Behavior Parameters*:\n"
        yield from (f"- {code(model)}" for model in models[:_MOST_LISTED])
        yield ""
    yield "With Tau Trainer:\n"
    yield f"    pip install 'tau-trainer[hub]'\n    tau-train hub pull {shlex.quote(repository)}"
    if number(run.evaluation.get("accuracy")) is not None:
        yield f"    tau-train evaluate {shlex.quote(name)}"
    yield f"    tau-train export {shlex.quote(name)}"
    command = "parallel" if run.result.get("command") == "parallel" else "learn"
    yield f"    tau-train {command} --resume --run-id {shlex.quote(name)} --max-steps N"
    yield f"    tau-train {command} CONFIG --initialize-from {shlex.quote(name)} --run-id another\n"
    yield "Weights are safetensors, nothing is pickled; [configuration.yaml](configuration.yaml) has every setting."


def text(value: object) -> str:
    """``value`` escaped for a line of Markdown."""
    return _MARKUP.sub(r"\\\1", shown(" ".join(str(value).split())))


def code(value: object) -> str:
    """``value`` as code in a line of Markdown."""
    return f"`{shown(' '.join(str(value).replace('`', '').split()))}`"

"""``tau-train find``: short trials before a long run, for a learning rate, an optimizer, or the best of several."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

from tau_trainer.cli.messages import show_json, show_lines
from tau_trainer.cli.options import (
    SEARCH,
    ClusterFlags,
    CompareFlags,
    Config,
    FindFlags,
    LearnFlags,
    OutputFlags,
    TrialFlags,
    commands,
)
from tau_trainer.cli.progress import ProgressBar, stoppable
from tau_trainer.cli.running import prepare, told
from tau_trainer.errors import SettingsError
from tau_trainer.metrics.format import aligned
from tau_trainer.shown import shown

if TYPE_CHECKING:
    from tau_trainer.search import Comparison, LRResult, Sweep, TrialResult
    from tau_trainer.search.results import Table
    from tau_trainer.settings import RunSettings

_POLL_S = 0.1
T = TypeVar("T")

app = commands("find")


@app.command(name="lr")
def lr_command(
    config: Config = None,
    /,
    *,
    start_lr: Annotated[float, Parameter(group=SEARCH, help="First learning rate. [default: 1e-6]")] = 1e-6,
    end_lr: Annotated[float, Parameter(group=SEARCH, help="Last learning rate. [default: 0.1]")] = 1e-1,
    steps: Annotated[int, Parameter(group=SEARCH, help="Steps from the first to the last. [default: 40]")] = 40,
    window: Annotated[int, Parameter(group=SEARCH, help="Number of steps to average. [default: 5]")] = 5,
    updates: Annotated[
        int | None, Parameter(group=SEARCH, help="Minimum updates at each rate. [default: 1; off-policy 10]")
    ] = None,
    find: FindFlags = FindFlags(),
    trial: TrialFlags = TrialFlags(),
) -> int:
    """Raise the learning rate during a short run, and suggest the rate that learns fastest.

    The sweep ends early if the reward falls to half of its best, or the loss
    rises to four times its best. Existing runs are not changed. If you press
    Ctrl-C, the results so far are kept.
    """
    [settings] = _settings([config], [find.set], find, trial).values()
    from tau_trainer.search import LRFinder

    finder = LRFinder(settings)

    def work(progress: ProgressBar) -> LRResult:
        def step(sweep: Sweep) -> None:
            text = f"{sweep.rates[-1]:.2e}: mean {sweep.metric} {sweep.recent()[-1]:.4g}"
            progress.tell("learning rate", len(sweep.rates) / (steps + 1), text)

        return finder.find(
            find.metric, start=start_lr, end=end_lr, steps=steps, window=window, updates=updates, on_step=step
        )

    return _finish("lr", watched(work, finder.stop, trial.output), find, trial.output)


@app.command(name="optimizer")
def optimizer_command(
    config: Config = None,
    /,
    *,
    optimizers: Annotated[
        str | None,
        Parameter(group=SEARCH, help="Optimizers, separated by commas. [default: all of hyperparameters.optimizer]"),
    ] = None,
    find: CompareFlags = CompareFlags(),
    trial: TrialFlags = TrialFlags(),
) -> int:
    """Train with each optimizer from the same weights and an empty buffer, and name the best.

    Existing runs are not changed. If you press Ctrl-C, the results so far are kept.
    """
    [settings] = _settings([config], [find.set], find, trial).values()
    from tau_trainer.search import OPTIMIZERS, OptFinder

    names = [name.strip() for name in optimizers.split(",")] if optimizers is not None else OPTIMIZERS
    return _compare(OptFinder(settings, names), [settings], find, trial.output)


@app.command(name="agent")
def agent_command(
    configs: Annotated[list[str], Parameter(help="ML-Agents YAML files, or names of shipped ones.")],
    /,
    *,
    find: CompareFlags = CompareFlags(),
    trial: TrialFlags = TrialFlags(),
) -> int:
    """Train several candidates in parallel processes, and name the best.

    Candidates are the files, with every combination of comma-separated values:
    --set hyperparameters.learning_rate=1e-4,3e-4. Existing runs are not
    changed. If you press Ctrl-C, the results so far are kept.
    """
    settings = _settings(configs, list(variations(find.set)), find, trial)
    from tau_trainer.search import AgentFinder

    return _compare(AgentFinder(settings), list(settings.values()), find, trial.output)


def variations(assignments: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every combination of the values in ``KEY=VALUE,VALUE`` assignments."""
    import yaml

    choices: list[list[str]] = []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        try:
            several = isinstance(yaml.safe_load(value), str) and not value.startswith(("'", '"'))
        except yaml.YAMLError:
            several = False
        values = value.split(",") if several else [value]
        choices.append([f"{key}{equals}{choice.strip()}" for choice in values])
    yield from itertools.product(*choices)


def _settings(
    configs: Sequence[str | None], changes: Sequence[tuple[str, ...]], find: FindFlags, trial: TrialFlags
) -> dict[str, RunSettings]:
    """Settings of every file with every change, by a name made of their differences; all share the first one's seed."""
    from tau_trainer.cli.resolving import learn_request, learn_settings
    from tau_trainer.search.results import check_folder
    from tau_trainer.training.elsewhere import playable

    prepare(trial.output)
    check_folder(find.output)
    varied = {part for change in changes for part in change if any(part not in other for other in changes)}
    found: dict[str, RunSettings] = {}
    seed = find.seed
    for config, change in itertools.product(configs, changes):
        run = find.of_run(change, seed=seed)
        nodes = find.cluster if isinstance(find, CompareFlags) else ClusterFlags()
        settings = playable(learn_settings(learn_request(config, LearnFlags(run=run, cluster=nodes, **vars(trial)))))
        seed = str(settings.env_settings.seed)
        parts = [] if len(configs) == 1 else [Path(str(config)).stem]
        parts += [
            part.rpartition(".")[2] if "." in part.partition("=")[0] else part for part in change if part in varied
        ]
        name = ", ".join(parts) or Path(str(config)).stem
        if name in found:
            raise SettingsError(f"{name}: two candidates have this name; give each file a different name")
        found[name] = settings
    return found


def _compare(finder: Any, played: Sequence[RunSettings], flags: CompareFlags, shown: OutputFlags) -> int:
    jobs, place = flags.jobs, None

    def work(progress: ProgressBar) -> Comparison:
        def tell(name: str, outcome: TrialResult, length: int) -> None:
            mean = outcome.mean(flags.metric)
            text = f"mean {flags.metric} {mean:.4g}" if mean is not None else f"no {flags.metric} yet"
            progress.tell(name, outcome.last / length, text)

        found: Comparison = finder.find(
            flags.metric, decisions=flags.decisions, jobs=jobs, on_progress=tell, place=place
        )
        return found

    with contextlib.ExitStack() as stack:
        if played[0].cluster is not None:
            from tau_trainer.training.elsewhere import build_of, connected

            say = told(shown)
            connection = stack.enter_context(connected(played[0].cluster, say))
            for build in {build_of(settings) for settings in played}:
                connection.check(build)
            say(f"trials on {connection.described}")
            jobs, place = jobs or connection.room, connection.place(0, 0)
        result = watched(work, finder.stop, shown)
    return _finish(finder.search, result, flags, shown)


def watched(
    work: Callable[[ProgressBar], T],
    stop: Callable[[], None],
    shown: OutputFlags,
    then: str = "the results so far are kept",
) -> T:
    """Run ``work`` in a thread and return its result; the first Ctrl-C calls ``stop``, the second ends at once.

    ``then``: the fate of the result after the first, for the message.
    """
    found = Future[T]()

    def run() -> None:
        try:
            found.set_result(work(progress))
        except BaseException as error:
            found.set_exception(error)

    with ProgressBar(silent=shown.quiet or shown.json, after_s=0.0) as progress, stoppable(stop, then):
        thread = threading.Thread(target=run, name="search", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_POLL_S)
    return found.result()


def _finish(name: str, result: LRResult | Comparison, flags: FindFlags, shown: OutputFlags) -> int:
    """Write and show the results; returns the exit code."""
    from tau_trainer.search.results import results_folder, table, write

    content = result.to_dict()
    if not content.get("steps") and not content.get("candidates"):
        raise SettingsError(
            "no results: no episode and no update was finished; give it more time, or use "
            f"--metric {'loss' if flags.metric == 'reward' else 'reward'}"
        )
    files = write(result, results_folder(f"find-{name}", Path(flags.results_dir or "results"), flags.output))
    if shown.json:
        show_json({**content, "files": [str(file) for file in files]})
    elif not shown.quiet:
        show_table(table(result))
        show_lines(["", sentence(content), *(f"written: {file}" for file in files)])
    return 0


def sentence(found: Mapping[str, Any]) -> str:
    """The result of a search."""
    if found["search"] != "lr":
        if found["best"] is None:
            return f"No candidate is best: none has a mean {found['metric']} yet; give each more --decisions."
        return f"Best by mean {found['metric']}: {found['best']}."
    ended = f"The sweep ended because {found['ended']}" if found["ended"] != "NaN" else "NaN ended the sweep"
    if found["suggestion"] is None:
        text = f"No learning rate is suggested: the {found['metric']} never improved by more than chance"
        return f"{text}; give it more --steps or a larger --window. {ended}."
    value = f"{found['suggestion']:.2g}"
    return f"Suggested: --set 'behaviors.*.hyperparameters.learning_rate={value}'. {ended}."


def show_table(table: Table) -> None:
    """Print a table with lines on a terminal; otherwise plain columns."""
    from rich.table import Table as Drawn

    from tau_trainer.console import Console

    titles, rows = table
    console = Console()
    if console.is_terminal:
        drawn = Drawn()
        for place, title in enumerate(titles):
            drawn.add_column(shown(title), justify="left" if place in (0, len(titles) - 1) else "right")
        for row in rows:
            drawn.add_row(*map(shown, row), style="bold" if row[-1] in ("best", "suggested") else "")
        console.print(drawn)
        return
    show_lines(aligned([titles, *rows], (0, len(titles) - 1)))

"""The application: every command by name, each imported only when it runs."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING

from cyclopts import App, Group, Parameter

from tau_trainer import __version__, plugins

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

_TRAIN = Group("Train", sort_key=1)
_RESULT = Group("Use the result", sort_key=2)
_PARTS = Group("Tools", sort_key=3)
_OTHER = Group("Other", sort_key=4)

_ABOUT = """Train Unity ML-Agents environments, and Tau pairs, over ML-Agents' own wire protocol.

Start with: tau-train parallel --pairs 4"""
_HELP = {
    "parallel": "Train TauAgent-AgentTrainer pairs side by side, then evaluate and export.",
    "learn": "Train the behaviors of an ML-Agents file.",
    "batch": "Train the policies of an environment whose copies are tensors on one device.",
    "scale": "Find how many copies of a batched environment, and how large a batch, train fastest here.",
    "init": "Write a settings file to start from, with a comment for every key.",
    "check": "Validate a config and show what it would train.",
    "advise": "Measure a game and recommend an algorithm and a number of engines.",
    "find": "Find a learning rate, an optimizer or the best of several settings with short trials.",
    "sweep": "Hyperparameter sweep: run many trials, stop weak ones early.",
    "upgrade": "Convert a settings file of older ML-Agents (before 0.19).",
    "record": "Play an environment and record a demonstration (.demo).",
    "demo": "Inspect and convert recordings (.demo).",
    "evaluate": "Evaluate a finished run on test rows.",
    "export": "Write a run's policy as ONNX for Unity.",
    "status": "Watch a run in another process or on another machine.",
    "tensorboard": "Start TensorBoard on your runs.",
    "report": "Write one HTML file about a run.",
    "plot": "Plot reward and losses of runs.",
    "animate": "Render a run's policy as a GIF or MP4.",
    "play": """Play a game turn by turn between fixed players and networks of runs.

The game is hironaka. Prints for every turn the host's choice, the agent's choice and the remaining points. With \
--playoff, it counts games instead; with --tree, it draws every reply.""",
    "match": "Play policies against each other on an environment with teams.",
    "hub": "Push a run to the Hugging Face Hub, or pull one from it.",
    "doctor": "Check that training can work here: Python, torch, packages, ports, results folder.",
    "headless": "Run the headless engine alone, for any trainer.",
    "check-env": "Test a batched environment for mistakes.",
    "cluster": "Start, inspect and stop a Ray cluster on machines that you reach by ssh.",
    "data": "Embed, audit, join and export your own Tau data set.",
}
"""The first sentence of each command's help, for the list of commands; the docstring of its function has the rest."""
_COMMANDS = (
    ("parallel", "train.parallel:parallel", _TRAIN),
    ("learn", "train.learn:learn", _TRAIN),
    ("batch", "train.batch:batch", _TRAIN),
    ("scale", "train.scale:scale", _TRAIN),
    ("init", "train.init:init", _TRAIN),
    ("check", "train.check:check", _TRAIN),
    ("advise", "train.advise:advise", _TRAIN),
    ("find", "train.find:app", _TRAIN),
    ("sweep", "train.sweep:sweep_command", _TRAIN),
    ("upgrade", "train.upgrade:upgrade_command", _TRAIN),
    ("record", "look.record:record_command", _RESULT),
    ("demo", "look.demo:app", _RESULT),
    ("evaluate", "look.evaluate:evaluate_command", _RESULT),
    ("export", "look.export:export_command", _RESULT),
    ("status", "look.status:status_command", _RESULT),
    ("tensorboard", "look.tensorboard:tensorboard_command", _RESULT),
    ("report", "look.report:report_command", _RESULT),
    ("plot", "look.plot:plot_command", _RESULT),
    ("animate", "look.animate:animate_command", _RESULT),
    ("play", "", _RESULT),
    ("match", "look.match:match_command", _RESULT),
    ("hub", "look.hub:app", _RESULT),
    ("doctor", "parts.doctor:doctor", _PARTS),
    ("headless", "parts.headless:headless", _PARTS),
    ("check-env", "parts.check_env:check_env_command", _PARTS),
    ("cluster", "parts.cluster:app", _PARTS),
    ("data", "parts.data:app", _PARTS),
)
"""Name, function below this folder (empty: a plug-in), and group."""


def _show_panel(console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
    """Draw a panel of a help page. Its first column fits the longest flag with its value, so that no flag wraps."""
    from attrs import evolve
    from cyclopts.help import DefaultFormatter, NameRenderer
    from cyclopts.help.specs import get_default_parameter_columns

    columns = None
    if panel.format == "parameter":
        columns = get_default_parameter_columns(console, options, panel.entries)
        names, flags = NameRenderer(), list[str]()
        for entry in panel.entries:
            flags += str(names(entry)).replace(" -", "\n-").splitlines()
        usual = next(column.max_width or 0 for column in columns if column.header == "Option")
        width = max(usual, min(max(map(len, flags), default=0), console.width // 2))
        columns = tuple(
            evolve(column, renderer=NameRenderer(width), max_width=width) if column.header == "Option" else column
            for column in columns
        )
    DefaultFormatter(column_specs=columns)(console, options, panel)


def _whole_help(place: str) -> str:
    """The docstring of a command's function, with each paragraph on one line; empty: it has commands of its own."""
    module, _, name = place.partition(":")
    found = getattr(importlib.import_module(module), name)
    paragraphs = (inspect.getdoc(found) or "").split("\n\n") if inspect.isfunction(found) else []
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def build_app(asked: str | None = None) -> App:
    """The ``tau-train`` application.

    Args:
        asked: the command to run. If it is not one of ours, it is looked for in other packages. That takes time, so
            the list of commands does not show theirs.

    Raises:
        SettingsError: it is a plug-in that cannot be loaded.
    """
    app = App(
        name="tau-train",
        help=_ABOUT,
        version=f"tau-train {__version__}",
        help_format="plaintext",
        help_formatter=_show_panel,
        default_parameter=Parameter(negative="", show_default=False),
        group_commands=_OTHER,
        suppress_keyboard_interrupt=False,
    )
    for position, (name, target, group) in enumerate(_COMMANDS):
        place = f"tau_trainer.cli.{target}" if target else plugins.place("commands", name)
        text = _whole_help(place) if name == asked and target else ""
        app.command(place, name=name, group=group, help=text or _HELP[name], sort_key=position)
    if asked in plugins.own("commands"):
        plugins.load("commands", asked)  # the parser's own error would not say what to do
    elif asked and asked not in app and asked in plugins.others("commands"):
        app.command(plugins.load("commands", asked), name=asked)
    return app

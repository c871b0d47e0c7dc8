"""The application: every command by name, each imported only when it runs."""

from __future__ import annotations

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
_PARALLEL = """Train TauAgent-AgentTrainer pairs side by side, then evaluate and export.

Each pair is an agent and its trainer, with its own engine. All files of the run go to results/RUN-ID. \
Press Ctrl-C once to finish, save and export; press it twice to save and quit."""
_LEARN = """Train the behaviors of an ML-Agents file.

Flags and keys mean the same as in mlagents-learn. Without --env, it waits for the editor: press Play when it \
asks you to."""
_BATCH = """Train the policies of an environment whose copies are tensors on one device.

Acting, stepping and learning all stay on that device. The file names the environment and its policies; cartpole_batch \
is included as an example. All files of the run go to results/RUN-ID. Press Ctrl-C to save, evaluate and export."""
_SCALE = """Find how many copies of a batched environment, and how large a batch, train fastest here.

It doubles each size while that makes training faster, then bisects. Each size is tried in its own process, so \
running out of memory does no harm. Your file is not changed: the sizes are written to a copy. If you press Ctrl-C, \
the results so far are kept."""
_INIT = """Write a settings file to start from, with a comment for every key.

With --env GAME it starts the game once, plays for some seconds, and writes what fits: a section for each behavior, \
the algorithm by the rule of advise, poca for groups, self-play for teams. The file is FOLDER/GAME.yaml. Without --env \
it is FOLDER/config.yaml, for any game. Ctrl-C: nothing is written."""
_CHECK = """Validate a config and show what it would train.

Accepts the flags of learn and starts nothing. Shows what would run on which engines, what differs from \
mlagents-learn, keys without effect, and every mistake with its line. Exit code: 0 if it would run, 2 if not."""
_FIND = "Find a learning rate, an optimizer or the best of several settings with short trials."
_SWEEP = """Hyperparameter sweep: run many trials, stop weak ones early.

The sweep section of the file names the settings to search and a scheduler of Ray Tune: successive halving, \
population-based training, or none. Trials are runs in results/sweep-NAME; the best settings are written there too. \
Ctrl-C saves the trials. Resume with --resume, even after the process was killed."""
_ADVISE = """Measure a game and recommend an algorithm and a number of engines.

Plays and learns for a minute to measure the time of a game step, the time of a gradient step on this machine, and \
whether more engines or a higher time scale help. Prints the recommended settings file, or writes it to --output. A \
minute is too short to measure how many decisions the task needs. If you press Ctrl-C, the results so far are kept."""
_UPGRADE = """Convert a settings file of older ML-Agents (before 0.19).

List its curriculum and sampler files after it. The result is NAME-upgraded.yaml, next to the first file, unless you \
choose another place."""
_EVALUATE = """Evaluate a finished run on test rows.

Plays every row once with the deterministic action. Compares reward and decoded accuracy with baselines that use no \
input (zeros, the best constant, the majority answer) and with supervised learners (ridge, nearest neighbour, a \
logistic classifier)."""
_RECORD = """Play an environment and record a demonstration (.demo).

PLAYER is a run's id or folder, `random`, or MODULE:FUNCTION, a function from spec, observations and mask to actions. \
You can learn from the file here (bc, iql, awac, gail, airl, behavioral_cloning) and in mlagents-learn."""
_DEMO = "Inspect and convert recordings (.demo)."
_EXPORT = """Write a run's policy as ONNX for Unity.

The command compares the file with the network, using onnxruntime, before it returns."""
_STATUS = """Watch a run in another process or on another machine.

Shows the run's live table from any machine that can read its folder: pairs, speed, the age of policies, what the run \
waits for. With --watch, it updates until the run ends."""
_TENSORBOARD = """Start TensorBoard on your runs.

It shows the results folder, or the runs that you name, and prints its address. Reward, episode length, losses and the \
age of the policy are pinned to the top. It runs until you press Ctrl-C, and changes nothing."""
_REPORT = """Write one HTML file about a run.

Shows curves with bands, the evaluation next to its baselines, settings, machine, faults and checkpoints. The file \
needs no network and opens in any browser. Several runs are shown together, as seeds of the same experiment."""
_PLOT = """Plot reward and losses of runs.

Runs that differ only in their seed share one line with a band; every other run has its own line."""
_ANIMATE = """Render a run's policy as a GIF or MP4.

Plays a Gymnasium environment that can render itself: gym:ID. The run is not changed."""
_PLAY = """Play a game turn by turn between fixed players and networks of runs.

The game is hironaka. Prints for every turn the host's choice, the agent's choice and the remaining points. With \
--playoff, it counts games instead; with --tree, it draws every reply."""
_MATCH = """Play policies against each other on an environment with teams.

A player is a run, a checkpoint, a model (.onnx), `random`, or MODULE:FUNCTION. Every player meets every other one, on \
each side. Prints how often each player won, drew and lost, with a 95 % interval."""
_HUB = "Push a run to the Hugging Face Hub, or pull one from it."
_HEADLESS = """Run the headless engine alone, for any trainer.

Accepts a build's flags and the scenes' own, such as --scene tau --mlagents-port 5004. With --write-build DIR, \
it writes a launcher that mlagents-learn --env accepts as a build. `tau-train headless --help` lists all flags."""
_DOCTOR = """Check that training can work here: Python, torch, packages, ports, results folder.

Prints what it found, with a remedy for each problem. Put the output into a bug report. Exit code: 0 if there is no \
problem, 1 otherwise."""
_CHECK_ENV = """Test a batched environment for mistakes.

Plays it with random actions and checks shapes, types, masks, random numbers, resets, and that copies do not influence \
each other. Then compares it, step by step, with its twin or --against, and on another --device with itself. Exit \
code: 0 if no fault was found, 1 otherwise."""
_CLUSTER = "Start, inspect and stop a Ray cluster on machines that you reach by ssh."
_DATA = "Embed, audit, join and export your own Tau data set."

_COMMANDS = (
    ("parallel", "train.parallel:parallel", _TRAIN, _PARALLEL),
    ("learn", "train.learn:learn", _TRAIN, _LEARN),
    ("batch", "train.batch:batch", _TRAIN, _BATCH),
    ("scale", "train.scale:scale", _TRAIN, _SCALE),
    ("init", "train.init:init", _TRAIN, _INIT),
    ("check", "train.check:check", _TRAIN, _CHECK),
    ("advise", "train.advise:advise", _TRAIN, _ADVISE),
    ("find", "train.find:app", _TRAIN, _FIND),
    ("sweep", "train.sweep:sweep_command", _TRAIN, _SWEEP),
    ("upgrade", "train.upgrade:upgrade_command", _TRAIN, _UPGRADE),
    ("record", "look.record:record_command", _RESULT, _RECORD),
    ("demo", "look.demo:app", _RESULT, _DEMO),
    ("evaluate", "look.evaluate:evaluate_command", _RESULT, _EVALUATE),
    ("export", "look.export:export_command", _RESULT, _EXPORT),
    ("status", "look.status:status_command", _RESULT, _STATUS),
    ("tensorboard", "look.tensorboard:tensorboard_command", _RESULT, _TENSORBOARD),
    ("report", "look.report:report_command", _RESULT, _REPORT),
    ("plot", "look.plot:plot_command", _RESULT, _PLOT),
    ("animate", "look.animate:animate_command", _RESULT, _ANIMATE),
    ("play", "", _RESULT, _PLAY),
    ("match", "look.match:match_command", _RESULT, _MATCH),
    ("hub", "look.hub:app", _RESULT, _HUB),
    ("doctor", "parts.doctor:doctor", _PARTS, _DOCTOR),
    ("headless", "parts.headless:headless", _PARTS, _HEADLESS),
    ("check-env", "parts.check_env:check_env_command", _PARTS, _CHECK_ENV),
    ("cluster", "parts.cluster:app", _PARTS, _CLUSTER),
    ("data", "parts.data:app", _PARTS, _DATA),
)
"""Name, function below this folder (empty: a plug-in), group, and help.

The first paragraph of the help is also in the list of commands."""


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
    for position, (name, target, group, text) in enumerate(_COMMANDS):
        place = f"tau_trainer.cli.{target}" if target else plugins.place("commands", name)
        app.command(place, name=name, group=group, help=text, sort_key=position)
    if asked in plugins.own("commands"):
        plugins.load("commands", asked)  # the parser's own error would not say what to do
    elif asked and asked not in app and asked in plugins.others("commands"):
        app.command(plugins.load("commands", asked), name=asked)
    return app

"""The application: every command by name, none imported before it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App, Group, Parameter

from tau_trainer import __version__

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

_TRAIN = Group("Train", sort_key=1)
_RESULT = Group("Use the result", sort_key=2)
_PARTS = Group("The parts alone", sort_key=3)
_OTHER = Group("Other", sort_key=4)

_ABOUT = """Train Unity ML-Agents environments, and Tau pairs, over ML-Agents' own wire protocol.

Begin with: tau-train parallel --pairs 4"""
_PARALLEL = """Train TauAgent-AgentTrainer pairs side by side, then evaluate and export.

Each pair is an agent with its trainer on an engine of its own. Everything about the run lands in results/RUN-ID. \
Ctrl-C once: finish, save, export. Twice: save and go."""
_LEARN = """Train the behaviors of an ML-Agents file.

Flags and keys mean what they mean to mlagents-learn. Without --env it waits for the Unity editor: press Play when it \
says so."""
_BATCH = """Train the policies of an environment whose copies are tensors on one device.

Acting, stepping and learning never leave it. The file names the environment and its policies; cartpole_batch is one \
that comes along. Everything about the run lands in results/RUN-ID. Ctrl-C: save, evaluate and export."""
_SCALE = """Find how many copies of a batched environment, and how large a batch, train fastest here.

Sizes are doubled while a doubling pays, then bisected; each is tried in a process of its own, so that memory may run \
out. The file stays as it is: a copy of it gets the figures. Ctrl-C keeps what was found."""
_INIT = """Write a settings file to start from, with a comment for every key.

With --env GAME it starts the game once, plays for some seconds, and writes what fits: a section for each behavior, \
the algorithm by the rule of advise, poca for groups, self-play for teams. The file is FOLDER/GAME.yaml. Without --env \
it is FOLDER/config.yaml, for any game. Ctrl-C: nothing is written."""
_CHECK = """Say what a file would train, and what is wrong with it.

Takes the flags of learn and starts nothing. Tells what would run on which engines, what differs from mlagents-learn, \
keys without effect, and every mistake with its line. Exit code 0 if it would run, 2 if not."""
_FIND = "Find a learning rate, an optimizer or the best of several settings by short trials."
_SWEEP = """Search settings by many runs, of which the better ones go on.

The file's section sweep says what is searched, and by which scheduler of Ray Tune: successive halving, \
population-based training, or none. Trials are runs in results/sweep-NAME; the best settings become a file there. \
Ctrl-C saves them, and --resume goes on, also after a kill."""
_ADVISE = """Measure a game, and say which algorithm and how many engines suit it.

Plays for a minute and learns a little of it: what a step of the game costs, what a gradient step costs here, whether \
more engines or a higher time scale help. Prints the settings file that follows, or writes it to --output. How many \
decisions the task takes cannot be measured in a minute. Ctrl-C keeps what was measured."""
_UPGRADE = """Convert a settings file of older ML-Agents (before 0.19).

Curriculum and sampler files that belong to it come after it. The result stands beside the first file, as \
NAME-upgraded.yaml, unless told otherwise."""
_EVALUATE = """Evaluate a finished run on test rows.

Every row once, with the deterministic action: reward and decoded accuracy beside what knows nothing (zeros, the best \
constant, the majority answer) and supervised learners (ridge, nearest neighbour, a logistic classifier)."""
_RECORD = """Play an environment and write what happens as a demonstration (.demo).

PLAYER is a run's id or folder, `random`, or MODULE:FUNCTION, a function from spec, observations and mask to actions. \
The file can be learned from here (bc, iql, awac, gail, airl, behavioral_cloning) and by mlagents-learn."""
_DEMO = "Look at recordings (.demo), and convert them."
_EXPORT = """Write a run's policy as ONNX for Unity.

The file is checked with onnxruntime against the network before the command returns."""
_STATUS = """Show how a run does that goes on elsewhere.

Its live table, from any machine that sees its folder: pairs, speed, the age of policies, what is waited for. --watch \
goes on until it has ended."""
_TENSORBOARD = """Start TensorBoard on your runs.

It shows the results folder, or the runs that you name, and prints its address. Reward, episode length, losses and the \
age of the policy are pinned to the top. It runs until you press Ctrl-C, and changes nothing."""
_REPORT = """Write one HTML file about a run.

Curves with bands, the evaluation beside its baselines, settings, machine, faults and checkpoints. It needs no network \
and opens anywhere. Several runs are shown together, as seeds of one thing."""
_PLOT = """Draw reward and losses of runs as a picture.

Runs that differ in nothing but their seed are one line with a band; others have a line each."""
_ANIMATE = """Show a run's policy at play, as a GIF or MP4.

It plays an environment of Gymnasium that can draw itself: gym:ID. Nothing of the run changes."""
_PLAY = """Play a game turn by turn between fixed players and networks of runs.

The game is hironaka. What the host names, what the agent takes and which points are left is printed for every turn; \
--playoff counts games instead, and --tree draws every reply."""
_MATCH = """Play policies against each other on an environment with teams.

A player is a run, a checkpoint, a model (.onnx), `random`, or MODULE:FUNCTION. Everybody meets everybody, in the \
place of each team; who won, drew and lost how often is printed, with an interval of 95 %."""
_HUB = "Put a run on the Hugging Face Hub, or restore one from there."
_HEADLESS = """Run the headless engine alone, for any trainer.

Takes a Unity build's flags and the scenes' own, such as --scene tau --mlagents-port 5004, or --write-build DIR to \
leave a launcher that mlagents-learn --env accepts as a build. `tau-train headless --help` lists them."""
_CHECK_ENV = """Say what is wrong with a batched environment.

Plays it with random actions and looks at shapes, types, masks, random numbers, resets, and whether copies know of \
each other; then compares it, step by step, with its twin or --against, and on another --device with itself. Exit code \
0 if nothing was found, 1 if something was."""
_CLUSTER = "Begin, look at and end a Ray cluster of machines that ssh reaches."
_DATA = "Embed, audit, join and target a Tau data set of your own."

_COMMANDS = (
    ("parallel", "tau_trainer.cli.train.parallel:parallel", _TRAIN, _PARALLEL),
    ("learn", "tau_trainer.cli.train.learn:learn", _TRAIN, _LEARN),
    ("batch", "tau_trainer.cli.train.batch:batch", _TRAIN, _BATCH),
    ("scale", "tau_trainer.cli.train.scale:scale", _TRAIN, _SCALE),
    ("init", "tau_trainer.cli.train.init:init", _TRAIN, _INIT),
    ("check", "tau_trainer.cli.train.check:check", _TRAIN, _CHECK),
    ("advise", "tau_trainer.cli.train.advise:advise", _TRAIN, _ADVISE),
    ("find", "tau_trainer.cli.train.find:app", _TRAIN, _FIND),
    ("sweep", "tau_trainer.cli.train.sweep:sweep_command", _TRAIN, _SWEEP),
    ("upgrade", "tau_trainer.cli.train.upgrade:upgrade_command", _TRAIN, _UPGRADE),
    ("record", "tau_trainer.cli.look.record:record_command", _RESULT, _RECORD),
    ("demo", "tau_trainer.cli.look.demo:app", _RESULT, _DEMO),
    ("evaluate", "tau_trainer.cli.look.evaluate:evaluate_command", _RESULT, _EVALUATE),
    ("export", "tau_trainer.cli.look.export:export_command", _RESULT, _EXPORT),
    ("status", "tau_trainer.cli.look.status:status_command", _RESULT, _STATUS),
    ("tensorboard", "tau_trainer.cli.look.tensorboard:tensorboard_command", _RESULT, _TENSORBOARD),
    ("report", "tau_trainer.cli.look.report:report_command", _RESULT, _REPORT),
    ("plot", "tau_trainer.cli.look.plot:plot_command", _RESULT, _PLOT),
    ("animate", "tau_trainer.cli.look.animate:animate_command", _RESULT, _ANIMATE),
    ("play", "tau_trainer.cli.look.play:play_command", _RESULT, _PLAY),
    ("match", "tau_trainer.cli.look.match:match_command", _RESULT, _MATCH),
    ("hub", "tau_trainer.cli.look.hub:app", _RESULT, _HUB),
    ("headless", "tau_trainer.cli.parts.headless:headless", _PARTS, _HEADLESS),
    ("check-env", "tau_trainer.cli.parts.check_env:check_env_command", _PARTS, _CHECK_ENV),
    ("cluster", "tau_trainer.cli.parts.cluster:app", _PARTS, _CLUSTER),
    ("data", "tau_trainer.cli.parts.data:app", _PARTS, _DATA),
)
"""Name, where it is defined, group, and help, whose first paragraph also stands in the list of commands."""


def _show_panel(console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
    """Draw a panel of a help page, its first column as wide as the longest flag with its value: none is broken."""
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


def build_app() -> App:
    """The ``tau-train`` application."""
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
        app.command(target, name=name, group=group, help=text, sort_key=position)
    return app

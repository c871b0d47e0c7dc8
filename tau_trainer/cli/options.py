"""The flags of commands that train, each declared once: name, help, and the setting that it overrides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter

from tau_trainer.cli.engines import EngineFlags, ManyEngineFlags, PairFlags
from tau_trainer.cli.flags import Sets, Switch, Text, number, text

SEARCH = Group("Search", sort_key=0)
RUN = Group("Run", sort_key=1)
LEARNING = Group("Learning", sort_key=4)
OUTPUT = Group("Output", sort_key=5)

ResultsDir = Annotated[str, Parameter(help="Folder that holds the runs. [default: results]", metavar="DIR")]
Set = Annotated[
    tuple[str, ...],
    text("Any setting by its key, as behaviors.*.hyperparameters.beta=1e-3; may be repeated.", "KEY=VALUE"),
]
Run = Annotated[str, Parameter(help="A run's id, or the path of its folder.")]
Export = Annotated[
    Literal["best", "last"] | None,
    Parameter(help="The best policy, where something chooses one, or the last. [default: as the run's settings]"),
]
Json = Annotated[bool, Parameter(group=OUTPUT, help="One JSON object on stdout, for machines.")]
Debug = Annotated[bool, Parameter(group=OUTPUT, help="Show tracebacks.")]
Force = Annotated[bool, Parameter(help="Overwrite the output file.")]
Output = Annotated[Path, Parameter(name=("--output", "-o"), help="File to write.", metavar="FILE")]
Config = Annotated[
    str | None, Parameter(help="ML-Agents YAML file, or the name of a shipped one. [default: ML-Agents' defaults]")
]


@dataclass(frozen=True, kw_only=True)
class SettingFlags:
    """Where any run begins: settings and a seed."""

    results_dir: Annotated[
        Text, text("Folder that holds the runs. [default: results]", "DIR"), Sets("checkpoint_settings.")
    ] = None
    initialize_from: Annotated[
        Text, text("Begin with the weights of the run of that id.", "ID"), Sets("checkpoint_settings.")
    ] = None
    seed: Annotated[
        Text,
        number("Seed of everything random; engine i gets seed + i. [default: the config's; -1 is a random one]"),
        Sets("env_settings."),
    ] = None
    set: Set = ()
    lenient: Annotated[bool, Parameter(help="Warn of unknown keys in the config instead of refusing them.")] = False


@dataclass(frozen=True, kw_only=True)
class WhichFlags:
    """Which run this is, and where it ends."""

    run_id: Annotated[
        Text,
        text("Name of the run's folder. [default: the config's name, numbered]", "ID"),
        Sets("checkpoint_settings."),
    ] = None
    resume: Annotated[Switch, Parameter(help="Go on with the run of this id."), Sets("checkpoint_settings.")] = None
    force: Annotated[Switch, Parameter(help="Overwrite the run of this id."), Sets("checkpoint_settings.")] = None
    inference: Annotated[
        Switch,
        Parameter(help="Play the run of this id, and change nothing of it."),
        Sets("checkpoint_settings."),
    ] = None
    max_steps: Annotated[
        Text, number("Decisions to learn from, of all agents together. [default: the config's]"), Sets("behaviors.*.")
    ] = None
    criterion: Annotated[
        Text,
        number("End a behavior whose mean reward of trial_count episodes reaches this.", "REWARD"),
        Sets("behaviors.*."),
    ] = None
    trial_count: Annotated[Text, number("Episodes that --criterion looks at. [default: 100]"), Sets("behaviors.*.")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class AnyRunFlags(SettingFlags, WhichFlags):
    """A run of whatever kind."""

    @property
    def folder_of_runs(self) -> Path:
        """Where runs are."""
        return Path(self.results_dir or "results")

    @property
    def again(self) -> str | None:
        """The flag that asks for a run that is there; None: a new one begins."""
        return "--inference" if self.inference else "--resume" if self.resume else None


@Parameter(name="*", group=RUN)
@dataclass(frozen=True, kw_only=True)
class RunFlags(AnyRunFlags):
    """Which run of behaviors or pairs this is."""

    export: Annotated[
        Literal["best", "last"] | None,
        Parameter(help="Policy to export: the best, where something chooses one, or the last. [default: best]"),
        Sets("checkpoint_settings."),
    ] = None
    devices: Annotated[
        Text,
        number("Processes that learn together, each from its part of every minibatch; on GPUs one each. [default: 1]"),
        Sets("devices"),
    ] = None
    strategy: Annotated[
        Literal["mirrored", "parameter_server"] | None,
        Parameter(help="Whether they learn as one, or each from rollouts of its own. [default: mirrored]"),
        Sets("strategy"),
    ] = None


@Parameter(name="*", group=RUN)
@dataclass(frozen=True, kw_only=True)
class BatchFlags(AnyRunFlags):
    """Which batched run this is."""

    num_envs: Annotated[Text, number("Copies of the environment."), Sets("environment.")] = None
    device: Annotated[
        Text,
        text("Where everything is computed: cpu, cuda, cuda:N, mps. [default: cpu]", "DEVICE"),
        Sets("torch_settings."),
    ] = None
    devices: Annotated[
        Text,
        number("Processes that train together, each with its share of the copies; on GPUs one each. [default: 1]"),
        Sets("devices"),
    ] = None
    compile: Annotated[
        Literal["auto", "on", "off"] | None,
        Parameter(help="Compile stepping and acting: where a probe finds it faster, always, never. [default: auto]"),
        Sets("compile"),
    ] = None


@Parameter(name="*", group=SEARCH)
@dataclass(frozen=True, kw_only=True)
class FindFlags(SettingFlags):
    """What every search takes."""

    metric: Annotated[
        Literal["reward", "loss"], Parameter(help="What is compared: reward of an episode, or loss. [default: reward]")
    ] = "reward"
    output: Annotated[
        Path | None,
        Parameter(
            name=("--output", "--out", "-o"),
            help="Folder for table and picture, new or empty. [default: results/find-...]",
            metavar="DIR",
        ),
    ] = None


@Parameter(name="*", group=LEARNING)
@dataclass(frozen=True, kw_only=True)
class ClusterFlags:
    """Actors, a batched run's ranks, or trials, on other machines."""

    cluster: Annotated[
        Text,
        text(
            "Play on the nodes of a Ray cluster: local[:N], a private one of N nodes here, HOST:PORT, or RAY_ADDRESS, "
            "what that variable says.",
            "ADDRESS",
        ),
        Sets("cluster.address"),
    ] = None
    insecure: Annotated[
        Switch, Parameter(help="Connect to a cluster that asks for no token."), Sets("cluster.insecure")
    ] = None


@Parameter(name="*", group=SEARCH)
@dataclass(frozen=True, kw_only=True)
class CompareFlags(FindFlags):
    """What searches by several trials take as well."""

    decisions: Annotated[
        int | None,
        Parameter(help="Decisions of each trial. [default: 20 updates, or off-policy 10,000 decisions]", metavar="N"),
    ] = None
    jobs: Annotated[
        int | None, Parameter(help="Trials at a time. [default: one a core, or as many as fit on nodes]", metavar="N")
    ] = None
    cluster: ClusterFlags = ClusterFlags()


@Parameter(name="*", group=SEARCH)
@dataclass(frozen=True, kw_only=True)
class SweepFlags(SettingFlags):
    """What a sweep takes besides the flags of its trials."""

    trials: Annotated[
        Text, number("Runs, each with values of its own. [default: the config's, or 10]"), Sets("sweep.")
    ] = None
    jobs: Annotated[int | None, Parameter(help="Trials at a time. [default: as many as fit]", metavar="N")] = None
    output: Annotated[
        Path | None,
        Parameter(
            name=("--output", "--out", "-o"),
            help="Folder of the sweep, new or empty. [default: results/sweep-...]",
            metavar="DIR",
        ),
    ] = None
    resume: Annotated[bool, Parameter(help="Go on with the sweep of that folder, or the newest of this name.")] = False
    cluster: Annotated[
        Text,
        text("Nodes of which Ray cluster: local[:N], HOST:PORT, or RAY_ADDRESS. [default: local]", "ADDRESS"),
        Sets("sweep.cluster.address"),
    ] = None
    insecure: Annotated[
        Switch, Parameter(help="Connect to a cluster that asks for no token."), Sets("sweep.cluster.insecure")
    ] = None


@Parameter(name="*", group=LEARNING)
@dataclass(frozen=True, kw_only=True)
class LearningFlags:
    """How learning runs."""

    deterministic_collection: Annotated[
        Switch,
        Parameter(help="Learning and collection take turns: the same seed is the same run, to the bit."),
        Sets("collection.deterministic"),
    ] = None
    deterministic: Annotated[
        Switch,
        Parameter(help="Take the most likely action instead of a sample."),
        Sets("behaviors.*.network_settings."),
    ] = None
    torch_device: Annotated[
        Text,
        text("Device that learns: cpu, cuda, cuda:N, mps. [default: cpu]", "DEVICE"),
        Sets("torch_settings.device"),
    ] = None


@Parameter(name="*", group=LEARNING)
@dataclass(frozen=True, kw_only=True)
class ActorFlags:
    """Actors in processes of their own; ``learn`` alone has them."""

    execution: Annotated[
        Literal["sync", "async"] | None,
        Parameter(help="Everything in one process, or actors in processes of their own. [default: sync]"),
        Sets("execution"),
    ] = None
    actors: Annotated[
        Text,
        number("Actors, an environment each; with them --execution is async. [default: 4]"),
        Sets("async_trainer."),
    ] = None


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """What is shown."""

    quiet: Annotated[bool, Parameter(help="Show nothing but errors.")] = False
    json: Annotated[bool, Parameter(help="One JSON object a line on stdout, for machines.")] = False
    debug: Annotated[Switch, Parameter(help="Show tracebacks."), Sets("debug")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LegacyFlags:
    """Flags of mlagents-learn that are deprecated there."""

    load: Annotated[Switch, Parameter(show=False), Sets("checkpoint_settings.resume")] = None
    train: Annotated[bool, Parameter(show=False)] = False
    torch: Annotated[bool, Parameter(show=False)] = False
    tensorflow: Annotated[bool, Parameter(show=False)] = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrialFlags:
    """All of a trial's flags: those of ``learn`` that a search has."""

    engines: ManyEngineFlags = ManyEngineFlags()
    learning: LearningFlags = LearningFlags()
    output: OutputFlags = OutputFlags()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LearnFlags(TrialFlags):
    """All flags of ``learn``, which are those of ``check``."""

    run: RunFlags = RunFlags()
    actors: ActorFlags = ActorFlags()
    cluster: ClusterFlags = ClusterFlags()
    legacy: LegacyFlags = LegacyFlags()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ParallelFlags:
    """All flags of ``parallel``."""

    pairs: PairFlags = PairFlags()
    run: RunFlags = RunFlags()
    engines: EngineFlags = EngineFlags()
    learning: LearningFlags = LearningFlags()
    cluster: ClusterFlags = ClusterFlags()
    output: OutputFlags = OutputFlags()


def commands(name: str, about: str) -> App:
    """A command that has commands of its own."""
    default = Parameter(negative="", show_default=False)
    return App(
        name=name, help=about, help_format="plaintext", group_commands=Group("Commands"), default_parameter=default
    )

"""Flags of the commands that train, each declared once: name, help, and the setting that it overrides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter

from tau_trainer.cli.engines import EngineFlags, ManyEngineFlags, PairFlags
from tau_trainer.cli.flags import Sets, Switch, Text, flag_group, number, output_to, valued

SEARCH = Group("Search", sort_key=0)
RUN = Group("Run", sort_key=1)
LEARNING = Group("Learning", sort_key=4)
OUTPUT = Group("Output", sort_key=5)

ResultsDir = Annotated[str, valued("Folder that holds the runs. [default: results]", "DIR")]
Set = Annotated[
    tuple[str, ...],
    valued("Override any setting, such as behaviors.*.hyperparameters.beta=1e-3; may be repeated.", "KEY=VALUE"),
]
Run = Annotated[str, Parameter(help="A run's id, or the path of its folder.")]
Export = Annotated[
    Literal["best", "last"] | None,
    Parameter(help="The best policy, if the run chooses one, or the last. [default: the run's setting]"),
]
Json = Annotated[bool, Parameter(group=OUTPUT, help="Print one JSON object to stdout.")]
Debug = Annotated[bool, Parameter(group=OUTPUT, help="Show tracebacks.")]
Force = Annotated[bool, Parameter(help="Overwrite the output file.")]
Output = Annotated[Path, output_to("File to write.")]
Config = Annotated[
    str | None, Parameter(help="ML-Agents YAML file, or the name of a shipped one. [default: ML-Agents' defaults]")
]


@dataclass(frozen=True, kw_only=True)
class SettingFlags:
    """The start of any run: settings and a seed."""

    results_dir: Annotated[
        Text, valued("Folder that holds the runs. [default: results]", "DIR"), Sets("checkpoint_settings.")
    ] = None
    initialize_from: Annotated[
        Text, valued("Start with the weights of the run with this id.", "ID"), Sets("checkpoint_settings.")
    ] = None
    seed: Annotated[
        Text,
        number("Random seed; engine i gets seed + i. [default: the config's; -1 draws one]"),
        Sets("env_settings."),
    ] = None
    set: Set = ()
    lenient: Annotated[bool, Parameter(help="Warn about unknown keys in the config instead of stopping.")] = False

    def of_run(self, changes: Sequence[str], **others: Any) -> RunFlags:
        """The same flags for a run with these ``changes``, whose keys may lack ``behaviors.*``, and ``others``."""
        from tau_trainer.settings import full_key

        shared = {field.name: getattr(self, field.name) for field in fields(SettingFlags)}
        return RunFlags(**shared | others | {"set": tuple(map(full_key, changes))})


@dataclass(frozen=True, kw_only=True)
class WhichFlags:
    """The run's name, and the end of its training."""

    run_id: Annotated[
        Text,
        valued("Name of the run's folder. [default: the config's name, numbered]", "ID"),
        Sets("checkpoint_settings."),
    ] = None
    resume: Annotated[Switch, Parameter(help="Resume this run."), Sets("checkpoint_settings.")] = None
    force: Annotated[Switch, Parameter(help="Overwrite this run."), Sets("checkpoint_settings.")] = None
    inference: Annotated[
        Switch,
        Parameter(help="Play the policies of this run without training or changing it."),
        Sets("checkpoint_settings."),
    ] = None
    max_steps: Annotated[
        Text, number("Decisions to train for, summed over all agents. [default: the config's]"), Sets("behaviors.*.")
    ] = None
    criterion: Annotated[
        Text,
        number("Stop training a behavior if its mean reward over trial_count episodes reaches this.", "REWARD"),
        Sets("behaviors.*."),
    ] = None
    trial_count: Annotated[
        Text, number("Episodes to average for --criterion. [default: 100]"), Sets("behaviors.*.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class AnyRunFlags(SettingFlags, WhichFlags):
    """Flags of a run of any kind."""

    @property
    def folder_of_runs(self) -> Path:
        """The folder that holds the runs."""
        return Path(self.results_dir or "results")

    @property
    def again(self) -> str | None:
        """The flag that continues an existing run; None for a new run."""
        return "--inference" if self.inference else "--resume" if self.resume else None


@flag_group(RUN)
class RunFlags(AnyRunFlags):
    """Flags of a run of behaviors or pairs."""

    export: Annotated[
        Literal["best", "last"] | None,
        Parameter(help="Policy to export: the best, if the run chooses one, or the last. [default: best]"),
        Sets("checkpoint_settings."),
    ] = None
    devices: Annotated[
        Text,
        number("Processes that share every minibatch, with one GPU each if there are GPUs. [default: 1]"),
        Sets("devices"),
    ] = None
    strategy: Annotated[
        Literal["mirrored", "parameter_server"] | None,
        Parameter(help="With --devices: all learn from the same rollouts, or each from its own. [default: mirrored]"),
        Sets("strategy"),
    ] = None


@flag_group(RUN)
class BatchFlags(AnyRunFlags):
    """Flags of a batched run."""

    num_envs: Annotated[Text, number("Copies of the environment."), Sets("environment.")] = None
    device: Annotated[
        Text,
        valued("Device for all computation: cpu, cuda, cuda:N, mps. [default: cpu]", "DEVICE"),
        Sets("torch_settings."),
    ] = None
    devices: Annotated[
        Text,
        number("Processes that share the copies, with one GPU each if there are GPUs. [default: 1]"),
        Sets("devices"),
    ] = None
    compile: Annotated[
        Literal["auto", "on", "off"] | None,
        Parameter(help="Compile stepping and acting: if a probe is faster, always, or never. [default: auto]"),
        Sets("compile"),
    ] = None


@flag_group(SEARCH)
class FindFlags(SettingFlags):
    """Flags of every search."""

    metric: Annotated[
        Literal["reward", "loss"], Parameter(help="Value to compare: reward of an episode, or loss. [default: reward]")
    ] = "reward"
    output: Annotated[
        Path | None,
        output_to("New or empty folder for the table and the plot. [default: results/find-...]", "DIR", "--out"),
    ] = None


@flag_group(LEARNING)
class ClusterFlags:
    """Flags for actors, a batched run's ranks, or trials on other machines."""

    cluster: Annotated[
        Text,
        valued(
            "Play on the nodes of a Ray cluster: local[:N] (a private cluster of N nodes on this machine), HOST:PORT, "
            "or RAY_ADDRESS (the value of that variable).",
            "ADDRESS",
        ),
        Sets("cluster.address"),
    ] = None
    insecure: Annotated[
        Switch, Parameter(help="Connect to a cluster that requires no token."), Sets("cluster.insecure")
    ] = None


@flag_group(SEARCH)
class CompareFlags(FindFlags):
    """Additional flags of searches with several trials."""

    decisions: Annotated[
        int | None,
        valued("Decisions for each trial. [default: 20 updates, or 10,000 if off-policy]", "N"),
    ] = None
    jobs: Annotated[
        int | None,
        valued("Trials at once. [default: one per core, or as many as fit on nodes]", "N"),
    ] = None
    cluster: ClusterFlags = ClusterFlags()


@flag_group(SEARCH)
class SweepFlags(SettingFlags):
    """Flags of a sweep, in addition to those of its trials."""

    trials: Annotated[
        Text, number("Number of runs with different values. [default: the config's, or 10]"), Sets("sweep.")
    ] = None
    jobs: Annotated[int | None, valued("Trials at once. [default: as many as fit]", "N")] = None
    output: Annotated[
        Path | None, output_to("New or empty folder for the sweep. [default: results/sweep-...]", "DIR", "--out")
    ] = None
    resume: Annotated[bool, Parameter(help="Resume the sweep in --output, or the newest of this config.")] = False
    cluster: Annotated[
        Text,
        valued("Ray cluster to use: local[:N], HOST:PORT, or RAY_ADDRESS. [default: local]", "ADDRESS"),
        Sets("sweep.cluster.address"),
    ] = None
    insecure: Annotated[
        Switch, Parameter(help="Connect to a cluster that requires no token."), Sets("sweep.cluster.insecure")
    ] = None


@flag_group(LEARNING)
class LearningFlags:
    """Flags of learning."""

    deterministic_collection: Annotated[
        Switch,
        Parameter(help="Collect and learn in turns, so that the same seed gives the same run, bit for bit."),
        Sets("collection.deterministic"),
    ] = None
    deterministic: Annotated[
        Switch,
        Parameter(help="Take the most likely action instead of a sample."),
        Sets("behaviors.*.network_settings."),
    ] = None
    torch_device: Annotated[
        Text,
        valued("Device for learning: cpu, cuda, cuda:N, mps. [default: cpu]", "DEVICE"),
        Sets("torch_settings.device"),
    ] = None


@flag_group(LEARNING)
class ActorFlags:
    """Flags of actors in separate processes; only ``learn`` has them."""

    execution: Annotated[
        Literal["sync", "async"] | None,
        Parameter(help="Run everything in one process, or actors in separate processes. [default: sync]"),
        Sets("execution"),
    ] = None
    actors: Annotated[
        Text,
        number("Actors with one environment each; implies --execution async. [default: 4]"),
        Sets("async_trainer."),
    ] = None


@flag_group(OUTPUT)
class OutputFlags:
    """Flags of the output."""

    quiet: Annotated[bool, Parameter(help="Show only errors.")] = False
    json: Annotated[bool, Parameter(help="Print one JSON object per line to stdout.")] = False
    log: Annotated[Path | None, valued("Write all output to FILE instead, errors included.", "FILE")] = None
    debug: Annotated[Switch, Parameter(help="Show tracebacks."), Sets("debug")] = None


@flag_group()
class LegacyFlags:
    """Deprecated flags of mlagents-learn."""

    load: Annotated[Switch, Parameter(show=False), Sets("checkpoint_settings.resume")] = None
    train: Annotated[bool, Parameter(show=False)] = False
    torch: Annotated[bool, Parameter(show=False)] = False
    tensorflow: Annotated[bool, Parameter(show=False)] = False


@flag_group()
class TrialFlags:
    """All flags of a trial: the flags of ``learn`` that searches share."""

    engines: ManyEngineFlags = ManyEngineFlags()
    learning: LearningFlags = LearningFlags()
    output: OutputFlags = OutputFlags()


@flag_group()
class LearnFlags(TrialFlags):
    """All flags of ``learn`` and ``check``."""

    run: RunFlags = RunFlags()
    actors: ActorFlags = ActorFlags()
    cluster: ClusterFlags = ClusterFlags()
    legacy: LegacyFlags = LegacyFlags()


@flag_group()
class ParallelFlags:
    """All flags of ``parallel``."""

    pairs: PairFlags = PairFlags()
    run: RunFlags = RunFlags()
    engines: EngineFlags = EngineFlags()
    learning: LearningFlags = LearningFlags()
    cluster: ClusterFlags = ClusterFlags()
    output: OutputFlags = OutputFlags()


def commands(name: str) -> App:
    """A command with subcommands; its help is in the table of commands."""
    default = Parameter(negative="", show_default=False)
    return App(name=name, help_format="plaintext", group_commands=Group("Commands"), default_parameter=default)

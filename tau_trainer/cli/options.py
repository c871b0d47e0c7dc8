"""The flags of ``parallel`` and ``learn``, each declared once: name, help, and the setting that it overrides.

Numbers stay texts here. The settings read them (``1e6`` included) and say what is wrong with them, so that a flag and
a line of YAML get the same check and the same sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

from cyclopts import Group, Parameter

RUN = Group("Run", sort_key=1)
PAIRS = Group("Pairs", sort_key=2)
ENGINES = Group("Engines", sort_key=3)
LEARNING = Group("Learning", sort_key=4)
OUTPUT = Group("Output", sort_key=5)

Text = str | None
Switch = bool | None
"""None: the flag was not given."""


@dataclass(frozen=True)
class Sets:
    """The setting that a flag overrides, and the value that a bare flag stands for."""

    path: str
    """Dotted key; ``behaviors.*`` means every behavior. After a dot at the end comes the flag's own name."""
    value: Any = True


def _text(text: str, metavar: str) -> Parameter:
    return Parameter(help=text, metavar=metavar)


def _number(text: str, metavar: str = "N") -> Parameter:
    return Parameter(help=text, metavar=metavar, allow_leading_hyphen=True)


@Parameter(name="*", group=RUN)
@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """Which run this is."""

    run_id: Annotated[
        Text,
        _text("Name of the run's folder. [default: the config's name, numbered]", "ID"),
        Sets("checkpoint_settings."),
    ] = None
    results_dir: Annotated[
        Text, _text("Folder that holds the runs. [default: results]", "DIR"), Sets("checkpoint_settings.")
    ] = None
    resume: Annotated[Switch, Parameter(help="Go on with the run of this id."), Sets("checkpoint_settings.")] = None
    force: Annotated[Switch, Parameter(help="Overwrite the run of this id."), Sets("checkpoint_settings.")] = None
    inference: Annotated[
        Switch,
        Parameter(help="Play the run of this id, and change nothing of it."),
        Sets("checkpoint_settings."),
    ] = None
    export: Annotated[
        Literal["best", "last"] | None,
        Parameter(help="Policy to export: the best by validation, where there is one, or the last. [default: best]"),
        Sets("checkpoint_settings."),
    ] = None
    initialize_from: Annotated[
        Text, _text("Begin with the weights of the run of that id.", "ID"), Sets("checkpoint_settings.")
    ] = None
    seed: Annotated[
        Text,
        _number("Seed of everything random; engine i gets seed + i. [default: -1, a random one]"),
        Sets("env_settings."),
    ] = None
    max_steps: Annotated[
        Text, _number("Decisions to learn from, over all engines. [default: the config's]"), Sets("behaviors.*.")
    ] = None
    criterion: Annotated[
        Text,
        _number("End a behavior whose mean reward of trial_count episodes reaches this.", "REWARD"),
        Sets("behaviors.*."),
    ] = None
    trial_count: Annotated[
        Text, _number("Episodes that --criterion looks at. [default: 100]"), Sets("behaviors.*.")
    ] = None
    set: Annotated[
        tuple[str, ...],
        _text("Any setting by its key, as behaviors.*.hyperparameters.beta=1e-3; may be repeated.", "KEY=VALUE"),
    ] = ()
    lenient: Annotated[bool, Parameter(help="Warn of unknown keys in the config instead of refusing them.")] = False


@Parameter(name="*", group=PAIRS)
@dataclass(frozen=True, kw_only=True)
class PairFlags:
    """TauAgent-AgentTrainer pairs."""

    pairs: Annotated[Text, _number("Pairs to train, an engine each. [default: 4]"), Sets("tau.")] = None
    max_concurrent: Annotated[
        Text, _number("Pairs that run at once. [default: as many as make sense here]", "M"), Sets("tau.")
    ] = None
    policy: Annotated[
        Literal["shared", "independent"] | None,
        Parameter(help="One policy for all pairs, or one for each. [default: shared]"),
        Sets("tau."),
    ] = None
    agents: Annotated[Text, _number("Agents in every engine. [default: 32]"), Sets("tau.")] = None
    credit: Annotated[
        Literal["component", "aggregate"] | None,
        Parameter(help="Each action component gets its own advantage, or all share the mean's. [default: component]"),
        Sets("tau.reward."),
    ] = None
    data: Annotated[
        Text, _text("Tau data set (JSON) to train on. [default: the one that comes along]", "FILE"), Sets("tau.")
    ] = None
    no_evaluate: Annotated[
        Switch, Parameter(help="Choose and evaluate nothing by held-out rows."), Sets("tau.evaluate", False)
    ] = None


@Parameter(name="*", group=ENGINES)
@dataclass(frozen=True, kw_only=True)
class EngineFlags:
    """How engines are started and run; names and meaning as in mlagents-learn."""

    env: Annotated[
        Text,
        _text(
            "A Unity build, headless:SCENE, batched:tau, gym:ID, pettingzoo:MODULE, or editor (press Play; port 5004).",
            "ENV",
        ),
    ] = None
    base_port: Annotated[Text, _number("First port to listen on. [default: 5005]", "P"), Sets("env_settings.")] = None
    listen: Annotated[
        Text,
        _text("Address to listen on instead of this machine alone; no password protects it.", "ADDRESS"),
        Sets("collection."),
    ] = None
    tls_cert: Annotated[
        Text, _text("Certificate (PEM) for --listen, which is clear text without.", "FILE"), Sets("collection.")
    ] = None
    tls_key: Annotated[Text, _text("Private key (PEM) of --tls-cert.", "FILE"), Sets("collection.")] = None
    timeout_wait: Annotated[
        Text, _number("Seconds to wait for an engine. [default: 60]", "S"), Sets("env_settings.")
    ] = None
    no_graphics: Annotated[Switch, Parameter(help="Start players without graphics."), Sets("engine_settings.")] = None
    no_graphics_monitor: Annotated[
        Switch, Parameter(help="The same, but the first player shows its window."), Sets("engine_settings.")
    ] = None
    time_scale: Annotated[
        Text, _number("Game seconds for each real second. [default: 20]", "X"), Sets("engine_settings.")
    ] = None
    target_frame_rate: Annotated[
        Text, _number("Frames a second; -1 = unlimited. [default: -1]"), Sets("engine_settings.")
    ] = None
    capture_frame_rate: Annotated[
        Text, _number("Frames for each game second. [default: 60]"), Sets("engine_settings.")
    ] = None
    width: Annotated[Text, _number("Window width in pixels. [default: 84]"), Sets("engine_settings.")] = None
    height: Annotated[Text, _number("Window height in pixels. [default: 84]"), Sets("engine_settings.")] = None
    quality_level: Annotated[Text, _number("Unity's quality level. [default: 5]"), Sets("engine_settings.")] = None
    num_areas: Annotated[
        Text, _number("Training areas in each engine, or copies in each gym. [default: 1]"), Sets("env_settings.")
    ] = None
    image_order: Annotated[
        Literal["auto", "declared", "channels_last"] | None,
        Parameter(help="Order in which uncompressed images come. [default: auto, by the package's version]"),
        Sets("collection."),
    ] = None
    max_lifetime_restarts: Annotated[
        Text, _number("Restarts of a failed engine in a run; -1 = unlimited. [default: 10]"), Sets("env_settings.")
    ] = None
    restarts_rate_limit_n: Annotated[
        Text, _number("Restarts of an engine within the period; -1 = unlimited. [default: 1]"), Sets("env_settings.")
    ] = None
    restarts_rate_limit_period_s: Annotated[
        Text, _number("The period in seconds. [default: 60]", "S"), Sets("env_settings.")
    ] = None
    env_args: Annotated[
        tuple[str, ...] | None,
        Parameter(help="Everything after this flag goes to the engine.", metavar="...", allow_leading_hyphen=True),
        Sets("env_settings."),
    ] = None


NumEnvs = Annotated[
    Text, Parameter(group=ENGINES, help="Engines side by side. [default: 1]", metavar="N", allow_leading_hyphen=True)
]
"""``--num-envs`` of ``learn``; ``parallel`` has pairs instead."""


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
        _text("Device that learns: cpu, cuda, cuda:N, mps. [default: cpu]", "DEVICE"),
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
        _number("Actors, an environment each; with them --execution is async. [default: 4]"),
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


def overridden(group: type) -> Iterator[tuple[str, str, Any]]:
    """Of each flag that overrides a setting its name, the setting's dotted key, and what a bare flag stands for."""
    for name, hint in get_type_hints(group, include_extras=True).items():
        for target in getattr(hint, "__metadata__", ()):
            if isinstance(target, Sets):
                yield name, target.path + name if target.path.endswith(".") else target.path, target.value


def overrides_of(*groups: object) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings that given flags override, by dotted key, and the flag behind each key."""
    overrides: dict[str, Any] = {}
    flags: dict[str, str] = {}
    for group in groups:
        for name, path, bare in overridden(type(group)):
            value = getattr(group, name)
            if value is not None:
                overrides[path] = bare if value is True else value
                flags[path] = "--" + name.replace("_", "-")
    return overrides, flags


@Parameter(name="*", group=RUN)
@dataclass(frozen=True, kw_only=True)
class BatchFlags:
    """Which batched run this is."""

    run_id: Annotated[
        Text,
        _text("Name of the run's folder. [default: the config's name, numbered]", "ID"),
        Sets("checkpoint_settings."),
    ] = None
    results_dir: Annotated[
        Text, _text("Folder that holds the runs. [default: results]", "DIR"), Sets("checkpoint_settings.")
    ] = None
    resume: Annotated[Switch, Parameter(help="Go on with the run of this id."), Sets("checkpoint_settings.")] = None
    force: Annotated[Switch, Parameter(help="Overwrite the run of this id."), Sets("checkpoint_settings.")] = None
    inference: Annotated[
        Switch, Parameter(help="Play the run of this id, and change nothing of it."), Sets("checkpoint_settings.")
    ] = None
    initialize_from: Annotated[
        Text, _text("Begin with the weights of the run of that id.", "ID"), Sets("checkpoint_settings.")
    ] = None
    criterion: Annotated[
        Text,
        _number("End a policy's learning once its mean return of trial_count episodes reaches this.", "RETURN"),
        Sets("behaviors.*."),
    ] = None
    trial_count: Annotated[
        Text, _number("Episodes that --criterion looks at. [default: 100]"), Sets("behaviors.*.")
    ] = None
    num_envs: Annotated[Text, _number("Copies of the environment."), Sets("environment.num_envs")] = None
    max_steps: Annotated[
        Text, _number("Decisions of all agents together. [default: the config's]"), Sets("behaviors.*.")
    ] = None
    seed: Annotated[Text, _number("Seed of everything random. [default: -1, a random one]"), Sets("env_settings.")] = (
        None
    )
    device: Annotated[
        Text,
        _text("Where everything is computed: cpu, cuda, cuda:N, mps. [default: cpu]", "DEVICE"),
        Sets("torch_settings.device"),
    ] = None
    devices: Annotated[
        Text,
        _number("Processes that train together, each with its share of the copies; on GPUs one each. [default: 1]"),
        Sets("devices"),
    ] = None
    compile: Annotated[
        Literal["auto", "on", "off"] | None,
        Parameter(help="Compile stepping and acting: where a probe finds it faster, always, never. [default: auto]"),
        Sets("compile"),
    ] = None
    set: Annotated[
        tuple[str, ...],
        _text("Any setting by its key, as behaviors.*.hyperparameters.beta=1e-3; may be repeated.", "KEY=VALUE"),
    ] = ()

"""The flags of ``parallel`` and ``learn``, each declared once: name, help, and the setting that it overrides.

Numbers stay texts here. The settings read them (``1e6`` included) and say what is wrong with them, so that a flag and
a line of YAML get the same check and the same sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_type_hints

from cyclopts import Group, Parameter

RUN = Group("Run", sort_key=1)
PAIRS = Group("Pairs", sort_key=2)
ENGINES = Group("Engines", sort_key=3)
LEARNING = Group("Learning", sort_key=4)
OUTPUT = Group("Output", sort_key=5)


@dataclass(frozen=True)
class Sets:
    """The setting that a flag overrides, and the value that a bare flag stands for."""

    path: str
    """Dotted key; ``behaviors.*`` means every behavior."""
    value: Any = True


def _flag(group: Group, text: str) -> Parameter:
    return Parameter(group=group, help=text, negative="")


def _number(group: Group, text: str, metavar: str = "N") -> Parameter:
    return Parameter(group=group, help=text, metavar=metavar, allow_leading_hyphen=True)


def _text(group: Group, text: str, metavar: str) -> Parameter:
    return Parameter(group=group, help=text, metavar=metavar)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """Which run this is."""

    run_id: Annotated[
        str | None,
        _text(RUN, "Name of the run's folder. [default: learn: ppo; parallel: the config's name, numbered]", "ID"),
        Sets("checkpoint_settings.run_id"),
    ] = None
    results_dir: Annotated[
        str | None,
        _text(RUN, "Folder that holds the runs. [default: results]", "DIR"),
        Sets("checkpoint_settings.results_dir"),
    ] = None
    resume: Annotated[bool | None, _flag(RUN, "Go on with the run of this id."), Sets("checkpoint_settings.resume")] = (
        None
    )
    force: Annotated[bool | None, _flag(RUN, "Overwrite the run of this id."), Sets("checkpoint_settings.force")] = None
    seed: Annotated[
        str | None,
        _number(RUN, "Seed of everything random; engine i gets seed + i. [default: -1, a random one]"),
        Sets("env_settings.seed"),
    ] = None
    max_steps: Annotated[
        str | None,
        _number(RUN, "Decisions to learn from, over all engines. [default: the config's]"),
        Sets("behaviors.*.max_steps"),
    ] = None
    set: Annotated[
        tuple[str, ...],
        _text(RUN, "Any setting by its key, as behaviors.*.hyperparameters.beta=1e-3; may be repeated.", "KEY=VALUE"),
    ] = ()
    lenient: Annotated[bool, _flag(RUN, "Warn of unknown keys in the config instead of refusing them.")] = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PairFlags:
    """TauAgent-AgentTrainer pairs."""

    pairs: Annotated[str | None, _number(PAIRS, "Pairs to train, an engine each. [default: 4]"), Sets("tau.pairs")] = (
        None
    )
    max_concurrent: Annotated[
        str | None,
        _number(PAIRS, "Pairs that run at once. [default: as many as make sense here]", "M"),
        Sets("tau.max_concurrent"),
    ] = None
    policy: Annotated[
        Literal["shared", "independent"] | None,
        Parameter(group=PAIRS, help="One policy for all pairs, or one for each. [default: shared]"),
        Sets("tau.policy"),
    ] = None
    agents: Annotated[str | None, _number(PAIRS, "Agents in every engine. [default: 32]"), Sets("tau.agents")] = None
    credit: Annotated[
        Literal["component", "aggregate"] | None,
        Parameter(
            group=PAIRS,
            help="Each action component gets its own advantage, or all share the mean's. [default: component]",
        ),
        Sets("tau.reward.credit"),
    ] = None
    data: Annotated[
        str | None,
        _text(PAIRS, "Tau data set (JSON) to train on. [default: the one that comes along]", "FILE"),
        Sets("tau.data"),
    ] = None
    no_evaluate: Annotated[
        bool | None, _flag(PAIRS, "Do not evaluate on held-out rows at the end."), Sets("tau.evaluate", False)
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EngineFlags:
    """How engines are started and run; names and meaning as in mlagents-learn."""

    env: Annotated[
        str | None,
        _text(ENGINES, "A Unity build, headless:SCENE, gym:ID, or editor (press Play; port 5004).", "ENV"),
    ] = None
    base_port: Annotated[
        str | None, _number(ENGINES, "First port to listen on. [default: 5005]", "P"), Sets("env_settings.base_port")
    ] = None
    listen: Annotated[
        str | None,
        _text(ENGINES, "Address to listen on instead of this machine alone; no password protects it.", "ADDRESS"),
        Sets("collection.listen"),
    ] = None
    tls_cert: Annotated[
        str | None,
        _text(ENGINES, "Certificate (PEM) for --listen, which is clear text without.", "FILE"),
        Sets("collection.tls_cert"),
    ] = None
    tls_key: Annotated[
        str | None, _text(ENGINES, "Private key (PEM) of --tls-cert.", "FILE"), Sets("collection.tls_key")
    ] = None
    timeout_wait: Annotated[
        str | None,
        _number(ENGINES, "Seconds to wait for an engine. [default: 60]", "S"),
        Sets("env_settings.timeout_wait"),
    ] = None
    no_graphics: Annotated[
        bool | None, _flag(ENGINES, "Start players without graphics."), Sets("engine_settings.no_graphics")
    ] = None
    no_graphics_monitor: Annotated[
        bool | None,
        _flag(ENGINES, "The same, but the first player shows its window."),
        Sets("engine_settings.no_graphics_monitor"),
    ] = None
    time_scale: Annotated[
        str | None,
        _number(ENGINES, "Game seconds for each real second. [default: 20]", "X"),
        Sets("engine_settings.time_scale"),
    ] = None
    target_frame_rate: Annotated[
        str | None,
        _number(ENGINES, "Frames a second; -1 = unlimited. [default: -1]"),
        Sets("engine_settings.target_frame_rate"),
    ] = None
    capture_frame_rate: Annotated[
        str | None,
        _number(ENGINES, "Frames for each game second. [default: 60]"),
        Sets("engine_settings.capture_frame_rate"),
    ] = None
    width: Annotated[
        str | None, _number(ENGINES, "Window width in pixels. [default: 84]"), Sets("engine_settings.width")
    ] = None
    height: Annotated[
        str | None, _number(ENGINES, "Window height in pixels. [default: 84]"), Sets("engine_settings.height")
    ] = None
    quality_level: Annotated[
        str | None, _number(ENGINES, "Unity's quality level. [default: 5]"), Sets("engine_settings.quality_level")
    ] = None
    num_areas: Annotated[
        str | None,
        _number(ENGINES, "Training areas in each engine, or copies in each gym. [default: 1]"),
        Sets("env_settings.num_areas"),
    ] = None
    max_lifetime_restarts: Annotated[
        str | None,
        _number(ENGINES, "Restarts of a failed engine in a run; -1 = unlimited. [default: 10]"),
        Sets("env_settings.max_lifetime_restarts"),
    ] = None
    restarts_rate_limit_n: Annotated[
        str | None,
        _number(ENGINES, "Restarts of an engine within the period; -1 = unlimited. [default: 1]"),
        Sets("env_settings.restarts_rate_limit_n"),
    ] = None
    restarts_rate_limit_period_s: Annotated[
        str | None,
        _number(ENGINES, "The period in seconds. [default: 60]", "S"),
        Sets("env_settings.restarts_rate_limit_period_s"),
    ] = None
    env_args: Annotated[
        tuple[str, ...] | None,
        Parameter(
            group=ENGINES,
            help="Everything after this flag goes to the engine.",
            metavar="...",
            allow_leading_hyphen=True,
            negative="",
        ),
        Sets("env_settings.env_args"),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LearningFlags:
    """How learning runs."""

    deterministic_collection: Annotated[
        bool | None,
        _flag(LEARNING, "Learning and collection take turns: the same seed is the same run, to the bit."),
        Sets("collection.deterministic"),
    ] = None
    deterministic: Annotated[
        bool | None,
        _flag(LEARNING, "Take the most likely action instead of a sample."),
        Sets("behaviors.*.network_settings.deterministic"),
    ] = None
    torch_device: Annotated[
        str | None,
        _text(
            LEARNING,
            "Device that learns: cpu, cuda, cuda:N, mps. [default: cpu]",
            "DEVICE",
        ),
        Sets("torch_settings.device"),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """What is shown."""

    quiet: Annotated[bool, _flag(OUTPUT, "Show nothing but errors.")] = False
    json: Annotated[bool, _flag(OUTPUT, "One JSON object a line on stdout, for machines.")] = False
    debug: Annotated[bool | None, _flag(OUTPUT, "Show tracebacks."), Sets("debug")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LegacyFlags:
    """Flags of mlagents-learn that this version answers with a sentence, or that are deprecated there."""

    initialize_from: Annotated[str | None, Parameter(show=False), Sets("checkpoint_settings.initialize_from")] = None
    inference: Annotated[bool | None, Parameter(show=False), Sets("checkpoint_settings.inference")] = None
    load: Annotated[bool | None, Parameter(show=False), Sets("checkpoint_settings.resume")] = None
    train: Annotated[bool, Parameter(show=False)] = False
    torch: Annotated[bool, Parameter(show=False)] = False
    tensorflow: Annotated[bool, Parameter(show=False)] = False


def flag_name(field_name: str) -> str:
    """``num_envs`` -> ``--num-envs``."""
    return "--" + field_name.replace("_", "-")


def overrides_of(*groups: object) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings that given flags override, by dotted key, and the flag behind each key."""
    overrides: dict[str, Any] = {}
    names: dict[str, str] = {}
    for group in groups:
        hints = get_type_hints(type(group), include_extras=True)
        for entry in fields(group):  # type: ignore[arg-type]
            value = getattr(group, entry.name)
            target = next((m for m in getattr(hints[entry.name], "__metadata__", ()) if isinstance(m, Sets)), None)
            if target is not None and value is not None:
                overrides[target.path] = target.value if value is True else value
                names[target.path] = flag_name(entry.name)
    return overrides, names

"""Flags of engines and of the pairs that play in them."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Group, Parameter

from tau_trainer.cli.flags import Sets, Switch, Text, flag_group, number, valued

PAIRS = Group("Pairs", sort_key=2)
ENGINES = Group("Engines", sort_key=3)


@flag_group(PAIRS)
class PairFlags:
    """TauAgent-AgentTrainer pairs."""

    pairs: Annotated[Text, number("Pairs to train, each with its own engine. [default: 4]"), Sets("tau.")] = None
    max_concurrent: Annotated[
        Text, number("Pairs that run at once. [default: chosen for this machine]", "M"), Sets("tau.")
    ] = None
    policy: Annotated[
        Literal["shared", "independent"] | None,
        Parameter(help="One policy for all pairs, or one for each. [default: shared]"),
        Sets("tau."),
    ] = None
    agents: Annotated[Text, number("Agents in every engine. [default: 32]"), Sets("tau.")] = None
    credit: Annotated[
        Literal["component", "aggregate"] | None,
        Parameter(help="One advantage for each action component, or the mean's for all. [default: component]"),
        Sets("tau.reward."),
    ] = None
    data: Annotated[
        Text, valued("Tau data set (JSON) to train on. [default: the included one]", "FILE"), Sets("tau.")
    ] = None
    no_evaluate: Annotated[
        Switch, Parameter(help="Do not validate or evaluate on held-out rows."), Sets("tau.evaluate", False)
    ] = None


@flag_group(ENGINES)
class EngineFlags:
    """How engines start and run. Names and meanings are the same as in mlagents-learn."""

    env: Annotated[
        Text,
        valued(
            "A build of Unity or Unreal, unreal:PATH, godot:PATH, headless:SCENE, batched:tau, gym:ID, "
            "pettingzoo:MODULE, editor (press Play; port 5004), godot (the same; port 11008), or attach:MAX (wait for "
            "up to MAX engines to connect, one per port).",
            "ENV",
        ),
        Sets("env_settings.env_path"),
    ] = None
    base_port: Annotated[
        Text,
        number("First port to listen on; the editor always connects to 5004. [default: 5005]", "P"),
        Sets("env_settings."),
    ] = None
    listen: Annotated[
        Text,
        valued("Address to listen on for other machines; no password protects it. [default: this machine]", "ADDRESS"),
        Sets("collection."),
    ] = None
    tls_cert: Annotated[
        Text, valued("Certificate (PEM) for --listen; unencrypted if omitted.", "FILE"), Sets("collection.")
    ] = None
    tls_key: Annotated[Text, valued("Private key (PEM) of --tls-cert.", "FILE"), Sets("collection.")] = None
    timeout_wait: Annotated[
        Text, number("Seconds to wait for an engine. [default: 60]", "S"), Sets("env_settings.")
    ] = None
    no_graphics: Annotated[Switch, Parameter(help="Start players without graphics."), Sets("engine_settings.")] = None
    no_graphics_monitor: Annotated[
        Switch, Parameter(help="Like --no-graphics, but the first player shows its window."), Sets("engine_settings.")
    ] = None
    time_scale: Annotated[
        Text, number("Game seconds for each real second. [default: 20]", "X"), Sets("engine_settings.")
    ] = None
    target_frame_rate: Annotated[
        Text, number("Frames a second; -1 = unlimited. [default: -1]"), Sets("engine_settings.")
    ] = None
    capture_frame_rate: Annotated[
        Text, number("Frames for each game second. [default: 60]"), Sets("engine_settings.")
    ] = None
    width: Annotated[Text, number("Window width in pixels. [default: 84]"), Sets("engine_settings.")] = None
    height: Annotated[Text, number("Window height in pixels. [default: 84]"), Sets("engine_settings.")] = None
    quality_level: Annotated[Text, number("Unity's quality level. [default: 5]"), Sets("engine_settings.")] = None
    num_areas: Annotated[
        Text,
        number("Training areas in each engine, or copies in each Gymnasium actor. [default: 1]"),
        Sets("env_settings."),
    ] = None
    image_order: Annotated[
        Literal["auto", "declared", "channels_last"] | None,
        Parameter(help="Axis order of uncompressed images. [default: auto, from the Unity package's version]"),
        Sets("collection."),
    ] = None
    max_lifetime_restarts: Annotated[
        Text, number("Restarts of each failed engine in a run; -1 = unlimited. [default: 10]"), Sets("env_settings.")
    ] = None
    restarts_rate_limit_n: Annotated[
        Text, number("Restarts of an engine within the period; -1 = unlimited. [default: 1]"), Sets("env_settings.")
    ] = None
    restarts_rate_limit_period_s: Annotated[
        Text, number("The period in seconds. [default: 60]", "S"), Sets("env_settings.")
    ] = None
    env_args: Annotated[
        tuple[str, ...] | None,
        Parameter(help="Everything after this flag goes to the engine.", metavar="...", allow_leading_hyphen=True),
        Sets("env_settings."),
    ] = None


@flag_group(ENGINES)
class ManyEngineFlags(EngineFlags):
    """Flags of several engines; ``parallel`` has pairs instead."""

    num_envs: Annotated[
        Text, number("Engines that run at once, or actors with one engine each. [default: 1]"), Sets("env_settings.")
    ] = None

"""Tau Trainer's own sections.

``tau`` (pairs, the Tau task, binary rewards), ``collection``, of actors, of batched runs, and sweeps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from tau_trainer.settings.engines import Engines
from tau_trainer.settings.kinds import (
    Bool,
    Float,
    Int,
    NaturalFloat,
    NaturalInt,
    PositiveFloat,
    PositiveInt,
    Section,
    Text,
    Whole,
    invalid,
)

Formula = Literal["binary", "binary_strict", "difference", "incremental", "binary01"]
"""Names of the Tau task's reward formulas."""
VARIABLE = "RAY_ADDRESS"
"""Ray's environment variable with the address of a cluster."""
_FROM_ABOVE_ZERO = ("loguniform", "lograndint")
_PROFILE = re.compile(r"tau3|tau384|[1-9]\d?x([2-9]|[1-9]\d{1,3})")
_LOCAL = re.compile(r"local(?::([1-9]\d{0,2}))?")


class RewardSettings(Section):
    """``tau.reward``: the source of the reward, and the value to learn from."""

    source: Literal["engine", "trainer"] = "trainer"
    """``engine``: as the engine sends it. ``trainer``: computed by the AgentTrainer from the ``target`` sensor."""
    formula: Formula | None = None
    """Reward formula of the Tau task; None = the profile's own."""
    credit: Literal["component", "aggregate"] = "component"
    """One advantage for each action component, or the mean's for all."""
    threshold: PositiveFloat = 0.1
    """Largest error of a correct component."""
    columns: PositiveInt | None = None
    """Number of components that count, from the first; None = all."""
    predicate: Literal["none", "positive", "threshold", "outcome", "distance"] = "none"
    """Definition of success: positive reward, reward of at least success_threshold, good end, or a close target."""
    success_threshold: Float = 0.0
    """A step is a success if its reward is at least this (``threshold``), or the return is above it (``outcome``)."""
    success_distance: NaturalFloat = 0.1
    """Largest distance to the target of a success (``distance``)."""
    values: Literal["01", "pm1"] = "01"
    """A binary reward is 1 or 0, or +1 or -1."""
    aggregate: Literal["mean", "sum", "any", "all", "majority"] = "mean"
    """How to aggregate the binary rewards of a window."""
    window: PositiveInt = 1
    """Decisions of one agent in a window."""
    learn_from: Literal["reward", "aggregate"] = "reward"
    """Learn from the reward itself, or from the aggregated binary reward."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.learn_from == "aggregate" and self.predicate == "none":
            raise invalid(
                "learn_from aggregate needs a predicate that defines success; "
                "choose positive, threshold, outcome or distance"
            )
        if self.credit == "component" and self.formula in ("binary_strict", "binary01"):
            raise invalid(
                f"formula {self.formula} judges all components together, so it has no credit for each; "
                "use credit aggregate"
            )
        return self


class TauSettings(Section):
    """``tau``: the number of pairs that train at once, and the form of the Tau task."""

    profile: Text | None = None
    """``tau3``: three principal components of the answer's vector; ``tau384``: all its numbers; components and levels,
    such as ``2x16``: each answer has its own point. None = components and levels that fit the user's own data if the
    engine is one of ours, otherwise ``tau3``."""
    data: Path | None = None
    """A data set in Tau's JSON format with its vectors next to it; None = the one included in the package."""
    pairs: Engines = 4
    """TauAgent-AgentTrainer pairs, each with its own engine."""
    max_concurrent: PositiveInt | None = None
    """Pairs that run at the same time; None = chosen for this machine."""
    policy: Literal["shared", "independent"] = "shared"
    """All pairs feed one learner, or each has its own."""
    agents: PositiveInt = 32
    """Agents in every engine."""
    reward: RewardSettings = RewardSettings()
    """The source of the reward."""
    evaluate: Bool = True
    """Evaluate on held-out rows at the end."""

    @field_validator("profile")
    @classmethod
    def _names_a_profile(cls, value: str | None) -> str | None:
        if value is not None and not _PROFILE.fullmatch(value):
            raise invalid("must be tau3, tau384, or components and levels such as 2x16")
        return value


class CollectionSettings(Section):
    """``collection``: how experience is collected."""

    deterministic: Bool = False
    """Learning and collection take turns, with engines in fixed order, so the same seed gives the same run bit for bit.
    """
    max_policy_age: NaturalInt = 1
    """Updates that the acting policy may be behind the learner."""
    learner: Literal["auto", "thread", "process"] = "auto"
    """Where learning runs: in a thread next to acting, or in a separate process, which costs memory but does not slow
    acting down; auto = a process if learning would hold the interpreter's lock."""
    listen: Text | None = None
    """Address that engines connect to; None = this machine only. Anyone who can reach another address can act as an
    engine, so there is no other default."""
    tls_cert: Path | None = None
    """Certificate (PEM) for engines that connect to ``listen``; None = unencrypted."""
    tls_key: Path | None = None
    """The certificate's private key (PEM)."""
    action_repeat: PositiveInt | None = None
    """Physics frames for each decision in Godot builds; None = as the game's Sync node says."""
    truncate_after: PositiveInt | None = None
    """Limit of a Godot game's episodes in decisions: one that ends with this number of them, or later, was cut off by a
    limit and did not really end; None = such games cannot tell, and each end counts as one."""
    image_order: Literal["auto", "declared", "channels_last"] = "auto"
    """Order of an uncompressed image's numbers, from engines and in Unity's recordings: auto = the order of the
    engine's version of the package; declared = the order of the sensor's shape; channels_last = height, width,
    channels, independent of that shape."""
    flat_sensors: tuple[Text, ...] = ()
    """Sensors whose own code writes the image as a list (``AddList``): in the order of their shape, independent of
    image_order."""

    @model_validator(mode="before")
    @classmethod
    def _transport_is_gone(cls, data: Any) -> Any:
        """Ignore ``transport``, which runs of earlier versions wrote; the address of the engines decides it now."""
        return {key: value for key, value in data.items() if key != "transport"} if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise invalid("tls_cert and tls_key (--tls-cert, --tls-key) need each other; give both or neither")
        if self.tls_cert is not None and self.listen is None:
            raise invalid(
                "tls_cert and tls_key (--tls-cert, --tls-key) are for engines on other machines; "
                "add listen (--listen) or leave them out"
            )
        return self


class AsyncTrainerSettings(Section):
    """``async_trainer``: actors in separate processes, with border's names. *opts* are gradient steps.

    A behavior's ``summary_freq`` and ``checkpoint_interval`` set the intervals of curves and checkpoints, and its
    ``buffer_init_steps`` sets the number of transitions before the first opt.
    """

    actors: Annotated[Whole, Field(ge=1, le=1000)] = 4
    """Processes that act, each with its own environment."""
    mode: Literal["free", "lock_step"] = "free"
    """free: actors run ahead of learning as far as the channel allows. lock_step: all wait until their transitions are
    learned, so the same seed gives the same run, and max_steps is exact."""
    exploration: tuple[dict[str, Any], ...] | None = None
    """Exploration of each actor, one entry per actor, instead of ``hyperparameters.exploration``."""
    n_buffer: PositiveInt = 100
    """Transitions that an actor collects before it pushes them."""
    channel_capacity: PositiveInt = 4
    """Pushes that may wait for the learner; further pushes block. In lock_step there is no limit."""
    samples_per_update: tuple[PositiveFloat, PositiveFloat] | None = None
    """Minimum and maximum of samples for each opt: the side that is ahead waits. null = steps_per_update for both."""
    max_policy_lag: PositiveInt = 5000
    """Maximum age, in opts, of the weights that chose a transition's action when it is first learned from."""
    max_opts: PositiveInt | None = None
    """Opts after which learning ends; null = at max_steps decisions (border: 10)."""
    sync_interval: PositiveInt = 100
    """Opts between two versions of the weights for actors; in lock_step, they get new weights after every round."""
    eval_interval: NaturalInt = 5000
    """Opts between two evaluations, in a separate environment; 0 = none. In lock_step, learning waits for them."""
    eval_episodes: PositiveInt = 5
    """Episodes of an evaluation, with the most likely actions; their mean return chooses the best policy."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.exploration is not None and len(self.exploration) != self.actors:
            raise invalid(
                f"exploration has {len(self.exploration)} entries, but there are {self.actors} actors; "
                "give one for each"
            )
        if self.samples_per_update is not None and self.samples_per_update[0] > self.samples_per_update[1]:
            raise invalid("samples_per_update must be [minimum, maximum]; swap the two")
        if self.max_policy_lag < 2 * self.sync_interval:
            raise invalid(
                f"max_policy_lag {self.max_policy_lag} is below twice the sync_interval {self.sync_interval}, "
                "so learning would wait forever; lower sync_interval or raise max_policy_lag"
            )
        return self

    def exploration_of(self, actor: int) -> dict[str, Any] | None:
        """Exploration of ``actor``; None: that of its behavior's settings."""
        return None if self.exploration is None else self.exploration[actor]


class ClusterSettings(Section):
    """``cluster``: a Ray cluster whose nodes run the actors; learning stays on the machine of the command."""

    address: Text
    """``local`` or ``local:N``: a private cluster of one or N nodes on this machine; HOST:PORT of a running one; or
    ``RAY_ADDRESS``: the value of that variable."""
    resources: Annotated[dict[Text, NaturalFloat], Field(min_length=1)] = Field(default_factory=lambda: {"cpu": 1.0})
    """Free resources that a node needs for each actor: ``cpu``, ``gpu``, or names that nodes were started with."""
    insecure: Bool = False
    """Connect to a running cluster without a token, although anyone who can reach it can run programs on it."""

    @field_validator("address")
    @classmethod
    def _is_one(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        reachable = bool(colon and host) and "/" not in host and port.isdecimal() and 0 < int(port) < 65536
        local = value.partition(":")[0] == "local"
        if value != VARIABLE and not (_LOCAL.fullmatch(value) if local else reachable):
            raise invalid("must be local, local:N with N nodes, HOST:PORT of a running Ray cluster, or RAY_ADDRESS")
        return value

    @property
    def private(self) -> int:
        """Number of nodes of a cluster to start for this run; 0 if it already runs."""
        found = _LOCAL.fullmatch(self.address)
        return int(found[1] or 1) if found else 0


class Distribution(Section):
    """``sweep.space.KEY``: values of a setting, as exactly one of Ray Tune's distributions."""

    choice: Annotated[tuple[Any, ...], Field(min_length=1)] | None = None
    """One of these."""
    uniform: tuple[Float, Float] | None = None
    """From the first to the second."""
    loguniform: tuple[Float, Float] | None = None
    """From the first to the second, uniform in the logarithm."""
    quniform: tuple[Float, Float, PositiveFloat] | None = None
    """Like uniform, rounded to multiples of the third."""
    randint: tuple[Int, Int] | None = None
    """Whole numbers from the first to below the second."""
    lograndint: tuple[Int, Int] | None = None
    """Like randint, uniform in the logarithm."""
    qrandint: tuple[Int, Int, PositiveInt] | None = None
    """Whole multiples of the third, from the first to the second."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise invalid(
                f"needs exactly one of {', '.join(type(self).model_fields)}, such as loguniform: [1e-5, 1e-2]"
            )
        if self.kind == "choice":
            return self
        low, high, *step = self.arguments
        if low >= high or (self.kind in _FROM_ABOVE_ZERO and low <= 0):
            above = "above 0 and " if "log" in self.kind else ""
            raise invalid(f"has a {self.kind} from {low} to {high}; the first number must be {above}below the second")
        if self.quniform and any(abs(math.remainder(end, *step)) > 1e-9 * abs(end) for end in (low, high)):
            raise invalid(f"has a quniform from {low} to {high}; both must be multiples of {step[0]}")
        return self

    @property
    def kind(self) -> str:
        """The distribution's name in Ray Tune."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Values to choose from, or the arguments of Ray Tune's function."""
        return tuple(getattr(self, self.kind))

    @property
    def extremes(self) -> tuple[Any, ...]:
        """Values to choose from, or the smallest and the largest."""
        if self.kind == "choice":
            return self.arguments
        low, high = self.arguments[:2]
        return low, high - 1 if self.kind in ("randint", "lograndint") else high

    def within(self, value: Any) -> Any:
        """``value``, clipped to the range."""
        return value if self.kind == "choice" else min(max(value, self.extremes[0]), self.extremes[1])


class SweepSettings(Section):
    """``sweep``: many trials with different settings; weak ones are stopped early."""

    metric: Literal["reward", "accuracy"] = "reward"
    """Mean return of the episodes since the last report, or the newest policy's accuracy on validation rows."""
    mode: Literal["max", "min"] = "max"
    """Whether larger or smaller values are better."""
    trials: PositiveInt = 10
    """Number of runs with different values."""
    scheduler: Literal["asha", "pbt", "none"] = "asha"
    """asha: successive halving stops trials that are behind. pbt: population-based training restarts them from trials
    that are ahead, with similar values. none: all trials run to their end."""
    interval: PositiveInt | None = None
    """Decisions of a trial between two reports to the scheduler; null = the smallest summary_freq."""
    grace: PositiveInt | None = None
    """Decisions before ``asha`` may stop a trial; null = max_steps / reduction_factor^2, at least one interval."""
    reduction_factor: Annotated[PositiveInt, Field(ge=2)] = 4
    """``asha`` continues one of this number of trials each time their decisions have grown by this factor."""
    quantile: Annotated[Float, Field(gt=0, le=0.5)] = 0.25
    """Share of trials that ``pbt`` counts as ahead, and as behind."""
    synch: Bool = False
    """With ``pbt``, all trials wait for each other at every interval and restart from there. Use it if fewer trials can
    run at once than there are, or if machines differ in speed."""
    space: Annotated[dict[Text, Distribution], Field(min_length=1)]
    """Distribution of each setting to search, by its key as in ``--set``; keys of all behaviors need no prefix
    ``behaviors.*``."""
    cluster: ClusterSettings = ClusterSettings(address="local")
    """Where trials run; ``resources`` are the free resources that a node needs for each."""

    @field_validator("cluster", mode="before")
    @classmethod
    def _is_here(cls, value: Any) -> Any:
        return {"address": "local"} | value if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _fits_what_was_learned(self) -> Self:
        fixed = [key for key in self.space if "network_settings" in key or key.rpartition(".")[2] == "trainer_type"]
        if self.scheduler == "pbt" and fixed:
            raise invalid(
                f"has scheduler pbt, which continues with trained networks, so it cannot search {fixed[0]}; "
                "choose scheduler asha or remove that key from space"
            )
        return self


class EnvironmentSettings(Section):
    """``environment``: the environment and its copies."""

    name: Text
    """A batched environment by its name, or the user's own MODULE:CLASS."""
    num_envs: PositiveInt = 1024
    """Copies that play at once."""
    starts: Literal["drawn", "fixed", "pool"] | None = None
    """How episodes start: drawn at random, each like the first one of its copy, or from a pool of starts; null = the
    environment's own way."""
    pool: PositiveInt = 1024
    """Number of starts in the pool."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the environment, by name."""


class EvaluationSettings(Section):
    """``evaluation``: episodes with the most likely actions, in separate copies."""

    interval: NaturalInt = 0
    """Decisions between two evaluations; 0: only at the end."""
    episodes: NaturalInt = 16
    """Copies that play one episode each; 0: no evaluation."""
    max_episode_steps: PositiveInt = 10000
    """Steps after which an unfinished episode is counted as it is."""
    trace: Bool = False
    """Keep one episode of the last evaluation: trace.npz, and trace.gif if the environment draws pictures."""

    @model_validator(mode="after")
    def _plays(self) -> Self:
        if self.interval and not self.episodes:
            raise invalid(
                f"has episodes 0 but interval {self.interval}; raise episodes, or set interval to 0 for no evaluation"
            )
        return self


def _as_word(value: object) -> object:
    """Undo YAML's reading of ``on`` and ``off`` as true and false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


Compile = Annotated[Literal["auto", "on", "off"], BeforeValidator(_as_word)]
"""When to compile stepping and acting: if a probe finds it faster, always, or never."""


def is_batched(data: Mapping[str, Any]) -> bool:
    """Whether a file's data has a batched environment."""
    return data.get("environment") is not None

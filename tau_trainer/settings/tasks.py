"""Tau Trainer's own sections: ``tau`` (pairs, the Tau task, binary rewards), ``collection``, of actors, and sweeps."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

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
)

Formula = Literal["binary", "binary_strict", "difference", "incremental", "binary01"]
"""Names of the Tau task's reward formulas."""
VARIABLE = "RAY_ADDRESS"
"""Ray's own, which may say where a cluster is."""
_FROM_ABOVE_ZERO = ("loguniform", "lograndint")
_PROFILE = re.compile(r"tau3|tau384|[1-9]\d?x([2-9]|[1-9]\d{1,3})")
_LOCAL = re.compile(r"local(?::([1-9]\d{0,2}))?")


class RewardSettings(Section):
    """``tau.reward``: where the reward comes from and what is learned from."""

    source: Literal["engine", "trainer"] = "trainer"
    """``engine``: as sent. ``trainer``: computed by the AgentTrainer from the engine's ``target`` sensor."""
    formula: Formula | None = None
    """Reward formula of the Tau task; None = the profile's own."""
    credit: Literal["component", "aggregate"] = "component"
    """Each action component gets its own advantage, or all share the mean's."""
    threshold: PositiveFloat = 0.1
    """Largest error of a component that counts as right."""
    columns: PositiveInt | None = None
    """Only the first so many components count; None = all."""
    predicate: Literal["none", "positive", "threshold", "outcome", "distance"] = "none"
    """What success is: positive reward, reward of at least success_threshold, good end, or nearness to the target."""
    success_threshold: Float = 0.0
    """Reward (``threshold``) from which, or episode return (``outcome``) above which, a step is a success."""
    success_distance: NaturalFloat = 0.1
    """Largest distance to the target that is a success (``distance``)."""
    values: Literal["01", "pm1"] = "01"
    """A binary reward is 1 or 0, or +1 or -1."""
    aggregate: Literal["mean", "sum", "any", "all", "majority"] = "mean"
    """How the binary rewards of a window become one number."""
    window: PositiveInt = 1
    """Decisions of one agent in a window."""
    learn_from: Literal["reward", "aggregate"] = "reward"
    """Learn from the reward itself, or from the aggregated binary reward."""

    @model_validator(mode="after")
    def _aggregate_needs_predicate(self) -> Self:
        if self.learn_from == "aggregate" and self.predicate == "none":
            raise PydanticCustomError(
                "aggregate_needs_predicate",
                "learn_from aggregate needs a predicate that says what success is; "
                "choose positive, threshold, outcome or distance",
            )
        return self

    @model_validator(mode="after")
    def _component_credit_exists(self) -> Self:
        if self.credit == "component" and self.formula in ("binary_strict", "binary01"):
            raise PydanticCustomError(
                "component_credit",
                "formula {formula} judges all components together, so it has no credit for each; use credit aggregate",
                {"formula": self.formula},
            )
        return self


class TauSettings(Section):
    """``tau``: how many pairs train side by side, and on which form of the Tau task."""

    profile: Text | None = None
    """``tau3``, three principal components of the answer's vector; ``tau384``, all its numbers; components and levels,
    such as ``2x16``, where each answer has a place of its own; None = these as data of one's own need them where the
    engine is ours, ``tau3`` else."""
    data: Path | None = None
    """A data set in Tau's JSON form with its vectors beside it; None = the one that comes with the package."""
    pairs: Engines = 4
    """TauAgent-AgentTrainer pairs, each on an engine of its own."""
    max_concurrent: PositiveInt | None = None
    """Pairs that run at the same time; None = as many as make sense on this machine."""
    policy: Literal["shared", "independent"] = "shared"
    """All pairs feed one learner, or each has its own."""
    agents: PositiveInt = 32
    """Agents in every engine."""
    reward: RewardSettings = RewardSettings()
    """Where the reward comes from."""
    evaluate: Bool = True
    """Evaluate on held-out rows at the end."""

    @field_validator("profile")
    @classmethod
    def _names_a_profile(cls, value: str | None) -> str | None:
        if value is not None and not _PROFILE.fullmatch(value):
            raise PydanticCustomError("profile", "must be tau3, tau384, or components and levels such as 2x16")
        return value


class CollectionSettings(Section):
    """``collection``: how experience is gathered."""

    deterministic: Bool = False
    """Learning and collection take turns, engines in fixed order: the same seed is the same run, to the bit."""
    max_policy_age: NaturalInt = 1
    """Updates that the acting policy may be behind the learner."""
    learner: Literal["auto", "thread", "process"] = "auto"
    """Where is learned: beside acting in one process, or in a process of its own, which costs memory and keeps acting
    free; auto = a process where learning would hold the interpreter's lock."""
    listen: Text | None = None
    """Address that engines connect to; None = this machine only. Whoever can reach another address can act as an
    engine, so it must be asked for."""
    tls_cert: Path | None = None
    """Certificate (PEM) that is shown to engines at ``listen``; None = clear text."""
    tls_key: Path | None = None
    """The certificate's private key (PEM)."""
    image_order: Literal["auto", "declared", "channels_last"] = "auto"
    """Order of an uncompressed image's numbers, as engines send it and Unity's recordings hold it: auto = as the
    engine's version of the package writes; declared = that of the sensor's shape; channels_last = height, width,
    channels, whatever that shape is."""
    flat_sensors: tuple[Text, ...] = ()
    """Sensors whose own code writes the image as a list (``AddList``): in the order of their shape, whatever
    image_order is."""

    @model_validator(mode="before")
    @classmethod
    def _transport_is_gone(cls, data: Any) -> Any:
        """Runs of earlier versions wrote ``transport``; where engines connect decides that now."""
        return {key: value for key, value in data.items() if key != "transport"} if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise PydanticCustomError(
                "tls_in_half", "tls_cert and tls_key (--tls-cert, --tls-key) belong together; give both or neither"
            )
        if self.tls_cert is not None and self.listen is None:
            raise PydanticCustomError(
                "tls_on_loopback",
                "tls_cert and tls_key (--tls-cert, --tls-key) are for engines on other machines; "
                "add listen (--listen) or leave them out",
            )
        return self


class AsyncTrainerSettings(Section):
    """``async_trainer``: actors in processes of their own, with border's names. *opts* are gradient steps.

    How often a point of every curve and a checkpoint are written is a behavior's ``summary_freq`` and
    ``checkpoint_interval``, and how many transitions come before the first opt its ``buffer_init_steps``.
    """

    actors: Annotated[Whole, Field(ge=1, le=1000)] = 4
    """Processes that act, each with an environment of its own."""
    mode: Literal["free", "lock_step"] = "free"
    """Actors run ahead of learning as far as the channel lets them, or all wait until what they brought is learned:
    then the same seed is the same run, and max_steps is exact."""
    exploration: tuple[dict[str, Any], ...] | None = None
    """What each actor explores with instead of ``hyperparameters.exploration``: as many as there are actors."""
    n_buffer: PositiveInt = 100
    """Transitions that an actor holds before it pushes them."""
    channel_capacity: PositiveInt = 4
    """Pushes that may wait for the learner; who pushes more waits. In lock_step nothing is bounded."""
    samples_per_update: tuple[PositiveFloat, PositiveFloat] | None = None
    """Least and most samples for each opt: whoever is ahead waits. null = steps_per_update for both."""
    max_policy_lag: PositiveInt = 5000
    """Opts by which the weights that acted may be behind when a transition is first learned from."""
    max_opts: PositiveInt | None = None
    """Opts after which learning ends; null = at max_steps decisions (border: 10)."""
    sync_interval: PositiveInt = 100
    """Opts between two versions of the weights that actors get; in lock_step they get them after every round."""
    eval_interval: NaturalInt = 5000
    """Opts between two evaluations, in an environment of their own; 0 = none. Learning waits for them in lock_step."""
    eval_episodes: PositiveInt = 5
    """Episodes of an evaluation, with the most likely actions; their mean return chooses the best policy."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.exploration is not None and len(self.exploration) != self.actors:
            raise PydanticCustomError(
                "exploration_each",
                "exploration has {given} entries and there are {actors} actors; give one for each",
                {"given": len(self.exploration), "actors": self.actors},
            )
        if self.samples_per_update is not None and self.samples_per_update[0] > self.samples_per_update[1]:
            raise PydanticCustomError("samples_bounds", "samples_per_update must be [least, most]; exchange the two")
        if self.max_policy_lag < 2 * self.sync_interval:
            raise PydanticCustomError(
                "lag_and_sync",
                "max_policy_lag {lag} is below twice the sync_interval {sync}, so learning would wait for ever; "
                "lower sync_interval or raise max_policy_lag",
                {"lag": self.max_policy_lag, "sync": self.sync_interval},
            )
        return self

    def exploration_of(self, actor: int) -> dict[str, Any] | None:
        """What ``actor`` explores with; None: as the settings of its behavior say."""
        return None if self.exploration is None else self.exploration[actor]


class ClusterSettings(Section):
    """``cluster``: a Ray cluster on whose nodes actors play; learning stays where the command runs."""

    address: Text
    """``local`` or ``local:N``: a private cluster of one or N nodes on this machine; HOST:PORT of a running one; or
    ``RAY_ADDRESS``: what that variable says."""
    resources: Annotated[dict[Text, NaturalFloat], Field(min_length=1)] = Field(default_factory=lambda: {"cpu": 1.0})
    """What a node must have free for each actor: ``cpu``, ``gpu``, or by the names that its nodes were started with."""
    insecure: Bool = False
    """Connect to a running cluster though there is no token: whoever can reach it can run programs on it."""

    @field_validator("address")
    @classmethod
    def _is_one(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        reachable = bool(colon and host) and "/" not in host and port.isdecimal() and 0 < int(port) < 65536
        local = value.partition(":")[0] == "local"
        if value != VARIABLE and not (_LOCAL.fullmatch(value) if local else reachable):
            raise PydanticCustomError(
                "cluster_address",
                "must be local, local:N with N nodes, HOST:PORT of a running Ray cluster, or RAY_ADDRESS",
            )
        return value

    @property
    def private(self) -> int:
        """Nodes of a cluster that is started for this run; 0: it runs already."""
        found = _LOCAL.fullmatch(self.address)
        return int(found[1] or 1) if found else 0


class Distribution(Section):
    """``sweep.space.KEY``: values of a setting, by exactly one of Ray Tune's distributions."""

    choice: Annotated[tuple[Any, ...], Field(min_length=1)] | None = None
    """One of these."""
    uniform: tuple[Float, Float] | None = None
    """From the first to the second."""
    loguniform: tuple[Float, Float] | None = None
    """The same, every size as likely."""
    quniform: tuple[Float, Float, PositiveFloat] | None = None
    """As uniform, rounded to multiples of the third."""
    randint: tuple[Int, Int] | None = None
    """Whole numbers from the first on, below the second."""
    lograndint: tuple[Int, Int] | None = None
    """The same, every size as likely."""
    qrandint: tuple[Int, Int, PositiveInt] | None = None
    """Whole multiples of the third, from the first to the second."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            text = "needs exactly one of {known}, such as loguniform: [1e-5, 1e-2]"
            raise PydanticCustomError("one_distribution", text, {"known": ", ".join(type(self).model_fields)})
        if self.kind == "choice":
            return self
        low, high, *step = self.arguments
        if low >= high or (self.kind in _FROM_ABOVE_ZERO and low <= 0):
            text = "has a {kind} from {low} to {high}; let it begin {above}below its end"
            above = "above 0 and " if "log" in self.kind else ""
            raise PydanticCustomError("range", text, {"kind": self.kind, "low": low, "high": high, "above": above})
        if self.quniform and any(abs(math.remainder(end, *step)) > 1e-9 * abs(end) for end in (low, high)):
            text = "has a quniform from {low} to {high}; let both be multiples of {step}"
            raise PydanticCustomError("multiples", text, {"low": low, "high": high, "step": step[0]})
        return self

    @property
    def kind(self) -> str:
        """Its name, which is Ray Tune's."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Values to choose from, or the numbers that Ray Tune's function takes."""
        return tuple(getattr(self, self.kind))

    @property
    def extremes(self) -> tuple[Any, ...]:
        """Values to choose from, or the least and the largest."""
        if self.kind == "choice":
            return self.arguments
        low, high = self.arguments[:2]
        return low, high - 1 if self.kind in ("randint", "lograndint") else high

    def within(self, value: Any) -> Any:
        """``value``, or the end of the range that it is beyond."""
        return value if self.kind == "choice" else min(max(value, self.extremes[0]), self.extremes[1])


class SweepSettings(Section):
    """``sweep``: many runs with different settings, of which the better ones go on."""

    metric: Literal["reward", "accuracy"] = "reward"
    """Mean return of the episodes since the last report, or the newest policy's accuracy on validation rows."""
    mode: Literal["max", "min"] = "max"
    """Whether more of it is better, or less."""
    trials: PositiveInt = 10
    """Runs, each with values of its own."""
    scheduler: Literal["asha", "pbt", "none"] = "asha"
    """Successive halving ends who is behind; population-based training lets them go on from who is ahead, with values
    near theirs; none lets all come to their end."""
    interval: PositiveInt | None = None
    """Decisions of a trial between two reports, by which it is judged; null = the smallest summary_freq."""
    grace: PositiveInt | None = None
    """Decisions that ``asha`` lets every trial have; null = max_steps / reduction_factor^2, at least one interval."""
    reduction_factor: Annotated[PositiveInt, Field(ge=2)] = 4
    """Of so many trials ``asha`` lets one go on, each time they have had so many times the decisions."""
    quantile: Annotated[Float, Field(gt=0, le=0.5)] = 0.25
    """Share of trials that ``pbt`` takes as ahead, and as behind."""
    synch: Bool = False
    """With ``pbt`` all trials wait for each other at every interval, and begin anew from there: for fewer places than
    trials, and for places that are not alike."""
    space: Annotated[dict[Text, Distribution], Field(min_length=1)]
    """Distribution of each setting that is searched, by its key as ``--set`` has it; what all behaviors have needs no
    ``behaviors.*`` before it."""
    cluster: ClusterSettings = ClusterSettings(address="local")
    """Where trials run; ``resources`` is what a node must have free for each."""

    @field_validator("cluster", mode="before")
    @classmethod
    def _is_here(cls, value: Any) -> Any:
        return {"address": "local"} | value if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _fits_what_was_learned(self) -> Self:
        fixed = [key for key in self.space if "network_settings" in key or key.rpartition(".")[2] == "trainer_type"]
        if self.scheduler == "pbt" and fixed:
            raise PydanticCustomError(
                "pbt_goes_on",
                "has scheduler pbt, which goes on with the networks that there are, and searches {key}; "
                "choose scheduler asha or take that key out of space",
                {"key": fixed[0]},
            )
        return self

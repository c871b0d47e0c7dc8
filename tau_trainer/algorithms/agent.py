"""A user's own algorithm in a few lines: networks, an action, a loss, a target; the trainer does everything else.

The contract follows Note.RL's, with our names. You give an agent's class as ``trainer_type: module:Class`` or as an
entry point in the group ``tau_trainer.trainers``. It learns off-policy: replay (prioritized, several steps, hindsight,
as the settings say), exploration, checkpoints, exact resume and metrics come from :class:`OffPolicy`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError, create_model
from typing_extensions import deprecated, override

from tau_trainer.algorithms.base import Publish, Setup, State
from tau_trainer.algorithms.off_policy.base import OffPolicy
from tau_trainer.algorithms.off_policy.transitions import Transitions, minibatches
from tau_trainer.algorithms.parameters import fitting
from tau_trainer.columns import MOMENT, Arrays, Column
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.memory import RewardDone, Rollout, WorkData
from tau_trainer.metrics import keys
from tau_trainer.models.blocks import drawn_from
from tau_trainer.models.own_network import OwnNetwork, named_failure, seen
from tau_trainer.rewards.goals import CheckedGoalRule
from tau_trainer.settings import AgentHyperparameters, HindsightSettings, TrainerSettings, TrainerType
from tau_trainer.settings.kinds import Bool, Float, Int
from tau_trainer.settings.problems import without_tags
from tau_trainer.settings.schedules import at
from tau_trainer.specs import BehaviorSpec, BoolArray, FloatArray, Json

_OPTIMIZER = "optimizer."
_KINDS: Mapping[type, Any] = {bool: Bool, int: Int, float: Float}
"""Types by which the settings read an agent's own numbers."""


class Batch(NamedTuple):
    """``n`` transitions, in the form that a loss gets."""

    obs: Any
    """float32 [n, D], vectors side by side; with images or lists a list: those vectors, then every other sensor."""
    action: Any
    """int64 [n]; [n, b] for several branches; float32 [n, c] in [-1, 1] for continuous actions; for both, that pair."""
    reward: torch.Tensor
    """float32 [n]."""
    next_obs: Any
    """The next observations, like :attr:`obs`."""
    goes_on: torch.Tensor
    """float32 [n]: 0 after a real end, otherwise 1; with ``n_step`` the discount of all steps but the first."""
    next_forbidden: torch.Tensor
    """bool [n, M]: the values of branches that the next decision must not choose."""


class Agent(torch.nn.Module):
    """Base class for your own algorithm; see ``docs/guides/extending.md``.

    Attributes:
        spec: the behavior: its sensors and actions.
        observation_size: total size of all vector sensors, ``D``.
        action_size: required number of outputs, ``c + M``: continuous actions, then the values of all branches.
        hyperparameters: the hyperparameters, including those of :attr:`defaults`.
        gamma: discount of the extrinsic reward.
    """

    defaults: ClassVar[Json] = {}
    """Hyperparameters that a settings file can override.

    A name that off-policy algorithms do not have becomes a key.
    """
    exports: ClassVar[bool] = True
    """Whether the policy is exported as a model file; set False if its layers cannot be exported."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.spec: BehaviorSpec = setup.spec
        self.hyperparameters: Any = setup.settings.hyperparameters
        self.gamma = setup.streams[0].gamma
        self.observation_size = sum(sensor.size for sensor in self.spec.observations if len(sensor.shape) == 1)
        self.action_size = self.spec.actions.continuous_size + self.spec.actions.mask_size
        self.build()

    @property
    @deprecated("Agent.numbers is now Agent.hyperparameters")
    def numbers(self) -> Any:
        """The former name of :attr:`hyperparameters`."""
        return self.hyperparameters

    def build(self) -> None:
        """Make networks as attributes. Set ``requires_grad_(False)`` on those that no gradient trains."""
        raise NotImplementedError(f"{type(self).__name__} needs a method build that makes its networks")

    def action(self, obs: Any) -> torch.Tensor:
        """The action [n, c + M]: continuous actions before a tanh, then a number for each value of each branch."""
        raise NotImplementedError(f"{type(self).__name__} needs a method action")

    def loss(self, batch: Batch) -> torch.Tensor | Sequence[torch.Tensor]:
        """The loss to minimize, or one loss for each of the :meth:`optimizers`: numbers, or [n] over all transitions.

        With a prioritized memory, return a loss per transition, [n]: it is weighted, and it sets the priorities.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method loss")

    def update_target(self) -> None:
        """Called after every gradient step, without gradients."""

    def optimizers(self) -> torch.optim.Optimizer | Sequence[torch.optim.Optimizer]:
        """Each follows the loss in its place with its own parameters; default: Adam for everything."""
        rate = at(self.hyperparameters.learning_rate, 0)
        return torch.optim.Adam([parameter for parameter in self.parameters() if parameter.requires_grad], lr=rate)

    def reward_done(self, achieved: FloatArray, goal: FloatArray) -> tuple[FloatArray, BoolArray]:
        """For hindsight: rewards [n] and real ends [n] for achieved and desired goals, float32 [n, G]."""
        raise NotImplementedError

    def reward_done_ma(self, rewards: FloatArray, done: BoolArray) -> tuple[Any, Any]:
        """For several agents: replaces the rewards float32 [k] and ends [k] of one step before learning.

        The ``k`` agents of this behavior decided together in one environment. Returns a reward and an end for all of
        them, or [k] for each; a real end stays one.
        """
        raise NotImplementedError

    def forward(self, obs: Any) -> torch.Tensor:
        """Call :meth:`action`, under torch's name."""
        return self.action(obs)

    @classmethod
    def place(cls) -> str:
        """``module:Class``."""
        return f"{cls.__module__}:{cls.__qualname__}"

    @classmethod
    @cache
    def trainer(cls) -> TrainerType:
        """The registered trainer type of this class."""
        known, given = AgentHyperparameters.model_fields, dict(cls.defaults)
        try:
            checked = AgentHyperparameters.model_validate({name: given[name] for name in given if name in known})
        except ValidationError as error:
            wrong = error.errors()[0]
            place = ".".join(map(str, without_tags(wrong["loc"]))) or "they"
            raise SettingsError(f"{cls.place()}.defaults: {place}: {wrong['msg']}") from error
        fields: dict[str, Any] = {
            name: (known[name].rebuild_annotation(), getattr(checked, name))
            if name in known
            else (_KINDS.get(type(value), type(value)), value)
            for name, value in given.items()
        }
        hyper = create_model(f"{cls.__name__}Hyperparameters", __base__=AgentHyperparameters, **fields)
        settings = create_model(
            f"{cls.__name__}Settings",
            __base__=TrainerSettings,
            trainer_type=(str, cls.place()),
            hyperparameters=(hyper, hyper()),
        )
        return TrainerType(settings, cls.place())

    @classmethod
    def algorithm(cls, setup: Setup) -> AgentLearner:
        """The adapter that trains it. Raises SettingsError."""
        return AgentLearner(setup, cls)


class AgentLearner(OffPolicy):
    """Trains an :class:`Agent`.

    Raises:
        SettingsError: the network settings ask for a memory, but the agent builds its own networks.
    """

    masks_after = True

    def __init__(self, setup: Setup, agent: type[Agent]) -> None:
        self._agent = agent
        self.name = agent.place()
        if setup.settings.network_settings.memory is not None:
            raise SettingsError(f"{self.name} builds its own networks; remove network_settings.memory")
        super().__init__(setup)
        made = self.agent.optimizers()
        self._optimizers = [made] if isinstance(made, torch.optim.Optimizer) else list(made)
        self._rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in self._optimizers]
        self.exports = agent.exports
        self.holds_lock = agent.__module__ != "__main__"  # a class that another process cannot import

    @override
    def build(self) -> torch.nn.Module:
        with drawn_from(self.generator), named_failure(f"{self.name}.build"):
            self.agent = self._agent(self._setup)
        hyper = AgentHyperparameters.of(self.settings.hyperparameters)
        self.network = OwnNetwork(
            self.spec,
            self.agent,
            normalize=self.settings.network_settings.normalize,
            exploration=hyper.exploration and hyper.exploration.over(self._setup.decisions),
        )
        return self.network

    @override
    def goal_rule(self, chosen: HindsightSettings) -> RewardDone:
        if self._agent.reward_done is Agent.reward_done:
            return super().goal_rule(chosen)
        return CheckedGoalRule(self.agent.reward_done, f"{self.name}.reward_done")

    @cached_property
    @override
    def columns(self) -> tuple[Column, ...]:
        together = self._agent.reward_done_ma is not Agent.reward_done_ma
        return (*super().columns, MOMENT) if together else super().columns

    @override
    def _rows(self, rollout: Rollout) -> dict[str, NDArray[Any]]:
        rows = super()._rows(rollout)
        if MOMENT not in self.columns:
            return rows
        rewards, terminated = rows["rewards"].copy(), rows["terminated"].copy()  # [n, 1], [n]
        _, moment = np.unique(rollout.column(MOMENT.name), return_inverse=True)
        order = np.argsort(moment, kind="stable")  # group by moment, keep the order of arrival
        for step in np.split(order, np.flatnonzero(np.diff(moment[order])) + 1):
            with named_failure(f"{self.name}.reward_done_ma"):
                reward, done = self.agent.reward_done_ma(rewards[step, 0], rows["terminated"][step])
                rewards[step, 0] = reward
                terminated[step] |= done  # a real end stays one
        return rows | {"rewards": rewards, "terminated": terminated}

    @override
    def update(self, work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
        before = [copy.deepcopy(optimizer.state_dict()) for optimizer in self._optimizers]
        try:
            return super().update(work, progress, publish)
        except BaseException:
            for optimizer, state in zip(self._optimizers, before, strict=True):
                optimizer.load_state_dict(state)
            raise

    @override
    def learn(self, drawn: Transitions, steps: int, learning_rate: float) -> torch.Tensor:
        factor = learning_rate / at(self.hyperparameters.learning_rate, 0)  # the schedule's, for each group's own
        for optimizer, rates in zip(self._optimizers, self._rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
        with drawn_from(self.generator):  # a resumed run draws the same numbers as the agent
            return torch.stack([self._step(batch) for batch in minibatches(drawn, steps)])

    def _step(self, drawn: Transitions) -> torch.Tensor:
        """A gradient step; returns the losses [m]."""
        with torch.enable_grad():
            with named_failure(f"{self.name}.loss"):
                found = self.agent.loss(self._batch(drawn))
            losses = [self._mean(loss, drawn) for loss in ([found] if isinstance(found, torch.Tensor) else found)]
            if len(losses) != len(self._optimizers):
                raise SettingsError(
                    f"{self.name}.loss returns {len(losses)} losses for {len(self._optimizers)} optimizers; return one "
                    "for each"
                )
            for optimizer, loss in zip(self._optimizers, losses, strict=True):
                learned = [parameter for group in optimizer.param_groups for parameter in group["params"]]
                # Not backward: a loss must reach only its own optimizer's parameters.
                found_gradients = torch.autograd.grad(loss, learned, retain_graph=True, allow_unused=True)
                for parameter, gradient in zip(learned, found_gradients, strict=True):
                    parameter.grad = gradient
        for optimizer in self._optimizers:
            optimizer.step()
        with named_failure(f"{self.name}.update_target"):
            self.agent.update_target()
        return torch.stack(losses).detach()

    def _mean(self, loss: torch.Tensor, drawn: Transitions) -> torch.Tensor:
        """The mean of a loss per transition, weighted by a prioritized memory, which learns it."""
        if loss.ndim == 0 and self.priorities is None:
            return loss
        if tuple(loss.shape) != (len(drawn.rewards),):
            due = f"a loss of each transition [{len(drawn.rewards)}]"
            due += ", because `prioritized` needs it" if self.priorities is not None else ", or a single number"
            raise SettingsError(f"{self.name}.loss returns a loss of shape {list(loss.shape)}; return {due}")
        if self.priorities is None:
            return loss.mean()
        torch.maximum(drawn.errors, loss.detach().abs(), out=drawn.errors)  # with several losses, the largest counts
        return (loss * drawn.weights).mean()  # [n] times [n]

    def _batch(self, drawn: Transitions) -> Batch:
        actions = self.spec.actions
        discrete = drawn.discrete[:, 0] if actions.discrete_size == 1 else drawn.discrete
        both = (drawn.continuous, discrete)
        action = both if actions.continuous_size and actions.discrete_size else both[not actions.continuous_size]
        return Batch(
            seen(drawn.inputs),
            action,
            drawn.rewards.sum(dim=1),  # of all streams
            seen(drawn.following),
            drawn.goes_on[:, 0],
            drawn.forbidden_after,
        )

    @override
    def report(self, means: Sequence[float]) -> dict[str, float]:
        names = [keys.POLICY_LOSS] if len(means) == 1 else [f"Losses/Loss {i}" for i in range(len(means))]
        return dict(zip(names, means, strict=True))

    @override
    def state(self) -> State:
        arrays, metadata = super().state()
        # Leave out the moments of the flat parameters: the agent's own optimizers have theirs.
        kept = {name: values for name, values in arrays.items() if not name.startswith(_OPTIMIZER)}
        return kept | {name: moment.detach().cpu().numpy().copy() for name, moment in self._moments()}, metadata

    def _moments(self) -> Iterator[tuple[str, torch.Tensor]]:
        """All state of the optimizers, with a name for each that identifies its parameter."""
        for i, optimizer in enumerate(self._optimizers):
            for j, state in optimizer.state_dict()["state"].items():
                for name, values in state.items():
                    if isinstance(values, torch.Tensor):
                        yield f"{_OPTIMIZER}{i}.{j}.{name}", values

    @override
    def load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        unused = {name: values for name, values in self.parameters.state().items() if name.startswith(_OPTIMIZER)}
        states = [optimizer.state_dict() for optimizer in self._optimizers]
        for state in states:
            state["state"] = {j: {} for group in state["param_groups"] for j in group["params"]}
        for name in [stored for stored in arrays if stored.startswith(_OPTIMIZER)]:
            values = fitting(arrays, name, arrays[name].shape)
            try:
                i, j, key = name.removeprefix(_OPTIMIZER).split(".", 2)
                states[int(i)]["state"][int(j)][key] = torch.from_numpy(np.array(values))
            except (ValueError, LookupError):
                raise CheckpointError(
                    f"The checkpoint's '{name}' belongs to no optimizer of {self.name}; use the class that wrote it"
                ) from None
        super().load({**arrays, **unused}, metadata, fresh=fresh)
        for optimizer, state in zip(self._optimizers, states, strict=True):
            optimizer.load_state_dict(state)

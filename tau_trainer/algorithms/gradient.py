"""Base of algorithms that train a network by gradient.

It has one flat vector of weights, updates that leave no NaN behind, and checkpoints for an exact resume.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from tau_trainer.algorithms.base import Algorithm, Setup, State
from tau_trainer.algorithms.cloning import Cloning
from tau_trainer.algorithms.parameters import Beside, FlatParameters, fitting
from tau_trainer.algorithms.schedules import learning_rate
from tau_trainer.algorithms.signals import CopySums, Signal, log_prob
from tau_trainer.columns import EXTRINSIC, Arrays, Column, action_columns, observation_columns
from tau_trainer.errors import CheckpointError, NonFiniteError, SettingsError
from tau_trainer.memory import Rollout, RolloutMemory
from tau_trainer.metrics import keys
from tau_trainer.models import ActorCritic, Policy, make_policy
from tau_trainer.models.blocks import kind_of
from tau_trainer.models.policy import all_finite
from tau_trainer.rewards.sums import EpisodeSums
from tau_trainer.settings.networks import expanded
from tau_trainer.settings.signals import LEARNED
from tau_trainer.specs import Float64Array, Json, Observations


class GradientAlgorithm(Algorithm):
    """Learns from transitions; a subclass decides their order and repetitions.

    Not thread-safe: one thread updates. torch's number of threads is a setting of the *calling thread*.

    A subclass sets its :attr:`name`, builds its network, declares further columns, and implements learning.

    Raises:
        SettingsError: the network cannot be built for this behavior, or it cannot learn from rewards by component.
        ValueError: ``reward_width`` is neither 1 nor the number of action components.
    """

    name: str
    """Its ``trainer_type``, as stored in checkpoints."""
    starts_from: tuple[str, ...] = ()
    """Other trainer types whose weights a new run may start from, because their networks are the same."""
    network: ActorCritic
    """The network that acts."""
    module: torch.nn.Module
    """All networks, that one among them."""
    parameters: FlatParameters
    """All parameters that are trained."""
    by_component: bool = True
    """Whether it can learn from a reward for each component of an action."""
    soft: bool = False
    """Whether the policy's entropy is part of the goal, as a reward for each decision."""
    signals: tuple[Signal, ...] = ()
    """Reward streams that are learned together with the policy."""
    cloning: Cloning | None = None
    """Imitates demonstrations together with the policy's updates."""

    def __init__(self, setup: Setup) -> None:
        spec, settings = setup.spec, setup.settings
        if setup.reward_width not in (1, spec.actions.components):
            raise ValueError(f"reward_width must be 1 or {spec.actions.components}, not {setup.reward_width}")
        if setup.reward_width > 1 and not self.by_component:
            raise SettingsError(f"{self.name} learns from one reward per decision; use credit: aggregate")
        self.spec = spec
        self.settings = settings
        self.seed = setup.seed
        self.streams = setup.streams
        self.device = torch.device(setup.device)
        self.ranks, self.on_batch = setup.ranks, setup.on_batch
        self.generator = torch.Generator().manual_seed(setup.seed)  # on the CPU: the same draws on every device
        self._setup = setup
        self.copies = setup.copies
        self._sums = EpisodeSums(len(self.streams))
        self.copy_sums: CopySums | None = None
        """Of the learned streams on tensors."""

    @property
    def widths(self) -> dict[str, int]:
        """Width of each reward stream, by name."""
        return {stream.name: stream.width for stream in self.streams}

    def new_memory(self, capacity: int, horizon: int, *, ends: bool = False) -> RolloutMemory:
        """A memory for transitions of this behavior; ``ends``: see there."""
        return RolloutMemory(
            observation_columns(self.spec),
            (*action_columns(self.spec, self.network.action.choices), *self.columns),
            rewards=self._paid,
            capacity=capacity,
            horizon=horizon,
            ends=ends or not all(stream.episodic for stream in self.streams),
        )

    @override
    def unshared(self, ranks: int) -> str:
        if self.settings.network_settings.memory is not None:
            return "a network with a memory learns in one process, from whole sequences"
        return super().unshared(ranks)

    def learning_rate(self, progress: float) -> float:
        """The learning rate at ``progress``, see :meth:`Algorithm.update`."""
        if self.searched_rate is not None:
            return self.searched_rate
        return learning_rate(self.settings.hyperparameters, progress, self.settings.max_steps)

    @property
    def _paid(self) -> dict[str, int]:
        """Width of each stream that is paid while agents act.

        The engine's rewards are included, learned from or not.
        """
        paid = {name: width for name, width in self.widths.items() if name not in LEARNED}
        return {EXTRINSIC: self._setup.reward_width} | paid

    def make_signals(self) -> tuple[Signal, ...]:
        """The learned streams; call once there is a network. Raises DataError."""
        names = [stream.name for stream in self.streams if stream.name in LEARNED]
        ask = partial(log_prob, self.network)
        if names and self.copies is not None:
            shape = self.copies.num_envs, self.copies.agents, len(self.streams)
            self.copy_sums = CopySums(shape, self.device)
        return tuple(Signal(name, self._setup, self.network, ask) for name in names)

    def make_cloning(self) -> Cloning | None:
        """The cloning, if the settings ask for it; call once there are parameters. Raises DataError."""
        settings = self.settings.behavioral_cloning
        if settings is None:
            return None
        return Cloning(settings, self._setup, self.network, self.parameters)

    @property
    @override
    def large(self) -> bool:
        return len(self.network.encoders) > 0

    @property
    def _beside(self) -> tuple[Beside, ...]:
        """All parts that change together with the policy's own update."""
        others = (self.cloning, self.copy_sums)
        return (*self.signals, *(part for part in others if part is not None))

    def earned(self, rollout: Rollout, source: int = 0) -> dict[str, float]:
        """Rewards of the episodes that end in a paid rollout, by TensorBoard name."""
        rewards = []
        for stream in self.streams:
            paid = rollout.earned(stream.name).mean(axis=1)
            rewards.append(paid * stream.strength)
        return self.of_episodes(self._sums.add(rollout, np.stack(rewards, axis=1), source))

    def of_episodes(self, sums: Float64Array) -> dict[str, float]:
        """Statistics of the rewards [e, S] of ``e`` episodes."""
        statistics: dict[str, float] = {}
        if not len(sums):
            return statistics
        for stream, earned in zip(self.streams, sums.T, strict=True):
            size = float(np.abs(earned).mean())
            statistics[keys.return_size(stream.name)] = size
            if stream.name in LEARNED:
                statistics[keys.episode_reward(stream.name)] = float(earned.mean())
        return statistics

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the memory in addition to observations and actions, filled from a decision's ``extras``."""
        return self.network.state_columns

    def finished(self, rollout: Rollout | None, started: float) -> dict[str, float]:
        """Count an update that has succeeded; returns the statistics of every algorithm, by TensorBoard name.

        Args:
            rollout: the new transitions, whose age is reported; None: they are tensors, which are never old.
            started: :func:`time.perf_counter` when it began.
        """
        layers, version = self.parameters.layer_statistics(), self.version
        self.version += 1
        result = dict(zip(layers, torch.stack(list(layers.values())).tolist(), strict=True)) if layers else {}
        if rollout is not None and len(rollout):
            result[keys.POLICY_AGE] = float(version - np.mean(rollout.version))  # in updates behind
        result[keys.TRAIN_SECONDS] = time.perf_counter() - started
        return result

    @contextmanager
    def whole_or_nothing(self) -> Iterator[None]:
        """Undo all changes inside if anything ends it early."""
        # Restore the generator too, so that a second try draws the same.
        backup, random_state = self.parameters.backup(), self.generator.get_state()
        besides = [beside.backup() for beside in self._beside]
        try:
            yield
        except BaseException:  # Ctrl-C too
            self.parameters.restore(backup)
            self.generator.set_state(random_state)
            self._restore(besides)
            raise

    def _restore(self, besides: Sequence[Any]) -> None:
        for beside, saved in zip(self._beside, besides, strict=True):
            beside.restore(saved)

    @override
    def weights(self) -> dict[str, NDArray[Any]]:
        tensors = self.network.state_dict().items()
        # Copies: policies act with them while learning continues to write.
        return {name: tensor.detach().to("cpu", copy=True).numpy() for name, tensor in tensors}

    @override
    def policy(self, weights: Arrays, version: int) -> Policy:
        return make_policy(self.network, weights, version)

    @override
    def state(self) -> State:
        arrays = self.parameters.state()
        arrays["random.generator"] = self.generator.get_state().numpy()
        for beside in self._beside:
            arrays |= beside.state()
        return arrays, {**self.metadata(), "version": self.version}

    @override
    def load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        if "trainer_type" in metadata:  # earlier versions told less of learners on tensors
            metadata = {"algorithm": metadata["trainer_type"], "version": 0, **metadata}
        other = metadata.get("optimizer", "adam") != self.metadata()["optimizer"]
        imitated = metadata.get("algorithm") in self.starts_from
        moments = not (fresh and (other or imitated))  # another optimizer, or another loss, cannot use them
        if not moments:
            metadata = {**metadata, "optimizer": self.metadata()["optimizer"]}
        if fresh and imitated:
            metadata = {**metadata, "algorithm": self.name}
        # Some checkpoints are older than these facts.
        older = {"streams": self.metadata().get("streams"), "optimizer": "adam"}
        for key, wanted in self.metadata().items():
            if metadata.get(key, older.get(key)) != wanted:
                what = "trainer type" if key == "algorithm" else key.replace("_", " ")
                raise CheckpointError(
                    f"The checkpoint's {what} is {metadata.get(key)!r}, behavior '{self.spec.short_name}' needs "
                    f"{wanted!r}; use the settings that {'its' if fresh else 'the'} run was started with."
                )
        random_state = None
        if not fresh:
            random_state = fitting(arrays, "random.generator", tuple(self.generator.get_state().shape))
        besides = [beside.backup() for beside in self._beside]
        try:
            for beside in self._beside:
                beside.load(arrays, fresh=fresh)
            with torch.no_grad():
                self.parameters.load(arrays, moments=moments)
        except CheckpointError:
            self._restore(besides)
            raise
        self.version = 0
        if random_state is not None:
            self.version = int(metadata["version"])
            self.generator.set_state(torch.from_numpy(np.array(random_state)))  # a copy: torch wants to write

    def metadata(self) -> dict[str, Any]:
        """Metadata that must be the same in a checkpoint."""
        learner = {"algorithm": self.name, "optimizer": self.parameters.optimizer.kind}
        if self.copies is not None:  # it may start from a learner with engines; arrays of other shapes do not fit
            return learner
        network = self.settings.network_settings
        memory = network.memory
        kinds = [kind_of(sensor) for sensor in self.spec.observations]
        blocks = {"vis_encode_type": network.vis_encode_type} if "image" in kinds else {}
        blocks |= {"goal_conditioning_type": network.goal_conditioning_type} if self.spec.has_goals else {}
        return {
            **blocks,
            **learner,
            "observations": [[sensor.name, list(sensor.shape)] for sensor in self.spec.observations],
            "continuous_actions": self.spec.actions.continuous_size,
            "discrete_branches": list(self.spec.actions.discrete_branches),
            "reward_components": self._setup.reward_width,
            "streams": self.widths,
            "hidden_units": network.hidden_units,
            "num_layers": network.num_layers,
            "net_arch": None if network.net_arch is None else expanded(network.net_arch),
            "shared_critic": self.network.towers == 1,
            "normalize": network.normalize,
            "action_levels": network.action_levels,
            "memory": None if memory is None else [memory.type, memory.memory_size],
        }

    def observe(self, obs: Observations) -> None:
        """Let the normaliser take in observations, if there is one."""
        if self.network.normalizer is not None:
            self.network.normalizer.merge(self.network.vectors(obs))

    def check_finite(self, losses: torch.Tensor) -> None:
        """Raises NonFiniteError if a loss or a weight is not a finite number."""
        # One sum checks all weights; the gradients are only checked after a failure.
        if bool(torch.isfinite(losses).all()) and self.parameters.finite():
            return
        gradients = self.parameters.views(self.parameters.optimizer.gradient)
        names = [name for name, value in gradients.items() if not bool(torch.isfinite(value).all())]
        where = f"gradient of {', '.join(names)}" if names else "loss"
        raise NonFiniteError(
            f"Behavior '{self.spec.name}': the {where} became NaN or infinite in update {self.version + 1}; the "
            "weights from before it are kept. Lower learning_rate or the size of the rewards."
        )

    def check_input(self, rollout: Rollout) -> None:
        """Raises NonFiniteError if a transition contains NaN or infinity."""
        rows, after = rollout.rows, rollout.rows[rollout.bootstrapped]  # agents' rows, for the message
        inputs = [(f"reward '{name}'", values, rows) for name, values in rollout.rewards.items()]
        inputs += [(column.name.replace("_", " "), rollout.column(column.name), rows) for column in self.columns]
        inputs.append(("action", rollout.column("continuous"), rows))
        if rollout.group_reward is not None:
            inputs.append(("the group's reward", rollout.group_reward, rows))
        for i, sensor in enumerate(self.spec.observations):
            inputs.append((f"observation '{sensor.name}'", rollout.observations[i], rows))
            inputs.append((f"the next observation '{sensor.name}'", rollout.bootstrap_observations[i], after))
        for name, values, agents in inputs:
            if all_finite(values):
                continue
            # Indices of the wrong transitions.
            wrong = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
            raise NonFiniteError(
                f"Behavior '{self.spec.name}': {name} is NaN or infinite in {len(wrong)} of {len(values)} "
                f"transitions (first: agent row {int(agents[wrong[0]])}); nothing was learned from them."
            )

"""A policy from a model file; it accepts every ``.onnx`` file for ML-Agents, also from other trainers."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from typing_extensions import override

from tau_trainer.columns import Arrays, Column
from tau_trainer.errors import ExportError, NonFiniteError
from tau_trainer.export.cases import Case
from tau_trainer.export.session import run_case, session_of
from tau_trainer.models import ActorCritic, Decision, Policy
from tau_trainer.models import tensor_names as names
from tau_trainer.models.policy import all_finite
from tau_trainer.specs import BehaviorSpec, BoolArray, Observations

_NOTHING: Arrays = {}
_ACTIONS = (names.DETERMINISTIC_CONTINUOUS, names.CONTINUOUS), (names.DETERMINISTIC_DISCRETE, names.DISCRETE)
"""Outputs for continuous and for discrete actions: the most likely ones, and random ones."""


class OnnxPolicy(Policy):
    """Acts with a model file: with its most likely actions, if it has them, or with random ones, like Unity's default.

    Most files have both. Random actions use a random stream inside the file, which is not part of checkpoints.

    Args:
        path: the file.
        spec: the behavior with the file's sensors ``obs_0``, ``obs_1``, ...
        seed: draw random actions with this seed; None: take the most likely.

    Raises:
        ExportError: the file cannot be read, or is for another behavior.
    """

    def __init__(self, path: Path, spec: BehaviorSpec, seed: int | None = None) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ExportError(
                f"the model {path} cannot be read: {error.strerror}; name a file that training or Unity wrote"
            ) from error
        self.path, self.spec, self.version, self.weights = path, spec, 0, {}
        self._session = session_of(content, seed or 0)
        self._outputs = {output.name for output in self._session.get_outputs()}
        self._inputs = {given.name: given.shape for given in self._session.get_inputs()}
        self._likeliest = [self._output(likeliest, drawn) for likeliest, drawn in _ACTIONS]
        drawn = [self._output(drawn, likeliest) for likeliest, drawn in _ACTIONS]
        self._taken = self._likeliest if seed is None else drawn
        self.only_draws = bool({names.CONTINUOUS, names.DISCRETE} & {*self._likeliest})
        """Whether the file has only random actions."""
        self._state = f"recurrent.{zlib.crc32(str(path).encode()):x}"
        """Column name of this file's recurrent state: a table can hold the states of several files."""
        memory = self._inputs.get(names.RECURRENT_IN)
        if memory is not None:
            self.state_columns = (Column(self._state, (int(memory[-1]),)),)
        self._check()

    def _output(self, *choices: str) -> str | None:
        return next((name for name in choices if name in self._outputs), None)

    def _check(self) -> None:
        """Raises ExportError if the file is for another behavior."""
        spec, actions = self.spec, self.spec.actions
        sensors = {names.observation_name(i): sensor for i, sensor in enumerate(spec.observations)}
        for name, shape in self._inputs.items():
            if name in (names.ACTION_MASKS, names.RECURRENT_IN):
                continue
            if name not in sensors:
                raise self._misfit(f"it asks for '{name}', which the behavior does not have")
            read, sent = list(shape[1:]), list(sensors[name].shape)
            if all(isinstance(size, int) for size in read) and read != sent:
                raise self._misfit(f"its '{name}' is {read}, but the sensor's shape is {sent}")
        continuous, discrete = self._taken
        if (continuous is not None, discrete is not None) != (actions.continuous_size > 0, actions.discrete_size > 0):
            raise self._misfit("its actions are of another kind")
        obs = tuple(np.zeros((1, *sensor.shape), sensor.dtype) for sensor in spec.observations)
        state = {}
        for column in self.state_columns:
            state[column.name] = np.zeros((1, *column.shape), np.float32)
        decision = self.act(obs, None, np.random.default_rng(0), state=state)
        found = decision.continuous.shape[1], decision.discrete.shape[1]
        wanted = actions.continuous_size, actions.discrete_size
        if found != wanted:
            raise self._misfit(
                f"it has {found[0]} continuous actions and {found[1]} branches, "
                f"the behavior {wanted[0]} and {wanted[1]}"
            )

    def _misfit(self, reason: str) -> ExportError:
        return ExportError(
            f"the model {self.path} is not for behavior '{self.spec.short_name}': {reason}; use its own model"
        )

    @override
    def act(
        self,
        obs: Observations,
        mask: BoolArray | None,
        rng: np.random.Generator,
        *,
        state: Arrays = _NOTHING,
        deterministic: bool = False,
    ) -> Decision:
        """See :meth:`Policy.act`; ``rng`` is not used."""
        n, memory = len(obs[0]), state[self._state] if self.state_columns else None
        found = run_case(self._session, self.spec, Case("a decision", obs, mask, memory))
        outputs = self._likeliest if deterministic else self._taken
        chosen = [np.zeros((n, 0)) if output is None else found[output] for output in outputs]
        continuous, discrete = chosen[0].astype(np.float32), chosen[1].astype(np.int32)
        if not all_finite(continuous):
            raise NonFiniteError(f"the actions of the model {self.path} are NaN or infinite; take another checkpoint")
        # mlagents 1.1.0 does not squash SAC's most likely action.
        within = np.clip(continuous, -1.0, 1.0)
        after = {}
        if self.state_columns:
            after[self._state] = found[names.RECURRENT_OUT][:, 0]
        return Decision(within, discrete, self.version, {}, after, squashed=True)

    @override
    def network(self) -> ActorCritic:
        raise ExportError(f"the model {self.path} is an exported file without a network to train; name a checkpoint")

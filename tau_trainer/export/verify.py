"""Verifies that a model file gives the same outputs as the network it was written from.

A file is verified if all of this holds. The ONNX checker accepts it. Its inputs and outputs match Unity's contract by
name, order, type and shape. onnxruntime runs it on ordinary and on extreme inputs. Its deterministic outputs and its
recurrent state agree with the network's module (and with the acting policy). Its random outputs stay in range, respect
masks and have the right distribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tau_trainer.errors import ExportError
from tau_trainer.export.build import Values, expected_inputs, expected_outputs, memory_size, visible_sensors
from tau_trainer.export.cases import Case, cases
from tau_trainer.export.reference import ROUNDING, Reference, ReferenceOutput, Value
from tau_trainer.export.session import Outputs, run_case, session_of
from tau_trainer.models import ActorCritic, Policy
from tau_trainer.models import tensor_names as names
from tau_trainer.models.actor_critic import MEMORY
from tau_trainer.models.distributions import branch_bounds
from tau_trainer.models.heads import ActionHead
from tau_trainer.specs import ActionSpec, BehaviorSpec


def verify(model: bytes, network: ActorCritic, spec: BehaviorSpec, policy: Policy | None = None, seed: int = 0) -> None:
    """Checks a serialized model against the network it was written from.

    Args:
        model: content of the ``.onnx`` file.
        network: the module that it must match.
        spec: the behavior, with all its sensors.
        policy: the acting policy, which is also compared.
        seed: seed of the inputs and of the model's own random numbers.

    Raises:
        ExportError: names the tensor and the difference.
    """
    check_structure(model, network, spec)
    session, reference = session_of(model, seed), Reference(network)
    visible, memory = visible_sensors(network.spec, spec), memory_size(network)
    for case in cases(spec, memory, np.random.default_rng(seed)):
        outputs = run_case(session, spec, case)
        expected = reference(tuple(case.obs[i] for i in visible), case.forbidden, case.state)
        _check_deterministic(case, network.action, outputs, expected)
        _check_constants(spec.actions, memory, outputs)
        _check_samples(case, spec.actions, outputs)
        if policy is not None:
            _check_policy(case, visible, policy, network.action, expected)


def check_structure(data: bytes, network: ActorCritic, spec: BehaviorSpec) -> None:
    """Checks format, operator set, and the names, order, types and shapes of all inputs and outputs.

    Raises:
        ExportError: names what differs.
    """
    model = check_valid(data)
    opsets = [(opset.domain, opset.version) for opset in model.opset_import]
    if opsets != [("", names.OPSET)]:
        raise ExportError(f"The exported model uses operator sets {opsets}; expected the default one, {names.OPSET}.")
    if model.ir_version != names.IR_VERSION:
        raise ExportError(f"The exported model has IR version {model.ir_version}; expected {names.IR_VERSION}.")
    _check_values("inputs", model.graph.input, expected_inputs(network, spec))
    _check_values("outputs", model.graph.output, expected_outputs(network, spec))


def check_valid(data: bytes) -> onnx.ModelProto:
    """The model of a file's content. Raises ExportError."""
    try:
        model = onnx.load_model_from_string(data)
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # protobuf, checker and shape inference each have their own exceptions
        raise ExportError(
            f"The exported model is not valid ONNX ({_first_line(error)}); report this as a bug."
        ) from error
    return model


def _check_values(kind: str, values: Iterable[onnx.ValueInfoProto], expected: Values) -> None:
    values = list(values)
    found = [value.name for value in values]
    if found != list(expected):
        raise ExportError(f"The exported model has the {kind} {found}; expected {list(expected)}, in this order.")
    for value in values:
        tensor = value.type.tensor_type
        shape = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
        if (tensor.elem_type, shape) != expected[value.name]:
            raise ExportError(
                f"The exported model's '{value.name}' has element type {tensor.elem_type} and shape {shape}; "
                f"expected {expected[value.name]}."
            )


def _check_deterministic(case: Case, head: ActionHead, outputs: Outputs, expected: ReferenceOutput) -> None:
    tensors = names.DETERMINISTIC_CONTINUOUS, names.DETERMINISTIC_DISCRETE
    _check_actions(case, head, tensors, [outputs.get(name) for name in tensors], expected, "the network")
    if case.state is not None:
        compare(case, names.RECURRENT_OUT, outputs[names.RECURRENT_OUT][:, 0], expected.state, "the network")


def _check_policy(
    case: Case, visible: tuple[int, ...], policy: Policy, head: ActionHead, expected: ReferenceOutput
) -> None:
    state = {column.name: column.empty(len(case.obs[0])) for column in policy.state_columns}
    if case.state is not None:
        state[MEMORY][:] = case.state[:, None]
    obs, rng = tuple(case.obs[i] for i in visible), np.random.default_rng(0)
    actions = policy.act(obs, case.forbidden, rng, state=state, deterministic=True).to_env()
    tensors = "continuous actions of the policy", "discrete actions of the policy"
    _check_actions(case, head, tensors, [actions.continuous, actions.discrete], expected, "its exported network")


def _check_actions(
    case: Case,
    head: ActionHead,
    tensors: tuple[str, str],
    found: Sequence[NDArray[Any] | None],
    expected: ReferenceOutput,
    other: str,
) -> None:
    """Check deterministic actions, continuous and discrete, in the engine's form."""
    continuous, discrete = found
    if continuous is not None and head.actions.continuous_size:
        if head.levels is None:
            compare(case, tensors[0], continuous, expected.continuous, other)
        else:
            position = (continuous.astype(np.float64) + 1.0) * (head.levels - 1) / 2.0
            whole = Value(np.rint(position), np.full(position.shape, ROUNDING * head.levels))
            compare(case, tensors[0], position, whole, f"its {head.levels} levels")
            _compare_discrete(case, tensors[0], whole.value, expected.branches[: head.leveled])
    if discrete is not None and head.actions.discrete_size:
        _compare_discrete(case, tensors[1], discrete, expected.branches[head.leveled :])


def compare(case: Case, tensor: str, found: NDArray[Any], expected: Value, other: str) -> None:
    """Check one output against values and their allowed errors. Raises ExportError."""
    value, error = expected
    if found.shape != value.shape:
        raise ExportError(f"'{tensor}' has shape {found.shape} for {case.name}; expected {value.shape}.")
    difference = np.abs(found.astype(np.float64) - value)
    # `not <=` also catches NaN
    if not (difference <= error).all():
        raise ExportError(
            f"'{tensor}' differs from {other} by {np.max(difference):.3g} for {case.name}; "
            "the model was not written; report this as a bug."
        )


def _compare_discrete(case: Case, tensor: str, found: NDArray[Any], expected: tuple[Value, ...]) -> None:
    """Check for equal choices; a different one is accepted if its logit is the highest up to rounding."""
    due = len(case.obs[0]), len(expected)
    if found.shape != due:
        raise ExportError(f"'{tensor}' has shape {found.shape} for {case.name}; expected {due}.")
    for branch, (logits, error) in enumerate(expected):
        choice = found[:, branch].astype(np.int64)
        if ((choice < 0) | (choice >= logits.shape[1])).any():
            raise ExportError(f"'{tensor}' chooses an action that branch {branch} does not have, for {case.name}.")
        loss = logits.max(axis=1) - np.take_along_axis(logits, choice[:, None], axis=1)[:, 0]
        if not (loss <= 2 * error.max(axis=1)).all():
            raise ExportError(
                f"'{tensor}' chooses an action of branch {branch} whose logit is {loss.max():.3g} below the best, "
                f"for {case.name}; the model was not written; report this as a bug."
            )


def _check_constants(actions: ActionSpec, memory: int, outputs: Outputs) -> None:
    expected: dict[str, list[float]] = {names.VERSION_NUMBER: [names.MODEL_VERSION], names.MEMORY_SIZE: [memory]}
    if actions.continuous_size:
        expected[names.CONTINUOUS_SHAPE] = [actions.continuous_size]
    if actions.discrete_size:
        expected[names.DISCRETE_SHAPE] = list(actions.discrete_branches)
    for name, values in expected.items():
        if outputs[name].ravel().tolist() != values:
            raise ExportError(f"'{name}' is {outputs[name].ravel().tolist()}; expected {values}.")


def _check_samples(case: Case, actions: ActionSpec, outputs: Outputs) -> None:
    if actions.continuous_size:
        sample = outputs[names.CONTINUOUS]
        if not (np.abs(sample) <= 1.0 + 1e-6).all():
            raise ExportError(f"'{names.CONTINUOUS}' leaves [-1, 1] for {case.name}: {np.abs(sample).max():.6g}.")
    if actions.discrete_size and case.forbidden is not None:
        sample = outputs[names.DISCRETE]
        for branch, (begin, end) in enumerate(branch_bounds(actions.discrete_branches)):
            choice, size = sample[:, branch : branch + 1], end - begin
            if ((choice < 0) | (choice >= size)).any():
                raise ExportError(f"'{names.DISCRETE}' leaves branch {branch} of {size} actions for {case.name}.")
            if np.take_along_axis(case.forbidden[:, begin:end], choice, axis=1).any():
                raise ExportError(f"'{names.DISCRETE}' takes a forbidden action of branch {branch} for {case.name}.")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)

from __future__ import annotations

from tau_trainer.models import tensor_names as names
from tau_trainer.specs import ActionSpec


def test_inputs_and_outputs_of_each_kind_of_policy() -> None:
    assert names.input_names(2, ActionSpec(3), 0) == ("obs_0", "obs_1")
    assert names.input_names(1, ActionSpec(0, (2,)), 8) == ("obs_0", "action_masks", "recurrent_in")
    assert names.output_names(ActionSpec(1, (2,)), 8) == (
        "version_number",
        "memory_size",
        "continuous_actions",
        "continuous_action_output_shape",
        "deterministic_continuous_actions",
        "discrete_actions",
        "discrete_action_output_shape",
        "deterministic_discrete_actions",
        "recurrent_out",
    )
    assert names.output_names(ActionSpec(1), 0)[2:] == names.output_names(ActionSpec(1, (2,)), 8)[2:5]

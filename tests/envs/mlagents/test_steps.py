"""Steps of engines as arrays of mlagents-envs."""

from __future__ import annotations

import numpy as np

from tau_trainer.envs.mlagents.steps import behavior_spec, steps
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec, empty_terminals
from tests.envs.mlagents.engines import GOODBYE, Talk, batch, message


def test_masks_are_split_by_branch_and_images_from_bytes_become_floats() -> None:
    wire = BehaviorSpec("A", (ObservationSpec("camera", (1, 2, 2), dtype=np.uint8),), ActionSpec(0, (3, 2)))
    mask = np.array([[True, False, False, False, True]])
    one = batch(wire, 1, mask=mask)
    pixels = np.array([0, 1, 128, 255], np.uint8).reshape(1, 1, 2, 2)
    one.obs = (pixels,)
    one.terminals = empty_terminals(wire.observations, 1)
    one.terminals.obs[0][:] = 51
    decisions, terminals = steps(behavior_spec(wire), one)
    assert decisions.action_mask is not None
    assert [part.tolist() for part in decisions.action_mask] == [[[True, False, False]], [[False, True]]]
    assert decisions.obs[0].dtype == terminals.obs[0].dtype == np.float32
    assert decisions.obs[0].ravel().tolist() == (pixels.ravel().astype(np.float32) / 255.0).tolist()
    assert np.unique(terminals.obs[0]).tolist() == [np.float32(0.2)]


def test_images_are_read_in_the_order_of_their_shape_as_mlagents_envs_reads_them() -> None:
    """Whatever package 3.0.0, which this engine says it is, writes there: the docstring says how to undo it."""
    spec = BehaviorSpec("Eyes?team=0", (ObservationSpec("camera", (3, 4, 5)),), ActionSpec(1))
    one = batch(spec, 7)
    picture = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)
    one.obs = (picture,)
    talk = Talk(message(one, specs=[spec]), GOODBYE)
    env = talk.environment()
    env.reset()
    decisions, _ = env.get_steps(spec.name)
    (seen,) = decisions.obs
    np.testing.assert_array_equal(seen.ravel(), picture.transpose(0, 2, 3, 1).ravel())
    channels, height, width = seen.shape[1:]
    np.testing.assert_array_equal(seen.reshape(-1, height, width, channels).transpose(0, 3, 1, 2), picture)
    env.close()

"""Defects and oddities of mlagents-learn 1.1.0, and what shows that they are not here.

:data:`DEFECTS` has one row each. Where the row names a test, that test would fail with the defect; the others are
below, named after their number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from tau_trainer.algorithms import Counters, Setup
from tau_trainer.algorithms.minibatches import shuffled
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.readers import RolloutReader
from tau_trainer.export import export_onnx
from tau_trainer.memory import Replay, Rollout
from tau_trainer.metrics import MetricsHub
from tau_trainer.models import tensor_names as names
from tau_trainer.settings import RewardSignalSettings
from tau_trainer.training.learning import pool as pool_module
from tau_trainer.training.learning.learner import Shared
from tau_trainer.training.learning.pool import LearnerPool
from tau_trainer.training.plan import make_plan
from tests.algorithms import replayed
from tests.algorithms.experience import CONTINUOUS, HYBRID, Collector, behavior, ppo, settings
from tests.networks import make_network, observations, policy_of
from tests.test_guides import functions
from tests.training.fakes import tau_settings, vector_spec

HERE = "here"
DEFECTS: dict[int, tuple[str, tuple[str, ...]]] = {
    1: (
        "value clipping looks under the wrong key and does nothing",
        ("tests/algorithms/test_ppo.py::test_update_equals_the_reference",),  # which has none
    ),
    2: (
        "no gradient clipping, no KL limit, no normalisation by minibatch: long runs end in NaN",
        (
            "tests/algorithms/test_ppo.py::test_variants_equal_the_reference",
            "tests/algorithms/test_ppo.py::test_target_kl_ends_an_update_early",
            "tests/algorithms/test_ppo_state.py::test_an_update_that_went_wrong_leaves_no_trace",
        ),
    ),
    3: (
        "the critic's memory of one agent goes on in the next trajectory",
        (
            "tests/algorithms/test_readers.py::test_recurrent_state_is_stored_with_each_decision",
            "tests/training/test_agents.py::test_state_ends_with_the_episode_before_the_next_decision",
            "tests/models/test_actor_critic.py::test_actor_and_critic_have_encoders_and_memories_of_their_own",
        ),
    ),
    4: ("the deterministic output of SAC's model is not squashed", (HERE,)),
    5: (
        "demonstrations pair an observation with the action of one decision later",
        ("tests/bridge/test_demonstrations.py::test_answers_of_unitys_recorder_stand_one_record_later",),
    ),
    6: (
        "the last checkpoint replaces the good one even when its weights are NaN",
        (
            "tests/training/pairs/test_collector.py::test_nan_again_and_again_ends_the_run_without_a_nan_on_disk",
            "tests/runs/test_checkpoints.py::test_numbers_that_are_not_finite_never_reach_a_checkpoint",
        ),
    ),
    7: (
        "with min_lesson_length 0 a single episode ends a lesson",
        ("tests/training/test_lessons.py::test_a_single_lucky_episode_ends_no_lesson",),
    ),
    8: (
        "the policy changes within a trajectory, so that no run can be repeated",
        (
            "tests/training/pairs/test_collector.py::test_the_same_seed_is_the_same_run_to_the_bit",
            "tests/algorithms/test_ppo.py::test_data_of_an_older_policy_has_ratio_one_too",
        ),
    ),
    9: (
        "an update begins only beyond a full buffer, and what is left of it after whole minibatches is silently lost",
        (HERE, "tests/settings/test_outlook.py::test_a_slip_is_warned_of"),
    ),
    10: ("advantages of several reward signals are averaged: a strength counts less the more there are", (HERE,)),
    11: ("cuda:1 becomes cuda", (HERE,)),
    12: (
        "one engine that crashes resets all of them",
        (
            "tests/training/pairs/test_collector.py::test_a_restarted_engine_costs_its_open_trajectories_only",
            "tests/test_promises.py::test_a_broken_engine_costs_its_own_open_trajectories_only",
        ),
    ),
    13: (
        "Elo moves by 1 and knows two teams",
        (
            "tests/training/learning/test_opponents.py::test_against_several_teams_every_pair_is_rated_with_its_share",
            "tests/training/learning/test_self_play.py::test_elo_and_results_are_told",
        ),
    ),
    14: (
        "self-play resets every engine when the learning team changes",
        (
            "tests/training/learning/test_self_play.py"
            "::test_nothing_of_a_ghost_is_stored_or_counted_and_no_environment_is_reset",
        ),
    ),
    15: ("SAC draws a second minibatch for signals that are not there", (HERE,)),
    16: ("SAC's entropy coefficients are not in the checkpoint", (HERE,)),
    17: (
        "NaN from one engine ends the run",
        (
            "tests/envs/test_engines.py::test_an_engine_that_fails_is_replaced_and_plays_on",
            "tests/bridge/test_agent_records.py::test_what_is_not_finite_is_named",
        ),
    ),
}


@pytest.mark.parametrize("number", range(1, 18))
def test_each_is_shown_to_be_absent(number: int) -> None:
    defect, shown = DEFECTS[number]
    assert defect
    for place in shown:
        if place == HERE:
            assert any(name.startswith(f"test_{number}_") for name in functions(Path(__file__)))
        else:
            file, name = place.split("::")
            assert name in functions(Path(__file__).parents[1] / file), place


def test_4_the_deterministic_output_of_sacs_model_is_squashed(tmp_path: Path) -> None:
    spec = behavior(CONTINUOUS)
    network = make_network(spec, squashed=True)
    with torch.no_grad():
        network.action.bias[: CONTINUOUS.continuous_size] = torch.tensor([4.0, -4.0])
    obs = observations(spec, 9)
    mean = network.outputs(network.prepare(obs)).detach().numpy()[:, :2]
    assert np.abs(mean).max() > 1.0, "which no engine takes"
    file = export_onnx(policy_of(network), spec, tmp_path / "Walker.onnx")
    session = onnxruntime.InferenceSession(str(file))
    feed = {f"obs_{i}": values for i, values in enumerate(obs)}
    (actions,) = session.run([names.DETERMINISTIC_CONTINUOUS], feed)
    np.testing.assert_allclose(actions, np.tanh(mean), rtol=1e-4, atol=1e-5)


def test_9_a_full_buffer_is_enough_and_every_decision_of_it_has_its_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: dict[str, Any] = {"buffer_size": 40, "batch_size": 16, "num_epoch": 6, "updates_per_buffer": 1}
    learner = ppo(CONTINUOUS, settings(**numbers))
    collector, seen = Collector(learner), set[int]()

    def watched(samples: Any, order: torch.Tensor) -> Any:
        seen.update(order.tolist())
        return shuffled(samples, order)

    monkeypatch.setattr("tau_trainer.algorithms.minibatches.shuffled", watched)
    work = None
    while work is None:
        assert learner.memory.completed < 40
        collector.step(learner.snapshot())
        work = learner.ready(Counters(0, 0))
    assert len(Rollout(work.data)) == 40
    learner.update(work.data, 0.0, None)
    assert seen == set(range(40)), "each epoch leaves out others"


def test_10_advantages_of_several_signals_are_summed() -> None:
    def advantages(first: float, second: float) -> Any:
        signals = {
            "extrinsic": RewardSignalSettings(gamma=0.9, strength=first),
            "bonus": RewardSignalSettings(gamma=0.6, strength=second),
        }
        learner = ppo(CONTINUOUS, settings(signals=signals))
        rollout = Rollout(Collector(learner).collect(learner.snapshot()))
        reader = RolloutReader(rollout, learner.network, 0, learner.generator)
        with torch.no_grad():
            learner.network.value.weight.zero_()
            return reader.advantages(torch.zeros(len(rollout), 2), learner.policy_update)[0].numpy()

    np.testing.assert_allclose(advantages(0.5, 2.0), advantages(0.5, 0.0) + advantages(0.0, 2.0), rtol=1e-6, atol=1e-9)
    assert np.abs(advantages(0.5, 0.0)).max() > 0.1
    np.testing.assert_allclose(advantages(3.0, 0.0), 6.0 * advantages(0.5, 0.0), rtol=1e-6)


def test_11_the_device_that_is_named_is_the_one_that_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def capture(setup: Setup) -> PPO:
        asked.append(setup.device)
        raise KeyboardInterrupt

    monkeypatch.setattr(pool_module, "make_algorithm", capture)
    plan = make_plan("learn", tau_settings(tmp_path, torch_settings__device="cuda:1", tau=None), tmp_path)
    with MetricsHub() as hub:
        learners = LearnerPool(plan, Shared(hub))
        with pytest.raises(KeyboardInterrupt):
            learners.agent(0, vector_spec(name="TauAgent?team=0"))
        learners.close()
    assert asked == ["cuda:1"]


def test_15_sac_draws_a_minibatch_for_each_gradient_step_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = replayed.sac(CONTINUOUS, replayed.settings(batch_size=16, steps_per_update=2.0))
    drawn: list[int] = []
    original = Replay.take

    def watched(self: Replay, rows: Any) -> Any:
        drawn.append(len(rows))
        return original(self, rows)

    monkeypatch.setattr(Replay, "take", watched)
    replayed.trained(learner)
    assert learner.steps > 10
    assert sum(drawn) == 16 * learner.steps


def test_16_the_entropy_coefficients_come_back_with_the_checkpoint() -> None:
    learner = replayed.sac(HYBRID, replayed.settings(init_entcoef=0.7))
    before = learner.module.log_coefficients.detach().clone()
    replayed.trained(learner)
    learned = learner.module.log_coefficients.detach().clone()
    assert (learned != before).all()
    arrays, metadata = learner.state()
    again = replayed.sac(HYBRID, replayed.settings(init_entcoef=0.7), seed=9)
    again.load(arrays, metadata, fresh=False)
    torch.testing.assert_close(again.module.log_coefficients.detach(), learned, rtol=0, atol=0)

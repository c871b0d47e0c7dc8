"""Processes that learn as one: the numbers of one, and what is left when one dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.algorithms import Algorithm, OffPolicy, Setup, check_shared, make_algorithm
from tau_trainer.algorithms.off_policy.transitions import minibatches
from tau_trainer.algorithms.poca import MAPPO, POCA
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.errors import EngineRefusedError, LearnerError, NonFiniteError, SettingsError
from tau_trainer.memory import Work
from tau_trainer.metrics import keys
from tau_trainer.remote.process import Message
from tau_trainer.settings import TrainerSettings, load_settings, trainer_type
from tau_trainer.settings.signals import CuriositySettings
from tau_trainer.specs import ActionSpec
from tau_trainer.training.learning.group import LearnerGroup, Ranked
from tau_trainer.training.learning.process import RemoteLearner
from tests.algorithms.experience import behavior
from tests.algorithms.grouped import AGENTS, History, poca
from tests.algorithms.replayed import Collector, random_batch, sac
from tests.algorithms.test_cloning import recording
from tests.algorithms.test_learned_streams import VECTORS, rollout_of
from tests.algorithms.test_learned_streams import learner as of_streams
from tests.remote.threads import Threads
from tests.training.fakes import ppo_settings, settings_from, train, vector_spec
from tests.training.learners import experience

CONTINUOUS, DISCRETE = behavior(ActionSpec(2)), behavior(ActionSpec(0, (3, 2)))
REPLAYED = {"batch_size": 16, "buffer_size": 300, "buffer_init_steps": 0}
NETWORK = {"hidden_units": 16, "num_layers": 1, "normalize": True}


def settings(kind: str, network: dict[str, Any] = NETWORK, **numbers: Any) -> TrainerSettings:
    replayed = {} if kind == "poca" else REPLAYED
    given = {"trainer_type": kind, "hyperparameters": replayed | numbers, "network_settings": network}
    return trainer_type(kind).settings.model_validate(given)


def of_groups(kind: type[POCA]) -> Setup:
    signals = {"curiosity": CuriositySettings(strength=0.1)}
    return poca(VECTORS, kind, signals=signals, network=NETWORK, num_epoch=3, batch_size=9)._setup


PPO = {"batch_size": 7, "buffer_size": 16, "num_epoch": 3, "normalize_advantage": "minibatch"}
BY_BUFFERS = {"normalize_advantage": "buffer", "target_kl": 10.0, "shrink_at": 0.1}
SETUPS = {
    "ppo": Setup(vector_spec(), ppo_settings(hyperparameters=PPO, network_settings=NETWORK), 3),
    "ppo by buffers": Setup(vector_spec(), ppo_settings(hyperparameters=PPO | BY_BUFFERS), 3),
    "sac": Setup(CONTINUOUS, settings("sac"), 3),
    "sac_ln": Setup(CONTINUOUS, settings("sac_ln", steps_per_update=1), 3),
    "sac of branches": Setup(DISCRETE, settings("sac", n_step=2), 3),
    "dqn": Setup(DISCRETE, settings("dqn", prioritized={}, max_grad_norm=0.5, target_update_interval=3), 3),
    "td3": Setup(CONTINUOUS, settings("td3"), 3),
    **{name: of_groups(kind) for name, kind in (("poca", POCA), ("mappo", MAPPO))},
}
Feed = Callable[[int], Work]
RUN = """
behaviors:
  Count-v0:
    trainer_type: sac
    hyperparameters: {batch_size: 8, buffer_size: 300}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 100
env_settings: {env_path: "gym:tests.training.toys:Count-v0", env_args: ["length=15"], seed: 7}
"""


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LearnerGroup]:
    """One for all tests that do it no harm."""
    warnings: list[str] = []
    group = LearnerGroup(Ranked(2, "cpu", tmp_path_factory.mktemp("logs")), warnings.append)
    yield group
    group.close()
    assert warnings == []


def feed_of(setup: Setup) -> Feed:
    """Makes work: the same of the same number."""
    maker = make_algorithm(setup)
    if isinstance(maker, OffPolicy):
        collector = Collector(maker)
        return lambda number: Work(collector.collect())
    if isinstance(maker, POCA):
        return lambda number: of_messages(maker, number)
    return lambda number: experience(maker, maker.snapshot(), number)


def of_messages(learner: POCA, seed: int) -> Work:
    """Twelve messages in which agents of two groups, and of none, ask, stay silent, die and are cut off."""
    rng = np.random.default_rng(seed)
    does = rng.choice(["asks", "asks", "asks", "silent", "dies", "cut", "dies and asks"], (12, AGENTS))
    return Work(
        History(learner, learner.snapshot(), seed).play(zip(does, rng.integers(3, size=(12, AGENTS)), strict=True))
    )


def copied(work: Work) -> Work:
    data, arrays = work.sent()
    return Work.received(data, {name: np.array(values) for name, values in arrays.items()})


def assert_near(learner: RemoteLearner, algorithm: Algorithm) -> None:
    for name, values in algorithm.weights().items():
        # The same number for every key changes no softmax: its gradient is rounding alone, which Adam makes steps of.
        if not name.endswith("key.bias"):
            found = learner.policy().weights[name]
            np.testing.assert_allclose(found, values, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("name", SETUPS)
def test_two_are_one_learner_of_the_whole_batch(group: LearnerGroup, name: str) -> None:
    """Weights and what is told, after 20 updates or a few, to the order in which numbers are added."""
    updates = 20 if name == "ppo" else 6
    setup = SETUPS[name]
    learner, algorithm = RemoteLearner(group, name, setup, make_algorithm(setup)), make_algorithm(setup)
    feed, begun = feed_of(setup), algorithm.weights()
    for number in range(updates):
        work = feed(number)
        told = learner.submit(copied(work), 0.1, None)
        alone = algorithm.update(work, 0.1, None)
        assert {key: told[key] for key in told if "seconds" not in key.lower()} == pytest.approx(
            {key: alone[key] for key in alone if "seconds" not in key.lower()}, rel=2e-3, abs=2e-4
        )
    assert_near(learner, algorithm)
    assert any(not np.allclose(values, begun[key], atol=1e-3) for key, values in algorithm.weights().items())
    arrays, data = learner.state()
    assert data["version"] == updates
    assert data["algorithm"] == algorithm.state()[1]["algorithm"]
    learner.load(arrays, data, fresh=False)
    assert_near(learner, algorithm)


def test_all_learn_the_same_beside_their_policy(group: LearnerGroup, tmp_path: Path) -> None:
    """Learned rewards, and what imitates: each process learns them whole, from all experience."""
    setup = of_streams("ppo", ("curiosity", "rnd", "gail"), tmp_path)._setup
    cloned = {"behavioral_cloning": {"demo_path": recording(tmp_path, VECTORS), "strength": 0.5}}
    trained = type(setup.settings).model_validate(setup.settings.model_dump() | cloned | {"max_steps": 1000})
    setup = replace(setup, settings=trained)
    learner, algorithm = RemoteLearner(group, "beside", setup, make_algorithm(setup)), make_algorithm(setup)
    for number in range(4):
        work = Work(rollout_of(algorithm, seed=number))
        told, alone = learner.submit(copied(work), 0.1, None), algorithm.update(work, 0.1, None)
        assert {key: told[key] for key in alone if key.startswith("Losses/")} == pytest.approx(
            {key: alone[key] for key in alone if key.startswith("Losses/")}, rel=2e-3, abs=2e-4
        )
    assert {"Losses/Pretraining Loss", "Losses/GAIL Loss", "Losses/RND Loss"} < set(told)
    assert_near(learner, algorithm)


def test_each_learns_from_its_part() -> None:
    """Minibatches are shared out without a rest and without a row twice."""
    drawn, *_ = random_batch(sac(ActionSpec(2)), 12)
    parts = [minibatches(drawn, 2, Ranks(rank, 3)) for rank in range(3)]
    assert [[len(batch.rewards) for batch in part] for part in parts] == [[2, 2]] * 3
    for number in range(2):
        together = np.concatenate([part[number].continuous.numpy() for part in parts])
        np.testing.assert_array_equal(together, drawn.continuous[6 * number : 6 * number + 6].numpy())


@pytest.mark.skipif(os.name == "nt", reason="kills by a signal of POSIX")
def test_one_that_dies_is_replaced_from_what_the_others_know(tmp_path: Path) -> None:
    """Also the first, and learning goes on as if nobody had died, but for a replay memory that is not kept."""
    warnings: list[str] = []
    group = LearnerGroup(Ranked(2, "cpu", tmp_path), warnings.append)
    setup = SETUPS["ppo"]
    learner, algorithm = RemoteLearner(group, "it", setup, make_algorithm(setup)), make_algorithm(setup)
    replayed = RemoteLearner(group, "replayed", SETUPS["sac"], make_algorithm(SETUPS["sac"]))
    replayed.submit(feed_of(SETUPS["sac"])(0), 0.1, None)
    feed = feed_of(setup)
    for number in range(7):
        if number in (2, 4):
            os.kill(group._processes[number % 4 // 2]._process.pid, signal.SIGKILL)
        if number == 6:  # a defect of one alone: the other would wait for it
            group._processes[1].say(Message("update", {"learner": "nobody"}, {}))
        work = feed(number)
        learner.submit(copied(work), 0.1, None)
        algorithm.update(work, 0.1, None)
    assert_near(learner, algorithm)
    assert learner.policy().version == 7
    assert len(warnings) == 3
    assert warnings[0].startswith("rank 1 of 2 that learn ended by SIGKILL")
    assert warnings[1].startswith("rank 0 of 2 that learn ended by SIGKILL")
    assert warnings[2].startswith("rank 1 of 2 that learn ended with exit code 1")
    ends = "learning continues in a new one, with the state of the others; the replay memory starts empty "
    assert all(f"; {ends}(save_replay_buffer: true keeps it)" in warning for warning in warnings)
    for process in group._processes:
        os.kill(process._process.pid, signal.SIGKILL)
    with pytest.raises(LearnerError, match=r"^rank 0 of 2 that learn ended by SIGKILL"):
        learner.submit(feed(9), 0.1, None)
    group.close()


def test_only_the_first_tells_of_minibatches(group: LearnerGroup) -> None:
    told: list[int] = []
    setup = replace(SETUPS["ppo"], on_batch=lambda count, statistics: told.append(0 if statistics is None else count))
    learner = RemoteLearner(group, "heard", setup, make_algorithm(setup))
    found = learner.submit(copied(feed_of(setup)(0)), 0.1, None)
    assert sum(told) == found[keys.MINIBATCHES] > 0
    answer = group._processes[1].ask(Message("state", {"learner": "heard"}, {}))
    assert answer.kind == "state", "nothing of the other one waits to be read"


def test_what_an_algorithm_refuses_is_told_once_and_changes_nothing(group: LearnerGroup) -> None:
    setup = SETUPS["ppo"]
    learner, algorithm = RemoteLearner(group, "nan", setup, make_algorithm(setup)), make_algorithm(setup)
    feed = feed_of(setup)
    work = copied(feed(0))
    work.data["reward.extrinsic"][:] = np.nan
    with pytest.raises(NonFiniteError, match="reward 'extrinsic' is NaN"):
        learner.submit(work, 0.1, None)
    learner.submit(copied(feed(1)), 0.1, None)
    algorithm.update(feed(1), 0.1, None)
    assert_near(learner, algorithm)


@pytest.mark.parametrize(
    ("setup", "text"),
    [
        (Setup(DISCRETE, settings("iqn"), 1), "its algorithm learns in one process"),
        (Setup(CONTINUOUS, settings("maddpg"), 1), "its algorithm learns in one process"),
        (
            Setup(CONTINUOUS, settings("sac", batch_size=15), 1),
            r"minibatches of 15 \(batch_size\) cannot be divided evenly",
        ),
        (Setup(DISCRETE, settings("dqn", noisy=True), 1), "noisy networks learn in one process"),
        (
            Setup(vector_spec(), ppo_settings(network_settings=NETWORK | {"memory": {"sequence_length": 8}}), 1),
            "a network with a memory",
        ),
    ],
    ids=["iqn", "maddpg", "uneven", "noisy", "memory"],
)
def test_what_learns_in_one_process_is_refused(setup: Setup, text: str) -> None:
    algorithm = make_algorithm(setup)
    check_shared(algorithm, setup.spec, 1)
    with pytest.raises(SettingsError, match=rf"^--devices 2: behavior '\w+': {text}.*; remove it$"):
        check_shared(algorithm, setup.spec, 2)


def test_all_but_the_first_are_elsewhere_where_there_are_other_machines(tmp_path: Path) -> None:
    place = Threads()
    assert Ranked(3, "cuda:1", tmp_path, place=place).devices() == ["cuda:1", "cuda", "cuda"]
    assert Ranked(2, "cpu", tmp_path).devices() == ["cpu", "cpu"]


def test_a_run_learns_so(tmp_path: Path) -> None:
    """With every behavior in the same processes; what is not for several is told before anything is played."""
    report = train(settings_from(RUN, tmp_path, "it", devices=2), command="learn")
    assert (report.outcome, report.decisions) == ("completed", 100)
    logs = tmp_path / "it" / "run_logs"
    assert [(logs / f"Learner-{rank}.log").read_text() for rank in range(2)] == ["", ""]
    assert load_settings(tmp_path / "it" / "configuration.yaml").devices == 2
    uneven = settings_from(RUN, tmp_path, "uneven", devices=2, **{"behaviors.*.hyperparameters.batch_size": 7})
    with pytest.raises(EngineRefusedError, match=r"--devices 2: behavior 'Count-v0': minibatches of 7 \(batch_size\)"):
        train(uneven, command="learn")

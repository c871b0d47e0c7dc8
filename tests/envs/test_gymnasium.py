"""Gymnasium's environments as a pair plays them, against the same environments stepped by hand."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import DTypeLike, NDArray

from tau_trainer.envs import Environment, open_source
from tau_trainer.envs.gymnasium import GymnasiumSource
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import EngineError, SettingsError
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import Actions, DimensionProperty, ObservationSpec, StepBatch
from tests.envs.gyms import COPIES, SEED, Make, Probe, environment_of, playing, vector
from tests.envs.playing import Sentences, play, small_run
from tests.training.fakes import Memory

# --- step by step as by hand ------------------------------------------------------------------------------------------

Told = tuple[str, float, bool, list[list[float]]]
"""What an agent is told: asked or ended, reward, cut or not, its sensors."""


def flat(space: spaces.Space[Any], obs: Any) -> list[list[float]]:
    """Sensors of one observation, worked out another way than the adapter's."""
    if isinstance(space, spaces.Dict):
        return [sensor for key, own in space.spaces.items() for sensor in flat(own, obs[key])]
    if isinstance(space, spaces.Tuple):
        return [sensor for own, part in zip(space.spaces, obs, strict=True) for sensor in flat(own, part)]
    if space.shape in ((8, 6, 3), (5, 5, 9)):
        return [[float(number) for channel in range(space.shape[2]) for number in obs[..., channel].ravel()]]
    return [np.asarray(spaces.flatten(space, obs), np.float32).ravel().tolist()]


def by_hand(make: Make, seed: int, choices: NDArray[np.int64]) -> list[Told]:
    """One environment, played with its own ``choices``."""
    env, told = make(), list[Told]()
    obs, _ = env.reset(seed=seed)
    told.append(("asked", 0.0, False, flat(env.observation_space, obs)))
    for choice in choices:
        obs, reward, terminated, truncated, _ = env.step(choice)
        cut, sensors = truncated and not terminated, flat(env.observation_space, obs)
        if terminated or truncated:
            told.append(("ended", float(reward), cut, sensors))
            obs, _ = env.reset()
            told.append(("asked", 0.0, False, flat(env.observation_space, obs)))
        else:
            told.append(("asked", float(reward), False, sensors))
    env.close()
    return told


def sensors_of(obs: tuple[NDArray[Any], ...], row: int) -> list[list[float]]:
    return [sensor[row].astype(np.float32).ravel().tolist() for sensor in obs]


async def adapted(environment: Environment, choices: NDArray[np.int64], exchanges: int) -> list[list[Told]]:
    """What each copy is told; ``choices`` [copies, n]: what it does at its first, second, ... decision."""
    told: list[list[Told]] = [[] for _ in choices]
    decided = np.zeros(len(choices), np.int64)
    batches = await environment.start({})
    for _ in range(exchanges):
        (batch,), (spec,) = batches, environment.specs.values()
        assert batch.behavior == spec.name
        ended = batch.terminals
        for row, agent in enumerate(ended.agent_ids):
            last = sensors_of(ended.obs, row)
            told[agent].append(("ended", float(ended.reward[row]), bool(ended.truncated[row]), last))
        for row, agent in enumerate(batch.agent_ids):
            told[agent].append(("asked", float(batch.reward[row]), False, sensors_of(batch.obs, row)))
        ids = batch.agent_ids
        chosen = choices[ids, decided[ids]][:, None].astype(np.int32)
        actions = {spec.name: Actions(np.zeros((len(ids), 0), np.float32), chosen)}
        decided[ids] += 1
        environment.answer(actions)
        batches = await environment.next()
    return told


NESTED = spaces.Dict(
    {"near": spaces.Tuple((spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(3, start=4))), "flags": spaces.MultiBinary(3)}
)
GAMES: dict[str, Make] = {
    # Falls, or is cut after ten steps.
    "CartPole": lambda: gymnasium.make("CartPole-v1", max_episode_steps=10),
    "vector": Probe,
    "nested": lambda: Probe(NESTED),
    "tuple": lambda: Probe(spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 255, (4, 4), np.uint8)))),
}


@pytest.mark.parametrize("copies", [1, COPIES])
@pytest.mark.parametrize("game", GAMES)
async def test_every_copy_is_told_what_it_would_be_told_by_hand(game: str, copies: int) -> None:
    """Rewards, both kinds of ends, last observations and the first ones after them."""
    choices = (np.random.default_rng(3).random((copies, 90)) < 0.95).astype(np.int64)
    environment = environment_of(vector(GAMES[game], copies))
    async with playing(environment):
        told = await adapted(environment, choices, 90)
        for number, heard in enumerate(told):
            assert heard == by_hand(GAMES[game], SEED + number, choices[number])[: len(heard)]
        assert {cut for heard in told for kind, _, cut, _ in heard if kind == "ended"} == {True, False}


# --- spaces -----------------------------------------------------------------------------------------------------------


def image(*shape: int, dtype: DTypeLike = np.uint8) -> ObservationSpec:
    none, even = DimensionProperty.NONE, DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
    return ObservationSpec("observation", shape, (none, even, even), dtype=dtype)


def vectors(**sizes: int) -> list[ObservationSpec]:
    return [ObservationSpec(name.replace("_", "."), (size,)) for name, size in sizes.items()]


SENSORS = [
    (spaces.Box(-1, 1, (3,), np.float64), vectors(observation=3)),
    (spaces.Box(-1, 1, ()), vectors(observation=1)),
    (spaces.Box(-1, 1, (2, 3)), vectors(observation=6)),
    (spaces.Box(-1, 1, (2, 3, 4)), vectors(observation=24)),
    (spaces.Box(-1, 1, (2, 2, 2, 2)), vectors(observation=16)),
    (spaces.Box(-1, 1, (0,)), vectors(observation=0)),
    (spaces.Box(-1, 1, (0, 84, 84)), vectors(observation=0)),
    (spaces.Box(0, 9, (3, 3), np.int64), vectors(observation=9)),
    (spaces.Box(0, 1, (4, 4, 12), np.int8), vectors(observation=192)),
    (spaces.Box(0, 255, (2, 20, 20, 3), np.uint8), vectors(observation=2400)),
    (spaces.Box(0, 255, (8, 6, 3), np.uint8), [image(3, 8, 6)]),
    (spaces.Box(0, 255, (4, 8, 6), np.uint8), [image(4, 8, 6)]),
    (spaces.Box(0, 255, (8, 6), np.uint8), [image(1, 8, 6)]),
    (spaces.Box(0, 1, (5, 5, 9)), [image(9, 5, 5, dtype=np.float32)]),
    (spaces.Box(0, 255, (9, 5, 5), np.uint8), [image(9, 5, 5)]),
    (spaces.Box(0, 255, (8,), np.uint8), vectors(observation=8)),
    (spaces.Discrete(4, start=-2), vectors(observation=4)),
    (spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])), vectors(observation=14)),
    (spaces.MultiBinary((2, 3)), vectors(observation=6)),
    (NESTED, vectors(flags=3, near_0=2, near_1=3)),
    (
        spaces.Dict({"observation": spaces.Dict({"a": spaces.Discrete(2)}), "a": spaces.Discrete(3)}),
        vectors(a=3, observation_a=2),
    ),
]


@pytest.mark.parametrize(("space", "sensors"), SENSORS, ids=[str(space) for space, _ in SENSORS])
async def test_what_is_seen(space: spaces.Space[Any], sensors: list[ObservationSpec]) -> None:
    environment = environment_of(vector(lambda: Probe(space)))
    async with playing(environment):
        (batch,) = await environment.start({})
        (spec,) = environment.specs.values()
        assert sorted(spec.observations, key=lambda sensor: sensor.name) == sensors
        for row in range(COPIES):
            assert sensors_of(batch.obs, row) == flat(space, make_sample(space, SEED + row))
        for seen, sensor in zip(batch.obs, spec.observations, strict=True):
            assert (seen.shape, seen.dtype) == ((COPIES, *sensor.shape), sensor.dtype)


def make_sample(space: spaces.Space[Any], seed: int) -> Any:
    """The first sample after a seed."""
    space = copy.deepcopy(space)
    space.seed(seed)
    return space.sample()


@pytest.mark.parametrize(
    ("observation", "action", "sentence"),
    [
        (spaces.Text(9), None, r"^the environment observes Text\(.*\), which no network here can read; wrap it$"),
        (spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))}), None, r"^the environment observes Sequence"),
        (
            None,
            spaces.Dict({"a": spaces.Discrete(2)}),
            r"^the environment has the action space Dict\(.*\), which is not supported",
        ),
    ],
)
async def test_spaces_that_cannot_be_learned_on(
    observation: spaces.Space[Any] | None, action: spaces.Space[Any] | None, sentence: str
) -> None:
    environment = environment_of(vector(lambda: Probe(observation, action)))
    async with playing(environment):
        with pytest.raises(SettingsError, match=sentence):
            await environment.start({})


# --- seeds ------------------------------------------------------------------------------------------------------------


def first_samples(seed: int) -> list[list[list[float]]]:
    space = spaces.Box(-1.0, 1.0, (2,))
    return [flat(space, make_sample(space, seed + number)) for number in range(COPIES)]


class Masked(Probe):
    """Says by its count of steps which one value of each branch may be chosen."""

    def __init__(self, action: spaces.Space[Any], sizes: tuple[int, ...], *, silent: bool = False) -> None:
        super().__init__(action=action)
        self.sizes, self.silent, self.steps = sizes, silent, 0

    def info(self) -> dict[str, Any]:
        self.steps += 1
        masks = [np.eye(size, dtype=np.int8)[self.steps % size] for size in self.sizes]
        return {} if self.silent else {"action_mask": masks[0] if len(masks) == 1 else tuple(masks)}

    def allowed(self) -> list[int]:
        return [self.steps % size for size in self.sizes]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=seed)[0], self.info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.silent or np.ravel(action).tolist() == self.allowed()
        return *super().step(action)[:4], self.info()


@pytest.mark.parametrize(("space", "sizes"), [(spaces.Discrete(3), (3,)), (spaces.MultiDiscrete([2, 3]), (2, 3))])
async def test_an_action_mask_in_the_infos_is_obeyed(space: Any, sizes: tuple[int, ...]) -> None:
    """The copy that never says anything may do all."""
    copies = [Masked(space, sizes), Masked(space, sizes, silent=True), Masked(space, sizes)]
    made: list[Make] = [lambda copy=copy: copy for copy in copies]  # type: ignore[misc]
    environment = environment_of(lambda: SyncVectorEnv(made, autoreset_mode=AutoresetMode.SAME_STEP))
    async with playing(environment):
        batches = await environment.start({})
        for _ in range(30):
            (batch,), ((name, _),) = batches, environment.specs.items()
            assert batch.action_mask is not None
            assert not batch.action_mask[batch.agent_ids == 1].any()
            free = np.split(~batch.action_mask, np.cumsum(sizes)[:-1], axis=1)
            assert all((one[batch.agent_ids != 1].sum(axis=1) == 1).all() for one in free)
            best = np.stack([one.argmax(axis=1) for one in free], axis=1).astype(np.int32)
            environment.answer({name: Actions(np.zeros((len(best), 0), np.float32), best)})
            batches = await environment.next()
        assert all(copy.episodes > 3 for copy in copies)


async def test_an_action_mask_of_another_size_is_told_of() -> None:
    environment = environment_of(lambda: SyncVectorEnv([lambda: Masked(spaces.Discrete(3), (4,))]))
    async with playing(environment):
        with pytest.raises(
            EngineError, match=r"info\['action_mask'\] of .* must have 3 numbers, for its branches \[3\]"
        ):
            await environment.start({})


async def test_copies_have_seeds_of_their_own_that_follow_from_what_they_are_told() -> None:
    environment = environment_of(vector(Probe), RestartBudget(1, -1, 1.0))

    def seen(batches: list[StepBatch]) -> list[list[list[float]]]:
        return [sensors_of(batches[0].obs, row) for row in range(COPIES)]

    async with playing(environment):
        assert seen(await environment.start({})) == first_samples(SEED)
        assert seen(await environment.reset({})) not in (first_samples(SEED), first_samples(0))
        assert seen(await environment.reset({"seed": 40.0})) == first_samples(40)
        again = await environment.recover(EngineError("gone"))
        assert seen(again) == first_samples(40), "a replacement gets what the last reset was told"


async def test_no_two_pairs_play_with_the_same_seeds(tmp_path: Path) -> None:
    source, beginnings = GymnasiumSource(settings_of(num_areas=3, seed=SEED), 2, tmp_path), list[list[float]]()
    for index in range(2):
        environment = source.make(index, lambda stat: None, Sentences())
        (batch,) = await environment.start({})
        await environment.close()
        beginnings += batch.obs[0].tolist()
    env = gymnasium.make("CartPole-v1")
    assert beginnings == [env.reset(seed=SEED + number)[0].tolist() for number in range(6)]


# --- what the command line names --------------------------------------------------------------------------------------


def settings_of(path: str = "gym:CartPole-v1", env_args: list[str] | None = None, **env: Any) -> RunSettings:
    chosen = {"env_path": path, "env_args": env_args, "seed": 1} | env
    return load_settings(None, {f"env_settings.{key}": value for key, value in chosen.items() if value is not None})


UNKNOWN = r"[^\n]+; check the name, or install its package"
NAMELESS = r"the environment's name is missing, as in gym:CartPole-v1$"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("gym:Nothing-v0", UNKNOWN),
        ("gym:Cart Pole", UNKNOWN),
        ("gym:nomodule:Foo-v0", r"No module named 'nomodule'; check the name, or install its package$"),
        ("gym:", NAMELESS),
        ("gym:module:", NAMELESS),
    ],
)
def test_an_id_that_gymnasium_does_not_know(path: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"^--env {path}: {said}"):
        open_source(settings_of(path), 1, tmp_path)


async def test_arguments_reach_the_environment(tmp_path: Path) -> None:
    source = open_source(settings_of(env_args=["max_episode_steps=3", "sutton_barto_reward=true"]), 1, tmp_path)
    environment = source.make(0, lambda stat: None, Sentences())
    async with playing(environment):
        (batch,) = await play(environment, await environment.start({}), 2)
        assert batch.reward.tolist() == [0.0], "Sutton and Barto pay at the end alone"
        (batch,) = await play(environment, [batch], 1)
        assert batch.terminals.truncated.tolist() == [True]


@pytest.mark.parametrize("text", ["continuous", "=3", "not a name=3", "x=[", "--flag=1"])
def test_arguments_that_are_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as raised:
        open_source(settings_of(env_args=[text]), 1, tmp_path)
    assert str(raised.value) == f"--env-args {text}: must be NAME=VALUE, an argument of gymnasium.make"


async def test_an_argument_that_the_environment_does_not_take(tmp_path: Path) -> None:
    environment = open_source(settings_of(env_args=["height=3"]), 1, tmp_path).make(0, lambda _: None, Sentences())
    async with playing(environment):
        with pytest.raises(SettingsError, match=r"^--env-args height=3: .*unexpected .* 'height'.*; omit or correct"):
            await environment.start({})


def test_parameters_that_nobody_hears_are_told_of(tmp_path: Path) -> None:
    settings = load_settings(None, {"env_settings.env_path": "gym:CartPole-v1", "environment_parameters": {"mass": 2}})
    assert len(GymnasiumSource(settings, 1, tmp_path).warnings) == 1
    assert GymnasiumSource(settings_of(), 1, tmp_path).warnings == ()
    assert GymnasiumSource(settings_of(), 1, tmp_path).invitation is None


def test_a_whole_run(tmp_path: Path, memory: Memory) -> None:
    several: dict[str, Any] = {"env_settings__num_envs": 2, "env_settings__num_areas": 4}
    report = small_run(tmp_path, memory, "gym:CartPole-v1", default_settings__max_steps=600, **several)
    assert (report.outcome, report.exit_code, report.errors) == ("completed", 0, ())
    assert report.decisions >= 600
    assert all(pair.episodes > 0 and pair.mean_reward is not None for pair in report.pairs)
    assert [path.name for path in report.models] == ["CartPole-v1.onnx"]

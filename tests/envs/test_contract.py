"""What every environment promises, and how the one that is asked for is found."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import pytest

from tau_trainer import plugins
from tau_trainer.envs import Environment, EnvironmentSource, open_source
from tau_trainer.envs.engines import EngineSource
from tau_trainer.envs.gymnasium import GymnasiumSource
from tau_trainer.errors import EngineError, LaunchError
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import StepBatch
from tests.envs.playing import Sentences, zeros
from tests.training.fakes import Stage, launched

ENVIRONMENTS = ("headless:basic", "headless:balance", "gym:CartPole-v1", "gym:Pendulum-v1")


def settings_of(path: str, **env: Any) -> RunSettings:
    return load_settings(
        None, {f"env_settings.{key}": value for key, value in {"env_path": path, "seed": 3, **env}.items()}
    )


def made(path: str, tmp_path: Path, **env: Any) -> Environment:
    source: EnvironmentSource = open_source(settings_of(path, **env), 1, tmp_path)
    return source.make(0, lambda stat: None, Sentences())


@pytest.mark.parametrize("path", ENVIRONMENTS)
async def test_what_a_pair_needs(path: str, stage: Stage, tmp_path: Path) -> None:
    """Begin, play, begin anew, be replaced, end: the same calls, whoever fulfils them."""
    never = made(path, tmp_path)
    await never.kill()
    await never.close()
    environment = made(path, tmp_path)
    assert (dict(environment.specs), environment.exchanges, environment.restarts) == ({}, 0, 0)
    waited_for = [environment.waits_for]
    batches = await environment.start({"seed": 5.0})
    first = batches
    for count in range(1, 30):
        check(environment, batches)
        environment.answer(zeros(environment, batches))
        batches = await environment.next()
        assert environment.exchanges == count
    waited_for.append(environment.waits_for)
    assert waited_for[0] is not None
    assert waited_for[1] is None
    again = await environment.reset({"seed": 5.0})
    assert [one.obs[0].tolist() for one in again] == [one.obs[0].tolist() for one in first], "the same seed again"
    assert not any(len(one.terminals) for one in again), "nothing is told of episodes that were open"
    fresh = await environment.recover(EngineError("gone"))
    assert [one.obs[0].tolist() for one in fresh] == [one.obs[0].tolist() for one in first]
    assert environment.restarts == 1
    await environment.close()
    await environment.kill()


def check(environment: Environment, batches: list[StepBatch]) -> None:
    """Every array is as the vocabulary says."""
    assert {one.behavior for one in batches} == set(environment.specs)
    for batch in batches:
        for agents in (batch, batch.terminals):
            kinds = [values.dtype.str for values in (agents.agent_ids, agents.reward, agents.group_id)]
            assert kinds == ["<i4", "<f4", "<i4"]
            lengths = {len(values) for values in (agents.reward, agents.group_id, agents.group_reward, *agents.obs)}
            assert lengths == {len(agents)}
            for sensor, values in zip(environment.specs[batch.behavior].observations, agents.obs, strict=True):
                assert (values.shape[1:], values.dtype) == (sensor.shape, sensor.dtype)


# --- finding it -------------------------------------------------------------------------------------------------------


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Entry points of packages of other people: name to place."""
    named: dict[str, str] = {}

    def found(group: str) -> list[metadata.EntryPoint]:
        mine = named if group == "tau_trainer.environments" else {}
        return [metadata.EntryPoint(name, place, group) for name, place in mine.items()]

    monkeypatch.setattr(metadata, "entry_points", found)
    plugins._found.cache_clear()
    yield named
    plugins._found.cache_clear()


class OtherSource:
    """An environment of somebody else."""

    invitation = "turn it on"
    warnings = ("it is slow",)

    def __init__(self, settings: RunSettings, count: int, log_folder: Path) -> None:
        self.asked = (settings.env_settings.env_path, count, log_folder)

    def make(self, index: int, on_stat: object, on_event: object) -> Environment:
        raise NotImplementedError


def test_a_prefix_asks_for_a_plug_in_and_everything_else_for_engines(
    others: dict[str, str], stage: Stage, tmp_path: Path
) -> None:
    others["other"] = f"{__name__}:OtherSource"
    source = cast(OtherSource, open_source(settings_of("other:thing:3"), 2, tmp_path, ("--flag",)))
    assert source.asked == ("other:thing:3", 2, tmp_path)
    assert isinstance(open_source(settings_of("gym:CartPole-v1"), 1, tmp_path), GymnasiumSource)
    engines = open_source(settings_of("headless:basic"), 1, tmp_path, ("--agents", "3"))
    assert isinstance(engines, EngineSource)
    assert launched(stage, engines, 1)[0].launch.env_args == ("--agents", "3")


@pytest.mark.parametrize("path", [r"C:\games\walker", "unknown:thing", "gym"])
def test_a_colon_alone_makes_no_plug_in(path: str, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="no program found"):
        open_source(settings_of(path), 1, tmp_path)

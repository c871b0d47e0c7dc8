"""The sections around the behaviors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tau_trainer.errors import SettingsError
from tau_trainer.settings import (
    CheckpointSettings,
    EngineSettings,
    EnvSettings,
    RunSettings,
    TauSettings,
    TorchSettings,
    check_device,
    load_settings,
    resolve_seed,
)
from tau_trainer.settings.engines import HEADLESS_SCENES


@pytest.mark.parametrize("run_id", ["ppo", "3DBall_1", "sweep/a", "with space", "ä.b-c"])
def test_a_run_id_is_a_folder_name(run_id: str) -> None:
    assert CheckpointSettings(run_id=run_id).run_id == run_id


@pytest.mark.parametrize("run_id", ["", " ", ".", "..", "a/../b", "/abs", "\\abs", "C:\\x", "a:b", "a?", "a\0b"])
def test_a_run_id_never_leaves_the_results(run_id: str) -> None:
    with pytest.raises(ValidationError):
        CheckpointSettings(run_id=run_id)


def test_a_number_is_a_run_id() -> None:
    assert CheckpointSettings.model_validate({"run_id": 7}).run_id == "7"


def test_the_deprecated_load_model_means_resume() -> None:
    assert CheckpointSettings.model_validate({"load_model": True, "resume": False}).resume is True
    assert CheckpointSettings.model_validate({"load_model": False}).resume is False


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1", "mps", "xpu", None])
def test_devices(device: str | None) -> None:
    assert TorchSettings(device=device).device == device


def test_the_known_scenes_are_those_of_the_headless_engine() -> None:
    from tau_trainer.headless.scenes import SCENES

    assert set(HEADLESS_SCENES) == set(SCENES)


def test_the_known_formulas_and_profiles_are_those_of_the_tau_task() -> None:
    from typing import get_args

    from tau_trainer.settings.tasks import Formula
    from tau_trainer.tau.formulas import REWARDS
    from tau_trainer.tau.profiles import PROFILES, profile_named

    assert set(get_args(Formula)) == set(REWARDS)
    for name in (*PROFILES, "1x240", "2x16"):
        assert TauSettings(profile=name).profile == profile_named(name).name
    for name in ("tau4", "0x16", "2x", "2x16x", "2x1", "100x2", "1x99999"):
        with pytest.raises(ValidationError, match="must be tau3, tau384, or components and levels such as 2x16"):
            TauSettings(profile=name)
        with pytest.raises(SettingsError, match="profile is"):
            profile_named(name)


@pytest.mark.parametrize("key", ["width", "height", "quality_level", "target_frame_rate", "capture_frame_rate"])
def test_what_the_wire_carries_as_an_int32_is_one(key: str) -> None:
    most = 2**31 - 1
    assert getattr(EngineSettings.model_validate({key: most}), key) == most
    with pytest.raises(ValidationError, match=key):
        EngineSettings.model_validate({key: most + 1})


def test_a_missing_device_is_one_sentence() -> None:
    with pytest.raises(SettingsError, match="torch cannot use it here") as error:
        check_device(RunSettings(torch_settings=TorchSettings(device="cuda:99")))
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("use cpu, or leave it out")


def test_a_given_seed_stays_and_a_random_one_is_drawn_from_mlagents_range_once() -> None:
    assert resolve_seed(RunSettings(env_settings=EnvSettings(seed=42))).env_settings.seed == 42
    drawn = [resolve_seed(RunSettings()) for _ in range(50)]
    seeds = {run.env_settings.seed for run in drawn}
    assert seeds <= set(range(10000))
    assert len(seeds) > 10
    assert resolve_seed(drawn[0]) == drawn[0]


@pytest.mark.parametrize("kind", ["resume", "inference"])
def test_a_run_that_goes_on_keeps_its_seed(kind: str, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "run.json").write_text(json.dumps({"seed": 31415}))
    place = {"results_dir": str(tmp_path), "run_id": "one"}
    again = {"checkpoint_settings": {**place, kind: True}}
    assert resolve_seed(RunSettings.model_validate(again)).env_settings.seed == 31415
    given = RunSettings.model_validate(again | {"env_settings": {"seed": 7}})
    assert resolve_seed(given).env_settings.seed == 7
    for text in ("", "[]", '{"seed": null}', "{}"):  # of a run that did not tell
        (tmp_path / "one" / "run.json").write_text(text)
        assert 0 <= resolve_seed(RunSettings.model_validate(again)).env_settings.seed < 10000
    seeds = {resolve_seed(RunSettings.model_validate({"checkpoint_settings": place})).env_settings.seed for _ in "123"}
    assert seeds != {31415}, "a new run has a seed of its own"


def test_samplers_without_a_seed_get_the_runs_seed_plus_a_running_index() -> None:
    def sampler(kind: str, **parameters: int) -> dict[str, Any]:
        return {"sampler_type": kind, "sampler_parameters": parameters}

    given = {"first": sampler("uniform"), "fixed": sampler("uniform", seed=7), "second": sampler("gaussian")}
    run = {"env_settings": {"seed": 100}, "environment_parameters": {"constant": 1.0} | given}
    found = resolve_seed(RunSettings.model_validate(run)).model_dump()["environment_parameters"]
    assert found.pop("constant") == 1.0
    assert [one["sampler_parameters"]["seed"] for one in found.values()] == [101, 7, 102]


SERVED = {"devices": 2, "strategy": "parameter_server"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"strategy": "parameter_server"}, r"strategy.* is parameter_server, .*; add devices \(--devices N\)"),
        ({"devices": 2, "max_staleness": 2}, "max_staleness.* is for a parameter server; remove it, or add strategy"),
        (
            SERVED | {"devices": 4, "max_staleness": 2},
            "allows only 3 of 4 devices to learn at a time; raise it to at least 3",
        ),
        (SERVED | {"collection.deterministic": True}, "so no seed is reproducible; use mirrored"),
        (
            SERVED | {"execution": "async", "async_trainer.mode": "lock_step"},
            "so no seed is reproducible; use mirrored",
        ),
        (SERVED | {"behaviors.*.trainer_type": "sac"}, "behaviors.A.trainer_type.* does not learn from rollouts"),
        (SERVED | {"behaviors.*.self_play.window": 3}, "behaviors.A.self_play.* does not work with strategy"),
    ],
)
def test_what_does_not_go_with_a_parameter_server_is_refused(
    tmp_path: Path, given: dict[str, Any], sentence: str
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("behaviors: {A: {trainer_type: ppo}}", "utf-8")
    assert load_settings(file, SERVED).staleness_bound == 2
    assert load_settings(file, SERVED | {"devices": 3, "max_staleness": 2}).staleness_bound == 2
    with pytest.raises(SettingsError, match=sentence):
        load_settings(file, given)


@pytest.mark.parametrize(
    ("names", "tau", "said"),
    [
        (["agent", "Agent"], {}, "behaviors: 'agent' and 'Agent' would share files"),
        (["A", "A-pair1"], {"policy": "independent", "pairs": 2}, "tau: 'A' and 'A-pair1' would share files"),
        (["a-PAIR0", "A"], {"policy": "independent", "pairs": 1}, "tau: 'a-PAIR0' and 'A' would share files"),
        (["A", "A-pair2"], {"policy": "independent", "pairs": 2}, None),
        (["A", "A-pair0"], {"pairs": 2}, None),
        (["A/B", "A_B", "..", "../../evil"], {}, None),
    ],
)
def test_behaviors_that_would_share_files_are_refused(names: list[str], tau: dict[str, Any], said: str | None) -> None:
    given = {"behaviors": {name: {"trainer_type": "ppo"} for name in names}, "tau": tau}
    if said is None:
        assert set(load_settings(None, given).behaviors) == set(names)
        return
    with pytest.raises(SettingsError) as error:
        load_settings(None, given)
    assert said in str(error.value)
    assert str(error.value).endswith("rename one of them")


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("run_id", "a" * 201, "choose a shorter id"),
        ("run_id", "group/" + "ü" * 101, "choose a shorter id"),
        ("results_dir", "a/" * 2000, "choose a shorter one"),
        ("results_dir", "a" * 256, "choose a shorter one"),
    ],
)
def test_a_name_that_is_too_long_for_a_folder_says_so(key: str, value: str, remedy: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings(None, {f"checkpoint_settings.{key}": value}, flags={f"checkpoint_settings.{key}": "--flag"})
    assert str(raised.value).startswith("--flag is longer than ")
    assert str(raised.value).endswith(remedy)
    load_settings(None, {"checkpoint_settings.run_id": "a" * 200})

"""Loading and writing settings: ML-Agents' compatibility list, precedence, and what is written loads back equal."""

from __future__ import annotations

import contextlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import SettingsError
from tau_trainer.settings import (
    CollectionSettings,
    EngineSettings,
    EnvSettings,
    PPOHyperparameters,
    PPOTrainerSettings,
    RunSettings,
    SACTrainerSettings,
    TauSettings,
    dump_settings,
    load_settings,
)
from tau_trainer.settings.document import parse_document
from tau_trainer.settings.loading import apply_overrides
from tests.settings.reading import parse_settings

DATA = Path(__file__).parent / "data"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.yaml"


def test_a_configuration_written_by_mlagents_learn_reproduces_the_run() -> None:
    """A full dump with nulls, deprecated keys and parameters as curricula of one lesson."""
    written = {"behaviors.*.summary_freq": 50000}  # as everything is there; here it is auto where nobody says it
    assert load_settings(DATA / "configuration.yaml") == load_settings(DATA / "walker.yaml", written)


def test_every_key_that_mlagents_learn_writes_has_the_same_value_here() -> None:
    theirs = parse_document((DATA / "configuration.yaml").read_text(), "configuration.yaml").data
    ours = load_settings(DATA / "walker.yaml", {"behaviors.*.summary_freq": 50000}).model_dump(mode="json")
    theirs.pop("environment_parameters")
    _assert_within(theirs, ours)


def _assert_within(part: Any, whole: Any) -> None:
    """Every key of `part` stands in `whole` with the same value."""
    if isinstance(part, dict):
        assert part.keys() <= whole.keys()
        for key in part:
            _assert_within(part[key], whole[key])
    else:
        assert part == whole


@pytest.mark.parametrize(
    ("numbers", "schedules"),
    [
        ("{}", ("linear", "linear", "linear")),
        ("{learning_rate_schedule: constant}", ("constant", "constant", "constant")),
        ("{learning_rate_schedule: constant, beta_schedule: linear}", ("constant", "linear", "constant")),
        ("{epsilon_schedule: constant}", ("linear", "linear", "constant")),
    ],
)
def test_omitted_schedules_copy_a_given_learning_rate_schedule(
    path: Path, numbers: str, schedules: tuple[str, str, str]
) -> None:
    path.write_text(f"behaviors: {{A: {{trainer_type: ppo, hyperparameters: {numbers}}}}}")
    read = load_settings(path).behaviors["A"].hyperparameters
    assert isinstance(read, PPOHyperparameters)
    assert (read.learning_rate_schedule, read.beta_schedule, read.epsilon_schedule) == schedules


def test_an_empty_behavior_and_every_one_without_a_file_have_all_defaults(path: Path) -> None:
    path.write_text("behaviors: {A: {}}")
    assert load_settings(path).behaviors == {"A": PPOTrainerSettings()}
    settings = load_settings()
    assert settings.default_settings == PPOTrainerSettings()
    assert settings.behaviors == {}


def test_precedence_is_override_then_file_then_default(path: Path) -> None:
    path.write_text("behaviors: {A: {max_steps: 7}}\nenv_settings: {seed: 5, env_path: game, num_envs: 3}")
    plain, flagged = load_settings(path), load_settings(path, {"env_settings.num_envs": 1, "env_settings.seed": -1})
    assert (plain.env_settings.seed, plain.env_settings.num_envs, plain.env_settings.timeout_wait) == (5, 3, 60)
    # A flag counts where it was given, even if its value is the default.
    assert (flagged.env_settings.seed, flagged.env_settings.num_envs) == (-1, 1)
    assert flagged.behaviors["A"].max_steps == 7


def test_lenient_leaves_unknown_and_repeated_keys_out_and_says_so(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("tau_trainer"), "propagate", True)
    path.write_text("""
behaviors:
  A:
    max_step: 3
    network_settings: {hiddenunits: 4, hidden_units: 8}
    max_steps: 5
    max_steps: 6
oops: 1
""")
    with caplog.at_level(logging.WARNING, "tau_trainer"):
        settings = load_settings(path, lenient=True)
    assert settings.behaviors["A"].max_steps == 6
    assert settings.behaviors["A"].network_settings.hidden_units == 8
    told = "\n".join(caplog.messages)
    for key in (
        "behaviors.A.max_step: ",
        "behaviors.A.network_settings.hiddenunits",
        "oops",
        "max_steps is defined twice",
    ):
        assert key in told


def test_lenient_still_refuses_wrong_values(path: Path) -> None:
    path.write_text("behaviors: {A: {max_steps: lots, oops: 1}}")
    with pytest.raises(SettingsError, match="must be a whole number"):
        load_settings(path, lenient=True)


def test_the_deprecated_framework_key_is_left_out_with_a_warning(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("tau_trainer"), "propagate", True)
    path.write_text("behaviors: {A: {framework: pytorch}}")
    with caplog.at_level(logging.WARNING, "tau_trainer"):
        assert load_settings(path).behaviors == {"A": PPOTrainerSettings()}
    assert "behaviors.A.framework is deprecated" in caplog.text


def test_a_json_file_is_a_settings_file(tmp_path: Path) -> None:
    """What ``mlagents-run-experiment`` takes: the same keys as the YAML."""
    told = json.loads(json.dumps(yaml.safe_load((DATA / "configuration.yaml").read_text("utf-8"))))
    path = tmp_path / "experiment.json"
    for indent in (None, 4):
        path.write_text(json.dumps(told, indent=indent), "utf-8")
        assert load_settings(path) == load_settings(DATA / "configuration.yaml")


def test_settings_cannot_be_changed(path: Path) -> None:
    path.write_text("behaviors: {A: {}}")
    settings = load_settings(path)
    with pytest.raises(ValueError, match="frozen"):
        settings.debug = True


def test_untrainable_defaults_are_told_too(path: Path) -> None:
    path.write_text("default_settings: {trainer_type: td3, reward_signals: {curiosity: {}}}")
    with pytest.raises(SettingsError, match=r"default_settings\.reward_signals\.curiosity works only with ppo"):
        load_settings(path)


small = st.integers(1, 10**6)
share = st.floats(0, 1)
names = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    lambda name: name.strip() == name and "\x85" not in name and name != "<<"
)


@st.composite
def hyperparameters(draw: st.DrawFn) -> dict[str, Any]:
    batch = draw(st.integers(1, 5000))
    schedule = st.sampled_from(["constant", "linear"])
    return {
        "batch_size": batch,
        "buffer_size": batch + draw(small),
        "learning_rate": draw(st.floats(1e-12, 1)),
        "learning_rate_schedule": draw(schedule),
        "beta_schedule": draw(schedule),
        "lambd": draw(share),
        "max_grad_norm": draw(st.none() | st.floats(1e-3, 10)),
        "normalize_advantage": draw(st.sampled_from(["buffer", "minibatch"])),
    }


trainers = st.builds(
    PPOTrainerSettings,
    hyperparameters=hyperparameters(),
    max_steps=small,
    even_checkpoints=st.booleans(),
    reward_signals=st.fixed_dictionaries({"extrinsic": st.fixed_dictionaries({"gamma": share})}),
)
number = st.floats(-1e30, 1e30)
parameters = st.dictionaries(
    names,
    number
    | st.builds(
        lambda low, width: {
            "sampler_type": "uniform",
            "sampler_parameters": {"min_value": low, "max_value": low + width},
        },
        number,
        st.floats(0, 1e3),
    )
    | st.just({"sampler_type": "gaussian", "sampler_parameters": {"seed": 4}})
    | st.just({"sampler_type": "multirangeuniform", "sampler_parameters": {"intervals": [[0, 1], [2, 3]]}}),
    max_size=3,
)
runs = st.builds(
    RunSettings,
    default_settings=st.none() | trainers,
    behaviors=st.dictionaries(names, trainers, max_size=3),
    env_settings=st.builds(
        EnvSettings,
        env_path=st.sampled_from(["headless:tau", "a path/with: colon", "yes"]),
        num_envs=st.integers(1, 9),
        env_args=st.none() | st.lists(names, max_size=2).map(tuple),
    ),
    engine_settings=st.builds(EngineSettings, time_scale=st.floats(0, 100)),
    environment_parameters=st.none() | parameters,
    tau=st.none()
    | st.builds(TauSettings, data=st.none() | st.just(Path("some/data.json")), max_concurrent=st.none() | small),
    debug=st.booleans(),
)


@given(runs)
def test_what_is_written_loads_back_equal(tmp_path_factory: pytest.TempPathFactory, settings: RunSettings) -> None:
    path = tmp_path_factory.mktemp("dump") / "configuration.yaml"
    path.write_text(dump_settings(settings), encoding="utf-8")
    assert load_settings(path) == settings


keys = st.sampled_from(
    ["A", "hyperparameters", "trainer_type", "reward_signals", "extrinsic", "gail", "curriculum", "sampler_type"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
sections = st.sampled_from(["behaviors", "environment_parameters", "tau", "env_settings", "default_settings"])


@given(st.dictionaries(names, anything, max_size=3), sections, st.booleans())
def test_whatever_stands_in_a_file_is_read_or_told_never_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, Any], section: str, lenient: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / "x.yaml"
    path.write_text(yaml.safe_dump({section: data}), encoding="utf-8")
    with contextlib.suppress(SettingsError):
        assert parse_settings(path, lenient=lenient) == parse_settings(path, lenient=lenient)


def test_a_run_of_an_earlier_version_still_loads(path: Path) -> None:
    """Its ``configuration.yaml`` names a transport, which is nobody's choice any more."""
    path.write_text("collection: {transport: grpcio, max_policy_age: 2}\nbehaviors: {A: {}}")
    assert load_settings(path).collection == CollectionSettings(max_policy_age=2)


def test_a_behavior_wins_over_the_defaults(path: Path) -> None:
    path.write_text("""
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 64, beta: 0.01}
  network_settings: {hidden_units: 32, normalize: true}
behaviors:
  A: {hyperparameters: {beta: 0.02}, network_settings: {hidden_units: 16}}
  B: {}
""")
    behavior, other = load_settings(path).behaviors.values()
    assert other.network_settings.hidden_units == 32
    assert isinstance(behavior.hyperparameters, PPOHyperparameters)
    assert (behavior.hyperparameters.batch_size, behavior.hyperparameters.beta) == (64, 0.02)
    assert (behavior.network_settings.hidden_units, behavior.network_settings.normalize) == (16, True)
    path.write_text("default_settings: {trainer_type: ppo}\nbehaviors: {A: {hyperparameters: {batch_size: 8}}}\n")
    assert load_settings(path).behaviors["A"].hyperparameters.batch_size == 8


def test_the_defaults_count_in_full_as_in_mlagents(path: Path) -> None:
    """There the defaults' own schedules, written or not, are given values that a behavior's rate does not change."""
    path.write_text("""
default_settings: {max_steps: 100}
behaviors:
  A: {trainer_type: ppo, hyperparameters: {learning_rate_schedule: constant}}
""")
    numbers = load_settings(path).behaviors["A"].hyperparameters
    assert isinstance(numbers, PPOHyperparameters)
    assert (numbers.learning_rate_schedule, numbers.beta_schedule) == ("constant", "linear")


@pytest.mark.parametrize(
    "defaults",
    ["{max_steps: 7}", "{trainer_type: ppo, max_steps: 7, hyperparameters: {beta: 0.1, learning_rate: 0.01}}"],
)
def test_defaults_of_another_trainer_type_work(path: Path, defaults: str) -> None:
    """`mlagents-learn` fails here: a full PPO settings object lies under the SAC behavior."""
    path.write_text(f"default_settings: {defaults}\nbehaviors:\n  A: {{trainer_type: sac}}\n")
    behavior = parse_settings(path).behaviors["A"]
    assert isinstance(behavior, SACTrainerSettings)
    assert behavior.max_steps == 7
    assert behavior.hyperparameters.batch_size == 128
    assert behavior.hyperparameters.learning_rate == (0.01 if "0.01" in defaults else 3e-4)


def test_a_mistake_in_the_defaults_is_told_once_and_where_it_stands(path: Path) -> None:
    path.write_text("default_settings:\n  max_stepz: 7\nbehaviors: {A: {}, B: {}}\n")
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    assert str(error.value) == f"{path}:2: default_settings.max_stepz: unknown key; did you mean max_steps?"


def test_overrides_make_sections_on_their_way_are_merged_and_a_star_means_every_behavior() -> None:
    data, places = apply_overrides({"behaviors": {}}, {"env_settings.seed": 3, "tau.reward.credit": "aggregate"})
    assert data == {"behaviors": {}, "env_settings": {"seed": 3}, "tau": {"reward": {"credit": "aggregate"}}}
    assert places == {("env_settings", "seed"), ("tau", "reward", "credit")}
    data, _ = apply_overrides({"env_settings": {"seed": 1}}, {"env_settings": {"num_envs": 2}})
    assert data == {"env_settings": {"seed": 1, "num_envs": 2}}
    before = {"behaviors": {"A": {}, "B": {"max_steps": 1}}, "default_settings": {}}
    data, places = apply_overrides(before, {"behaviors.*.max_steps": 5})
    assert data["behaviors"] == {"A": {"max_steps": 5}, "B": {"max_steps": 5}}
    assert data["default_settings"] == {"max_steps": 5}
    assert len(places) == 3
    assert before["behaviors"]["B"] == {"max_steps": 1}
    assert apply_overrides({}, {"behaviors.*.max_steps": 5})[0] == {"default_settings": {"max_steps": 5}}


def test_an_override_never_hides_a_section_that_is_no_section(path: Path) -> None:
    path.write_text("behaviors: {A: null}\nenv_settings: 3\n")
    with pytest.raises(SettingsError) as error:
        load_settings(path, {"behaviors.*.max_steps": 5, "env_settings.seed": 1})
    assert "behaviors.A is empty" in str(error.value)
    assert "env_settings must be a mapping of keys, not 3" in str(error.value)


@pytest.mark.parametrize(
    ("behaviors", "key", "remedy"),
    [
        ("behaviors: {Basic: {}, Ball: {}}", "behaviors.Bsic.max_steps", "did you mean Basic?"),
        ("behaviors: {Basic: {}, Ball: {}}", "behaviors.Nope.max_steps", "known here: Basic, Ball"),
        ("behaviors: {Basic: {}}", "behaviors.Bsic", "did you mean Basic?"),
        ("env_settings: {seed: 1}", "behaviors.Nope.max_steps", "behaviors.* means every behavior"),
        ("environment: {name: cartpole}\nbehaviors: {agent: {}}", "behaviors.agents.max_steps", "did you mean agent?"),
    ],
)
def test_an_override_does_not_make_a_behavior(behaviors: str, key: str, remedy: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(behaviors, "utf-8")
    name = key.split(".")[1]
    with pytest.raises(SettingsError) as raised:
        load_settings(path, {key: {} if key.count(".") == 1 else 5}, flags={key: f"--set {key}"})
    assert str(raised.value) == f"--set {key} is for behavior {name}, which is not in {path}; {remedy}"


def test_default_settings_make_a_behavior_that_an_override_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("default_settings: {time_horizon: 7}\nbehaviors: {Basic: {}}", "utf-8")
    made = load_settings(path, {"behaviors.Bsic.max_steps": 5, "behaviors.*.threaded": True}).behaviors["Bsic"]
    assert (made.max_steps, made.time_horizon) == (5, 7)
    said = f"override behaviors.Bsic.max_steps is for behavior Bsic, which is not in {path}; did you mean Basic?"
    assert caplog.messages == [said]
    caplog.clear()
    assert load_settings(None, {"behaviors.Any.max_steps": 5}).behaviors["Any"].max_steps == 5
    assert not caplog.messages

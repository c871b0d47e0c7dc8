"""The settings file to start from: what it says of each kind of behavior, and that everything takes it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tau_trainer.cli.engines import EngineFlags
from tau_trainer.cli.flags import overridden
from tau_trainer.cli.options import LearnFlags
from tau_trainer.cli.resolving import learn_request
from tau_trainer.cli.train.check import examine
from tau_trainer.errors import SettingsError
from tau_trainer.headless.args import parse_args
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import create_scene
from tau_trainer.search.stillness import Costs
from tau_trainer.settings import PPOTrainerSettings, RunSettings, TrainerSettings, load_settings, resolve_seed
from tau_trainer.settings.document import parse_document
from tau_trainer.settings.signals import SelfPlaySettings
from tau_trainer.shown import shown as shown_text
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec, StepBatch, empty_terminals
from tau_trainer.training import starting
from tau_trainer.training.advice import SLOW, USUAL
from tau_trainer.training.starting import GROUPS, Announced, announced, read_starting, starting_text

SCENES = ("balance", "basic", "gridworld", "foodcollector", "hallway", "walljump", "sorter", "dungeon", "soccer")
NUMBERS = (ObservationSpec("numbers", (4,)),)


def played(**engine: object) -> RunSettings:
    return load_settings(None, {f"env_settings.{key}": value for key, value in engine.items()})


def shown_by(scene: str) -> dict[BehaviorSpec, StepBatch]:
    """A first step of each behavior, with the agents that ask; those of no agent are left out."""
    made = create_scene(parse_args(["--scene", scene]), EnvironmentParameters())
    steps = dict(zip(made.specs, made.reset(EnvironmentParameters()), strict=True))
    return {spec: batch for spec, batch in steps.items() if len(batch)}


def met(name: str, actions: ActionSpec, sensors: tuple[ObservationSpec, ...] = NUMBERS, agents: int = 1) -> Announced:
    return Announced(name, BehaviorSpec(name, sensors, actions), (0,), agents, ())


def section(behavior: Announced) -> TrainerSettings:
    return read_starting(starting_text(played(), [behavior])).behaviors[behavior.name]


def batch(spec: BehaviorSpec, groups: list[int]) -> StepBatch:
    ids, none = np.arange(len(groups), dtype=np.int32), np.zeros(len(groups), np.float32)
    obs = tuple(np.zeros((len(groups), *sensor.shape), np.float32) for sensor in spec.observations)
    return StepBatch(spec.name, ids, obs, none, np.array(groups, np.int32), none, empty_terminals(spec.observations))


def written(scene: str, trainer: str, tmp_path: Path) -> Path:
    """The file for a scene, with this trainer type for behaviors without groups."""
    path = f"headless:{scene}"
    behaviors = [each if each.groups else replace(each, trainer=trainer) for each in announced(shown_by(scene), path)]
    file = tmp_path / "game.yaml"
    file.write_text(starting_text(played(env_path=path), behaviors), "utf-8")
    return file


@pytest.mark.parametrize("trainer", [USUAL, SLOW])
@pytest.mark.parametrize("scene", SCENES)
def test_check_has_nothing_to_say_of_the_file_of_any_scene(scene: str, trainer: str, tmp_path: Path) -> None:
    file = written(scene, trainer, tmp_path)
    settings = load_settings(file)
    assert list(settings.behaviors) == list(dict.fromkeys(spec.short_name for spec in shown_by(scene)))
    assert settings.env_settings.env_path == f"headless:{scene}"
    report = examine(learn_request(str(file), LearnFlags()))
    assert (report.problems, report.warnings, report.without_effect) == ([], [], [])


@pytest.mark.parametrize(
    ("scene", "trainer"),
    [("balance", SLOW), ("basic", USUAL), ("foodcollector", USUAL), ("dungeon", GROUPS), ("soccer", GROUPS)],
)
def test_every_behavior_learns_in_the_network_that_the_file_names(scene: str, trainer: str, tmp_path: Path) -> None:
    settings = load_settings(written(scene, trainer, tmp_path))
    assert {each.trainer_type for each in settings.behaviors.values()} == {trainer}
    learned = Costs(shown_by(scene), 0.0).measure(resolve_seed(settings))
    assert learned.keys() == settings.behaviors.keys()


def of_scene(scene: str) -> tuple[Announced, TrainerSettings, str]:
    (behavior,) = announced(shown_by(scene), f"headless:{scene}")
    text = starting_text(played(env_path=f"headless:{scene}"), [behavior])
    return behavior, read_starting(text).behaviors[behavior.name], text


def test_continuous_actions() -> None:
    behavior, trainer, text = of_scene("balance")
    assert behavior.described() == "12 agents, 8 observations, 2 continuous actions"
    assert "  # Seen: 12 agents, 8 observations, 2 continuous actions.\n  3DBall:\n" in text
    assert trainer.network_settings.normalize
    assert (trainer.hyperparameters.batch_size, trainer.hyperparameters.buffer_size) == (1024, 10240)
    assert "vis_encode_type" not in text
    assert trainer.self_play is None


def test_discrete_actions() -> None:
    behavior, trainer, _ = of_scene("basic")
    assert behavior.described() == "1 agent, 20 observations, 1 discrete action (3 choices)"
    assert not trainer.network_settings.normalize
    assert (trainer.hyperparameters.batch_size, trainer.hyperparameters.buffer_size) == (128, 2048)
    target = ObservationSpec("target", (9,), hidden=True)
    several = met("Chooser", ActionSpec(0, (3, 2)), (*NUMBERS, *NUMBERS, target))
    assert several.described() == "1 agent, 8 observations, 2 discrete actions (3 and 2 choices)"
    large = met("Chooser", ActionSpec(0, (4096,)), agents=1000)
    assert large.described() == "1,000 agents, 4 observations, 1 discrete action (4,096 choices)"


def test_pictures_goals_and_lists() -> None:
    behavior, trainer, text = of_scene("gridworld")
    seen = "an image of 64 x 84 pixels and 3 channels, a goal of 2 numbers"
    assert behavior.described() == f"9 agents, {seen}, 1 discrete action (5 choices)"
    assert "vis_encode_type: simple " in text
    assert trainer.hyperparameters.batch_size == 128
    assert "a list of up to 20 things, " in of_scene("sorter")[0].described()


@pytest.mark.parametrize(("side", "encoder"), [(20, "simple"), (19, "match3"), (5, "match3"), (4, "fully_connected")])
@pytest.mark.parametrize("lies", [False, True])
def test_an_encoder_that_can_read_the_smallest_image(side: int, encoder: str, lies: bool) -> None:
    shape = (1, side, 40) if lies else (1, 40, side)
    images = ObservationSpec("large", (3, 84, 84)), ObservationSpec("small", shape)
    network = section(met("Seer", ActionSpec(2), images)).network_settings
    assert (network.vis_encode_type, network.normalize) == (encoder, False), "there are no vectors"
    assert section(met("Seer", ActionSpec(2), (*images, *NUMBERS))).network_settings.normalize


def test_a_replay_memory_of_images_fits_into_a_machine() -> None:
    seer = met("Seer", ActionSpec(2), (ObservationSpec("image", (3, 84, 84)),))
    assert section(replace(seer, trainer=SLOW)).hyperparameters.buffer_size == 50_000
    assert section(seer).hyperparameters.batch_size == 128
    walker = met("Walker", ActionSpec(2))
    assert section(replace(walker, trainer=SLOW)).hyperparameters.buffer_size == 200_000


@pytest.mark.parametrize(("agents", "buffer"), [(1, 2048), (32, 2048), (33, 2176), (1000, 64_000)])
def test_a_buffer_has_a_piece_of_an_episode_of_each_agent(agents: int, buffer: int) -> None:
    trainer = section(met("Chooser", ActionSpec(0, (3,)), agents=agents))
    assert trainer.hyperparameters.buffer_size == buffer
    assert buffer >= agents * trainer.time_horizon


def test_groups_are_for_poca() -> None:
    behavior, trainer, text = of_scene("dungeon")
    assert behavior.described().endswith("4 groups of up to 3 agents")
    assert replace(behavior, groups=(3, 2)).described().endswith("2 groups of up to 3 agents")
    assert trainer.trainer_type == GROUPS
    assert (trainer.hyperparameters.batch_size, trainer.hyperparameters.buffer_size) == (512, 4096)
    assert "  # Its groups are paid together, which poca is for.\n" in text


def test_an_agent_alone_and_rivals_in_a_copy_are_no_group() -> None:
    spec = BehaviorSpec("B", NUMBERS, ActionSpec(1))
    for groups, env, found in (
        ([1, 2, 3], "game", ()),
        ([0, 0, 7], "game", ()),
        ([1, 1, 0, 2], "game", (2,)),
        ([1, 1, 2, 2], "mlagents:module:game", (2, 2)),
        ([1, 1, 2, 2], "pettingzoo:module", ()),
        ([1, 1], None, (2,)),
    ):
        (behavior,) = announced({spec: batch(spec, groups)}, env)
        assert behavior.groups == found
        assert behavior.trainer == (GROUPS if found else USUAL)
        assert behavior.agents == len(groups)


def test_teams_are_for_self_play() -> None:
    behavior, trainer, _ = of_scene("soccer")
    assert behavior.described().startswith("16 agents, ")
    assert behavior.described().endswith(", 8 groups of up to 2 agents, 2 teams")
    assert trainer.self_play == SelfPlaySettings()


def test_behaviors_of_different_teams_play_against_each_other() -> None:
    specs = [BehaviorSpec(name, NUMBERS, ActionSpec(1)) for name in ("Striker?team=0", "Goalie?team=1")]
    rivals = announced({spec: batch(spec, [0]) for spec in specs}, "game")
    found = read_starting(starting_text(played(), rivals)).behaviors
    assert list(found) == ["Striker", "Goalie"]
    assert all(trainer.self_play == SelfPlaySettings() for trainer in found.values())
    friends = [replace(rival, teams=(1,)) for rival in rivals]
    assert all(each.self_play is None for each in read_starting(starting_text(played(), friends)).behaviors.values())


def test_teams_and_agents_of_a_behavior_are_counted_together() -> None:
    specs = [BehaviorSpec(f"B?team={team}", NUMBERS, ActionSpec(1)) for team in (2, 0)]
    (behavior,) = announced({spec: batch(spec, [0, 0, 0]) for spec in specs}, "game")
    assert (behavior.teams, behavior.agents) == ((0, 2), 6)


@pytest.mark.parametrize("trainer", [USUAL, SLOW, GROUPS])
def test_a_memory_is_there_to_switch_on(trainer: str) -> None:
    text = starting_text(played(), [replace(met("Agent", ActionSpec(0, (2,))), trainer=trainer)])
    assert read_starting(text).behaviors["Agent"].network_settings.memory is None
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if 'remove the first "# " of the next three lines' in line)
    lines[at + 1 : at + 4] = [line.replace("# ", "", 1) for line in lines[at + 1 : at + 4]]
    memory = read_starting("\n".join(lines)).behaviors["Agent"].network_settings.memory
    assert memory is not None
    assert (memory.memory_size, memory.sequence_length) == (128, 64)


def test_without_a_game_the_file_has_the_defaults() -> None:
    text = starting_text(played(), [])
    settings = read_starting(text)
    assert text == starting_text(played(seed=3), []), "the seed is left to each run"
    assert settings == load_settings(None)
    assert settings.default_settings == PPOTrainerSettings()
    assert text.count("\n# Without env_settings.env_path, `learn` waits until you press Play in the editor.\n") == 1


@pytest.mark.parametrize("text", [starting_text(played(), []), of_scene("soccer")[2]])
def test_every_value_has_a_comment(text: str) -> None:
    values = [line for line in text.splitlines() if re.match(r" *\w+: \S", line)]
    assert len(values) > 15
    assert [line for line in values if not re.search(r"\S  +# \w", line)] == []
    assert max(map(len, text.splitlines())) <= 130
    below_each_other = [line for line in values if line[starting._COLUMN :].startswith("  # ")]
    assert len(below_each_other) > 0.9 * len(values)
    assert text.endswith("\n")


def test_what_flags_say_of_the_game_is_in_the_file() -> None:
    said = {
        "env_settings.env_path": "./My Game: #1.x86_64",
        "env_settings.env_args": ("--level", "two words", "#3", "a, b", "yes"),
        "env_settings.base_port": "6000",
        "env_settings.seed": 5,
        "engine_settings.no_graphics": True,
        "engine_settings.time_scale": 5,
        "collection.image_order": "declared",
    }
    settings = load_settings(None, said)
    found = read_starting(starting_text(settings, [met("Agent", ActionSpec(1))]))
    assert found.env_settings == settings.env_settings.model_copy(update={"seed": -1})
    assert found.engine_settings == settings.engine_settings
    assert found.collection == settings.collection


@pytest.mark.parametrize(
    ("env", "has", "lacks"),
    [
        ("game", ("num_envs: 1 ", "time_scale: 20.0 "), ("num_areas", "Without env_settings")),
        ("headless:balance", ("num_envs: 1 ",), ("num_areas", "time_scale")),
        ("unreal:Game", ("num_envs: 1 ",), ("num_areas", "time_scale")),
        ("gym:CartPole-v1", ("num_areas: 1 ",), ("num_envs", "time_scale")),
        (None, ("# Without env_settings.env_path", "time_scale: 20.0 "), ("num_envs", "num_areas")),
        ("attach:3", ("env_path: attach:3 ", "time_scale: 20.0 "), ("num_envs", "num_areas")),
    ],
)
def test_keys_that_matter_for_what_is_played(env: str | None, has: tuple[str, ...], lacks: tuple[str, ...]) -> None:
    text = starting_text(played(env_path=env), [met("Agent", ActionSpec(1))])
    assert all(each in text for each in has)
    assert not any(each in text for each in lacks)


def test_a_folder_of_an_unreal_game_as_the_current_one_says_nothing_of_the_editor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(starting, "plays_unreal", lambda path: True)
    assert "time_scale: 20.0 " in starting_text(played(), [met("Agent", ActionSpec(1))])


def test_every_flag_of_an_engine_has_its_line() -> None:
    """Else the file would forget what was said."""
    keys = {tuple(key.split(".")) for _, key, _ in overridden(EngineFlags)}
    template = Path(starting.__file__).with_name("starting.yaml").read_text("utf-8").split("---\n")[2]
    lines = yaml.safe_load(template)
    assert {(section, key) for section in lines for key in lines[section]} == keys | {("env_settings", "num_envs")}


def test_how_many_copies_a_flag_says_is_in_the_file() -> None:
    text = starting_text(played(env_path="gym:CartPole-v1", num_areas=16), [met("Agent", ActionSpec(1))])
    assert read_starting(text).env_settings.num_areas == 16


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="?"), min_size=1, max_size=30)


@given(NAMES, st.text(max_size=60))
@examples(max_examples=25)
def test_names_of_an_engine_are_data(name: str, why: str) -> None:
    """Whatever a game or an error says, each line of ours stays a line, and nothing in it steers a terminal."""
    behavior = replace(met(name, ActionSpec(1)), why=why)
    text = starting_text(played(env_path="game"), [behavior])
    usual = starting_text(played(env_path="game"), [replace(behavior, name="A", why="B")])
    assert list(parse_document(text, "it").data["behaviors"]) == [name]
    assert len(text.split("\n")) == len(usual.split("\n")) - (not why)
    assert shown_text(text, lines=True) == text


@pytest.mark.parametrize(
    "name",
    ["on", "null", "3", "1e3", "~", "- a", "a: b", "a #b", '"', "'", "*", "&a", "!x", "x" * 1050, "two words" * 20],
)
def test_names_that_yaml_reads_as_something_else(name: str) -> None:
    assert list(read_starting(starting_text(played(), [met(name, ActionSpec(1))])).behaviors) == [name]


def test_a_name_is_readable_unless_it_could_steer_a_terminal() -> None:
    text = starting_text(played(), [met("Größe", ActionSpec(1)), met("Grö\u202eße", ActionSpec(1))])
    assert '\n  "Größe":\n' in text
    assert "\u202e" not in text
    assert list(read_starting(text).behaviors) == ["Größe", "Grö\u202eße"]


def test_behaviors_that_would_share_files_are_refused() -> None:
    with pytest.raises(SettingsError, match="'agent' and 'Agent' would share files"):
        starting_text(played(), [met("agent", ActionSpec(1)), met("Agent", ActionSpec(1))])

"""Hostile settings, one by one: what names code, a program, a file or an address is left out, and it is said."""

from __future__ import annotations

import random
import sys
from functools import reduce
from itertools import pairwise
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import yaml

from tau_trainer.errors import SettingsError
from tau_trainer.settings import dump_settings, load_settings, shipped_names
from tau_trainer.settings.problems import WITHHELD, withheld
from tau_trainer.sharing.allowed import SETTINGS
from tau_trainer.sharing.sifting import own_settings

HERE = {"run_id": "run", "results_dir": "results"}


def sifted(folder: Path, data: Any) -> tuple[dict[str, Any], list[str]]:
    """What is left of a file with this data, and what is said of the rest."""
    path = folder / "configuration.yaml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data), "utf-8")
    text, notes = own_settings(path, HERE)
    left: dict[str, Any] = yaml.safe_load(text)
    return left, notes


CLOUD = {"address": "evil:1", "insecure": True}
GAIL = {"behaviors.A.reward_signals.extrinsic": {}, "behaviors.A.reward_signals.gail.strength": 0.5}
BATCHED = {"environment.name": "cartpole", "devices": 2}
LEFT: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("callbacks", ["evil:Attr"], [], {}),
    ("recorders", ["wandb"], [], {}),
    ("env_settings.env_path", "mlagents:pydoc:pipepager", WITHHELD, {}),
    ("env_settings.env_path", "gym:evil:CartPole-v1", WITHHELD, {}),
    ("env_settings.env_path", "pettingzoo:evil", WITHHELD, {}),
    ("env_settings.env_path", "batched:evil:Env", WITHHELD, {}),
    ("env_settings.env_path", "./Game.x86_64", WITHHELD, {}),
    ("env_settings.env_args", ["--write-build", "evil"], None, {"env_settings.env_path": "headless:tau"}),
    ("env_settings.base_port", 22, 5005, {}),
    ("cluster", CLOUD, None, {"env_settings.env_path": "headless:tau"}),
    ("cluster", CLOUD, None, BATCHED),
    ("checkpoint_settings.initialize_from", "../..", None, {}),
    ("collection.listen", "0.0.0.0", None, {}),
    ("collection.tls_key", "/etc/y", None, {"collection.listen": "0.0.0.0", "collection.tls_cert": "/etc/x"}),
    ("tau.data", "/home/eve/data.json", WITHHELD, {}),
    ("sweep", {"space": {"callbacks": {"choice": ["evil:A"]}}}, None, {}),
    ("torch_settings.device", "cuda:3", None, {}),
    ("behaviors.A.init_path", "../../x", None, {}),
    ("behaviors.A.reward_signals.gail.demo_path", "/home/eve/expert.demo", WITHHELD, GAIL),
    ("behaviors.A.behavioral_cloning.demo_path", "x.demo", WITHHELD, {}),
    ("behaviors.A.demo_path", "/x", WITHHELD, {"behaviors.A.trainer_type": "bc"}),
    ("behaviors.A.self_play.opponents", ["/x/evil.onnx"], [], {}),
    ("behaviors.A.hyperparameters.hindsight.reward_done", "evil:f", WITHHELD, {"behaviors.A.trainer_type": "dqn"}),
    ("behaviors.A.trainer_type", "evil:Trainer", WITHHELD, {}),
    ("default_settings.trainer_type", "evil:T", WITHHELD, {}),
    ("behaviors.A.network_settings.vis_encode_type", "theirs", WITHHELD, {}),
    ("behaviors.A.reward_signals.rnd.network_settings.vis_encode_type", "theirs", WITHHELD, {}),
    ("behaviors.A.network_settings.memory.type", "theirs", WITHHELD, {}),
    ("environment.name", "evil:Env", WITHHELD, {"environment.arguments.limit": 5}),
    ("environment.arguments.data", "/x", WITHHELD, {"environment.name": "tau"}),
]
"""A setting, what a stranger has there, what is left of it, and what else stands in the file."""


SHIPPED_LEFT = {
    "SimpleSpread": {"env_path"},
    "CartPoleAIRL": {"demo_path"},
    "CartPoleBC": {"demo_path"},
    "PendulumIQL": {"demo_path"},
}
"""Shipped files that name what a stranger's may not."""


@pytest.mark.parametrize(("key", "value", "left", "more"), LEFT)
def test_it_is_left_out_once_and_said(key: str, value: Any, left: Any, more: dict[str, Any], tmp_path: Path) -> None:
    data: dict[str, Any] = {} if key == "default_settings.trainer_type" else {"behaviors": {"A": {}}}
    for place, given in {key: value, **more}.items():
        *tables, last = place.split(".")
        reduce(lambda table, part: table.setdefault(part, {}), tables, data)[last] = given
    values, notes = sifted(tmp_path, data)
    assert reduce(getitem, key.split("."), values) == left
    assert notes, "nothing is taken away in silence"
    assert key != "environment.name" or not values["environment"].get("arguments")
    said = next(note for note in notes if note.startswith(key.partition(".tls")[0]))
    assert "left out" in said
    assert ("to resume, choose your own with " in said) == (left == WITHHELD)
    assert len(" ".join(notes).splitlines()) == 1
    stored = yaml.safe_dump(values)
    for word in ("evil", "/home", "/etc", "../", "wandb", "theirs", "x.demo"):
        assert word not in stored
    assert sifted(tmp_path, values)[0] == values, "a run that was pulled, pushed and pulled again says the same"


@pytest.mark.parametrize("name", shipped_names())
def test_a_run_of_a_shipped_file_stays_as_it_is(name: str, tmp_path: Path) -> None:
    settings = load_settings(name)
    values, notes = sifted(tmp_path, dump_settings(settings))
    before = yaml.safe_load(dump_settings(settings))
    if SHIPPED_LEFT.get(name):
        assert {place[-1] for place in withheld(values)} | {note.split()[0].rpartition(".")[2] for note in notes} == (
            SHIPPED_LEFT[name]
        )
    else:
        assert notes == []
        assert {**values, "checkpoint_settings": {}} == {**before, "checkpoint_settings": {}}


def test_a_trainer_that_is_left_out_takes_its_numbers_along(tmp_path: Path) -> None:
    hyperparameters = {"batch_size": 5, "evil": "rm -rf"}
    values, notes = sifted(tmp_path, {"behaviors": {"A": {"trainer_type": "a:B", "hyperparameters": hyperparameters}}})
    assert values["behaviors"]["A"]["hyperparameters"]["batch_size"] != 5
    assert len(notes) == 3
    path = tmp_path / "configuration.yaml"
    path.write_text(yaml.safe_dump(values), "utf-8")
    with pytest.raises(SettingsError, match=r"if you trust it, set yours with --set behaviors\.A\.trainer_type=\.\.\."):
        load_settings(path)
    assert load_settings(path, {"behaviors.A.trainer_type": "ppo"}).behaviors["A"].trainer_type == "ppo"


def test_a_trainer_of_an_installed_package_is_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tau_trainer import plugins

    monkeypatch.setattr(plugins, "_found", lambda kind: {**plugins._OWN[kind], "theirs": "evil_module:Trainer"})
    values, [note] = sifted(tmp_path, {"behaviors": {"A": {"trainer_type": "theirs"}}})
    assert values["behaviors"]["A"]["trainer_type"] == WITHHELD
    assert note.startswith("behaviors.A.trainer_type theirs is left out: it names code; to resume")
    assert "evil_module" not in sys.modules


def test_thousands_of_unknown_keys_are_one_sentence(tmp_path: Path) -> None:
    values, notes = sifted(tmp_path, {f"evil{i}": i + 1 for i in range(3000)} | {"behaviors": {"A": {}}})
    assert not [key for key in values if key.startswith("evil")]
    assert len(notes) == 21
    assert notes[-1].startswith("2,980 more settings are left out")


def test_long_and_hostile_texts_are_shown_short(tmp_path: Path) -> None:
    _, [note] = sifted(tmp_path, {"cluster": "x" * 10_000})
    assert len(note) < 200


NO_SETTINGS = [
    "- 1", "evil", "", "a: &a [*a]", f"behaviors: {{A: {{hyperparameters: {{batch_size: {'9' * 10_000}}}}}}}",
    f"env_settings: {{seed: 1{':1' * 100_000}}}", "env_settings: {seed: !!int ''}", "debug: !!bool maybe",
    "behaviors: {A: {hyperparameters: {batch_size: 1e999}}}", "behaviors: [" * 3000,
    f"a: &a [{'x,' * 9}]\n" + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghij")),
    "policies: {A: {gamma: 1, reward_signals: []}}\nenvironment: 5\nseed: []",
    "environment: {name: tau}\nbehaviors: {A: {player: random}}", "behaviors: {A: 5}",
    "checkpoint_settings: [1]\ntau: 5",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_SETTINGS, ids=lambda text: text[:20])
def test_what_is_no_settings_file_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        sifted(tmp_path, text)


def test_whatever_stands_in_a_file_ends_in_settings_or_in_one_sentence(tmp_path: Path) -> None:
    """Files that are made of our keys and of whatever value, read 100 times without another exception."""
    draw = random.Random(5)
    words = "evil:Attr /etc/passwd ../.. auto ppo constant x\x1b[31m headless:tau tau linear"
    texts = [*words.split(" "), WITHHELD]

    def value(depth: int) -> Any:
        kind = draw.randrange(9 if depth else 6)
        match kind:
            case 0 | 1:
                return draw.choice(texts)
            case 2:
                return draw.choice([0, 1, -1, 64, 10**30, True, False, None])
            case 3:
                return draw.choice([0.5, 1e300, float("inf"), float("nan"), -2.5])
            case 4 | 5:
                return draw.choice([[], {}, ""])
            case 6:
                return [value(depth - 1) for _ in range(draw.randrange(4))]
            case _:
                return {draw.choice(texts): value(depth - 1) for _ in range(draw.randrange(4))}

    def section(rules: Any, depth: int) -> Any:
        if draw.random() < 0.15 or depth > 6:
            return value(2)
        keys = draw.sample([*rules], min(len(rules), draw.randrange(1, 8)))
        made = {}
        for key in keys:
            rule = rules[key]
            name = draw.choice(["A", "gail", "extrinsic", "airl", "evil"]) if key == "*" else key
            made[name] = section(rule, depth + 1) if isinstance(rule, dict) else value(2)
        return made

    read = refused = 0
    for _ in range(100):
        data = section(SETTINGS, 0)
        if isinstance(data, dict):
            data["behaviors"] = draw.choice([{"A": {}}, data.get("behaviors", {})])
        try:
            values, _ = sifted(tmp_path, data)
        except SettingsError:
            refused += 1
            continue
        read += 1
        stored = yaml.safe_dump(values)
        assert "evil:Attr" not in stored.replace("evil:Attr: ", ""), "but as the name of a behavior or a parameter"
        assert "/etc/passwd\n" not in stored
    assert read > 5
    assert refused > 5

"""Hostile settings, one by one: what names code, a program, a file or an address is left out, and it is said."""

from __future__ import annotations

import random
import sys
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


def at(data: Any, *place: str | int) -> Any:
    for part in place:
        data = data[part]
    return data


GAIL = {"extrinsic": {}, "gail": {"demo_path": "/home/eve/expert.demo", "strength": 0.5}}
DQN = {"trainer_type": "dqn"}
LEFT: dict[str, tuple[dict[str, Any], tuple[str | int, ...], Any]] = {
    "callbacks": ({"callbacks": ["evil:Attr"]}, ("callbacks",), []),
    "recorders": ({"recorders": ["wandb"]}, ("recorders",), []),
    "mlagents": ({"env_settings": {"env_path": "mlagents:pydoc:pipepager"}}, ("env_settings", "env_path"), WITHHELD),
    "gym module": ({"env_settings": {"env_path": "gym:evil:CartPole-v1"}}, ("env_settings", "env_path"), WITHHELD),
    "pettingzoo": ({"env_settings": {"env_path": "pettingzoo:evil"}}, ("env_settings", "env_path"), WITHHELD),
    "batched place": ({"env_settings": {"env_path": "batched:evil:Env"}}, ("env_settings", "env_path"), WITHHELD),
    "build": ({"env_settings": {"env_path": "./Game.x86_64"}}, ("env_settings", "env_path"), WITHHELD),
    "env_args": (
        {"env_settings": {"env_path": "headless:tau", "env_args": ["--write-build", "evil"]}},
        ("env_settings", "env_args"),
        None,
    ),
    "base_port": ({"env_settings": {"base_port": 22}}, ("env_settings", "base_port"), 5005),
    "cluster": (
        {"cluster": {"address": "evil:1", "insecure": True}, "env_settings": {"env_path": "headless:tau"}},
        ("cluster",),
        None,
    ),
    "initialize_from": (
        {"checkpoint_settings": {"initialize_from": "../.."}},
        ("checkpoint_settings", "initialize_from"),
        None,
    ),
    "listen": ({"collection": {"listen": "0.0.0.0"}}, ("collection", "listen"), None),
    "tls": (
        {"collection": {"listen": "0.0.0.0", "tls_cert": "/etc/x", "tls_key": "/etc/y"}},
        ("collection", "tls_key"),
        None,
    ),
    "data": ({"tau": {"data": "/home/eve/data.json"}}, ("tau", "data"), WITHHELD),
    "sweep": ({"sweep": {"space": {"callbacks": {"choice": ["evil:A"]}}}}, ("sweep",), None),
    "device": ({"torch_settings": {"device": "cuda:3"}}, ("torch_settings", "device"), None),
    "init_path": ({"behaviors": {"A": {"init_path": "../../x"}}}, ("behaviors", "A", "init_path"), None),
    "gail": (
        {"behaviors": {"A": {"reward_signals": GAIL}}},
        ("behaviors", "A", "reward_signals", "gail", "demo_path"),
        WITHHELD,
    ),
    "cloning": (
        {"behaviors": {"A": {"behavioral_cloning": {"demo_path": "x.demo"}}}},
        ("behaviors", "A", "behavioral_cloning", "demo_path"),
        WITHHELD,
    ),
    "offline": (
        {"behaviors": {"A": {"trainer_type": "bc", "demo_path": "/x"}}},
        ("behaviors", "A", "demo_path"),
        WITHHELD,
    ),
    "opponents": (
        {"behaviors": {"A": {"self_play": {"opponents": ["/x/evil.onnx"]}}}},
        ("behaviors", "A", "self_play", "opponents"),
        [],
    ),
    "reward_done": (
        {"behaviors": {"A": {**DQN, "hyperparameters": {"hindsight": {"reward_done": "evil:f"}}}}},
        ("behaviors", "A", "hyperparameters", "hindsight", "reward_done"),
        WITHHELD,
    ),
    "trainer": ({"behaviors": {"A": {"trainer_type": "evil:Trainer"}}}, ("behaviors", "A", "trainer_type"), WITHHELD),
    "trainer of a default": (
        {"default_settings": {"trainer_type": "evil:T"}},
        ("default_settings", "trainer_type"),
        WITHHELD,
    ),
    "encoder": (
        {"behaviors": {"A": {"network_settings": {"vis_encode_type": "theirs"}}}},
        ("behaviors", "A", "network_settings", "vis_encode_type"),
        WITHHELD,
    ),
    "encoder of a signal": (
        {"behaviors": {"A": {"reward_signals": {"rnd": {"network_settings": {"vis_encode_type": "theirs"}}}}}},
        ("behaviors", "A", "reward_signals", "rnd", "network_settings", "vis_encode_type"),
        WITHHELD,
    ),
    "memory": (
        {"behaviors": {"A": {"network_settings": {"memory": {"type": "theirs"}}}}},
        ("behaviors", "A", "network_settings", "memory", "type"),
        WITHHELD,
    ),
    "batched": (
        {"environment": {"name": "evil:Env", "arguments": {"limit": 5}}, "behaviors": {"A": {}}},
        ("environment", "name"),
        WITHHELD,
    ),
    "batched data": (
        {"environment": {"name": "tau", "arguments": {"data": "/x"}}, "behaviors": {"A": {}}},
        ("environment", "arguments", "data"),
        WITHHELD,
    ),
    "batched cluster": (
        {"environment": {"name": "cartpole"}, "behaviors": {"A": {}}, "devices": 2, "cluster": {"address": "evil:1"}},
        ("cluster",),
        None,
    ),
}


SHIPPED_LEFT = {
    "SimpleSpread": {"env_path"},
    "CartPoleAIRL": {"demo_path"},
    "CartPoleBC": {"demo_path"},
    "PendulumIQL": {"demo_path"},
}
"""Shipped files that name what a stranger's may not."""


@pytest.mark.parametrize("name", LEFT)
def test_it_is_left_out_and_said(name: str, tmp_path: Path) -> None:
    data, place, left = LEFT[name]
    values, notes = sifted(tmp_path, data)
    assert at(values, *place) == left
    assert notes, "nothing is taken away in silence"
    key = ".".join(map(str, place))
    said = next(note for note in notes if note.startswith(key.partition(".tls")[0]))
    assert "left out" in said
    assert ("to resume, choose your own with " in said) == (left == WITHHELD)
    assert len(" ".join(notes).splitlines()) == 1
    stored = yaml.safe_dump(values)
    for word in ("evil", "/home", "/etc", "../", "wandb", "theirs", "x.demo"):
        assert word not in stored


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_out_is_left_out_once(name: str, tmp_path: Path) -> None:
    """A run that was pulled, pushed and pulled again says the same."""
    values, _ = sifted(tmp_path, LEFT[name][0])
    again, _ = sifted(tmp_path, values)
    assert again == values


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
    assert at(values, "behaviors", "A", "hyperparameters", "batch_size") != 5
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
    assert at(values, "behaviors", "A", "trainer_type") == WITHHELD
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


def test_whatever_stands_in_a_file_ends_in_settings_or_in_one_sentence(tmp_path: Path) -> None:
    """Files that are made of our keys and of whatever value, read 300 times without another exception."""
    draw = random.Random(5)
    texts = [
        "evil:Attr",
        "/etc/passwd",
        "../..",
        "auto",
        "ppo",
        "constant",
        "x\x1b[31m",
        "headless:tau",
        "tau",
        "linear",
        WITHHELD,
    ]

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
    for _ in range(300):
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
    assert read > 10
    assert refused > 10

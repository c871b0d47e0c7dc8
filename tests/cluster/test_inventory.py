"""The file of `tau-train cluster`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.cluster.inventory import load_machines
from tau_trainer.errors import SettingsError


def written(folder: Path, text: str) -> Path:
    path = folder / "lab.yaml"
    path.write_text(text)
    return path


def test_a_name_stands_for_a_machine(tmp_path: Path) -> None:
    settings = load_machines(written(tmp_path, "name: lab\nhead: 10.0.0.1\nworkers: [a, {host: b, cpu: 3}]\n"))
    assert settings.address == "10.0.0.1:6379"
    assert [(each.host, each.cpu) for each in settings.workers] == [("a", None), ("b", 3.0)]
    assert not settings.on_loopback
    assert not settings.dashboard


def test_where_the_head_is(tmp_path: Path) -> None:
    settings = load_machines(written(tmp_path, "name: lab\nhead: {host: a, address: '::1'}\nport: 7000\n"))
    assert settings.address == "[::1]:7000"
    assert settings.on_loopback
    assert load_machines(written(tmp_path, "name: lab\nhead: localhost\n")).on_loopback


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: lab\nhead: -oProxyCommand=x\n", "lab.yaml:2: head.host must be a host's name or address"),
        ("name: lab\nhead: a\nworkers: ['b; rm']\n", "workers[0].host must be a host's name"),
        ("name: ../up\nhead: a\n", "lab.yaml:1: name must be up to 20 small letters"),
        ("name: lab\nhead: a\nworkers: [b, a]\n", "workers has a more than once, or it is also the head"),
        ("name: lab\nhead: 127.0.0.1\nworkers: [b]\n", "lab.yaml:2: head has a loopback address"),
        ("name: lab\nhead: a\nssh: {user: -x}\n", "ssh.user must be a user's name"),
        ("name: lab\nhead: a\nport: 70000\n", "port"),
        ("name: lab\nhead: {host: a, cpu: 0.5}\n", "head.cpu must be a whole number"),
        ("name: lab\nhead: a\nworker: [b]\n", "workers"),
        ("name: lab\n", "head"),
        ("", "lab.yaml: is empty; it needs at least `head:`"),
        ("- a\n", "lab.yaml: must be a mapping of keys such as `head:`"),
    ],
)
def test_a_mistake_is_a_sentence(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as raised:
        load_machines(written(tmp_path, text))
    assert said in str(raised.value)

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tau_trainer import plugins
from tau_trainer.cli import main
from tau_trainer.errors import SettingsError
from tau_trainer.settings.trainers import PPOTrainerSettings
from tests.waiting import HANG_S

Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package ``toy_plugin`` whose ``entry_points.txt`` has the given text."""

    def make(entry_points: str) -> None:
        (tmp_path / "toy_plugin.py").write_text("THING = ['a thing']\n")
        (tmp_path / "toy_broken.py").write_text("raise ImportError('no libtoy.so\\nand much else')\n")
        (tmp_path / "toy_silent.py").write_text("assert False\n")
        info = tmp_path / "toy_plugin-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-plugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(tmp_path)
        plugins._found.cache_clear()

    yield make
    plugins._found.cache_clear()
    for module in ("toy_plugin", "toy_broken", "toy_silent"):
        sys.modules.pop(module, None)


def test_everything_of_our_own_can_be_loaded() -> None:
    for kind, places in plugins._OWN.items():
        for name in places:
            assert name in plugins.names(kind)
            assert plugins.load(kind, name) is not None
    assert plugins.load("trainers", "ppo") is PPOTrainerSettings
    with pytest.raises(SettingsError, match=r"^'ppp' is not one of the trainers; known: ppo, a2c, sac, "):
        plugins.load("trainers", "ppp")


def test_a_package_adds_names_of_its_own(install: Install) -> None:
    added = "".join(f"{name} = toy_plugin:THING\n" for name in ("zeta", "ppo", "alpha"))
    install(f"[tau_trainer.trainers]\n{added}[another.group]\nbeta = x:y\n")
    names = plugins.names("trainers")
    assert (names[:2], names[-2:]) == (("ppo", "a2c"), ("alpha", "zeta"))
    assert "toy_plugin" not in sys.modules, "nothing is imported before it is asked for"
    assert plugins.load("trainers", "alpha") == ["a thing"]
    assert "alpha" not in plugins.names("tasks")
    assert plugins.load("trainers", "ppo") is PPOTrainerSettings, "our own names cannot be taken"
    assert names.count("ppo") == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("toy_broken:THING", "ImportError: no libtoy.so"),
        ("toy_silent:THING", "AssertionError"),
        ("toy_plugin:OTHER", "AttributeError: module 'toy_plugin' has no attribute 'OTHER'"),
        ("toy_absent:THING", "ModuleNotFoundError: No module named 'toy_absent'"),
    ],
)
def test_a_broken_package_is_one_sentence(install: Install, value: str, reason: str) -> None:
    install(f"[tau_trainer.encoders]\ntoy = {value}\n")
    with pytest.raises(SettingsError) as caught:
        plugins.load("encoders", "toy")
    expected = f"'toy' ({value}) cannot be loaded: {reason}; fix or uninstall its package"
    assert str(caught.value) == expected


def test_a_defect_of_our_own_is_no_users_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plugins._OWN, "tasks", {"tau": "tau_trainer.nowhere:Task"})
    monkeypatch.setattr(plugins, "_found", lambda kind: plugins._OWN[kind])
    with pytest.raises(ModuleNotFoundError):
        plugins.load("tasks", "tau")


def test_looking_up_names_imports_nothing_heavy() -> None:
    code = (
        "import sys; from tau_trainer import plugins; plugins.names('memories'); plugins.names('environments');"
        "sys.exit(bool({'torch', 'gymnasium', 'pydantic'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, timeout=HANG_S, check=False).returncode == 0


@pytest.mark.parametrize(
    "place",
    [
        *("tau_trainer.envs.polyhedra.drawing:draw", "tau_trainer.envs.polyhedra.search:search_tree"),
        *(f"tau_trainer.envs.worlds:{name}" for name in ("GoalWorld", "BitFlipping")),
        *(f"tau_trainer.evaluation.matches:{name}" for name in ("JAX", "get_rho_for_pair", "match", "rho_matrix")),
    ],
)
def test_imports_of_games_that_pages_had_shown_go_on(place: str) -> None:
    sys.modules.pop("tau_trainer.envs.worlds", None)  # it warns when it is imported
    now = place.replace("evaluation", "games.polyhedra").replace("envs", "games")
    with pytest.warns(DeprecationWarning, match=f" is in {now.partition(':')[0]} now; import it from there"):
        assert plugins.resolve(place) is plugins.resolve(now)
    with pytest.raises(AttributeError):
        plugins.resolve(f"{place.partition(':')[0]}:__nothing__")


def test_a_package_adds_a_command(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy_commands.py").write_text(
        "def hello(who: str = 'you') -> int:\n    '''Greet.'''\n    print(f'hello {who}')\n    return 5\n"
    )
    places = ("hello = toy_commands:hello", "learn = toy_commands:hello", "broken = toy_broken:THING")
    install("\n".join(["[tau_trainer.commands]", *places, ""]))
    assert main(["hello", "--who", "me"]) == 5
    assert capsys.readouterr().out == "hello me\n"
    assert main(["hello", "--help"]) == 0
    assert "Greet." in capsys.readouterr().out
    assert main(["learn", "--help"]) == 0
    assert "mlagents-learn" in capsys.readouterr().out, "a name of ours stays ours"
    assert main(["broken"]) == 2
    assert "'broken' (toy_broken:THING) cannot be loaded: ImportError: no libtoy.so" in capsys.readouterr().err
    assert "toy_broken" not in sys.modules


def test_our_own_commands_run_without_a_search_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search takes a tenth of the time of `tau-train --help`."""
    plugins._found.cache_clear()
    monkeypatch.setattr(plugins, "_entry_points", lambda group: pytest.fail(f"searched for {group}"))
    for words in (["--help"], [], ["play", "--help"], ["plot", "--help"]):
        assert main(words) == 0
    plugins._found.cache_clear()

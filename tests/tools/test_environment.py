"""The environment in `.venv`: made once, repaired when half-made, left alone when nothing changed."""

from __future__ import annotations

import venv
from pathlib import Path

import pytest

from tools._bootstrap import environment as module
from tools._bootstrap.environment import STAMP, UNFINISHED, Environment, ensure
from tools._bootstrap.progress import Progress, SetupError


class Recorder:
    """Stands in for pip: remembers what it was asked to install, fails or dies when told to."""

    def __init__(self) -> None:
        self.installs: list[list[str]] = []
        self.created = 0
        self.error: BaseException | None = None

    def create(self, folder: Path) -> None:
        self.created += 1
        venv.EnvBuilder(with_pip=False).create(folder)

    def pip(self, _environment: Environment, _progress: Progress, _text: str, what: list[str]) -> None:
        self.installs.append(what)
        if self.error is not None:
            raise self.error


@pytest.fixture
def checkout(tmp_path: Path) -> Environment:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "constraints.txt").write_text("# exact\nnumpy==2.4.6\ntorch==2.13.0\n")
    return Environment(tmp_path)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(module, "_create", recorder.create)
    monkeypatch.setattr(module, "_pip", recorder.pip)
    monkeypatch.setattr(module, "HEALTHY", "import sys; sys.exit(0 if sys.prefix != sys.base_prefix else 1)")
    return recorder


def test_torch_comes_first_and_alone_and_a_second_time_does_nothing(checkout: Environment, recorder: Recorder) -> None:
    for _ in range(2):
        ensure(checkout)
        assert recorder.installs == [["torch==2.13.0"], ["-e", f"{checkout.root}[dev]"]]
        assert recorder.created == 1
        assert checkout.ready()


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_changed_requirements_install_again_in_place(checkout: Environment, recorder: Recorder, name: str) -> None:
    ensure(checkout)
    path = checkout.root / name
    path.write_text(path.read_text() + "# changed\n")
    assert not checkout.ready()
    ensure(checkout)
    assert recorder.created == 1
    assert len(recorder.installs) == 4


def test_a_foreign_working_environment_is_kept_and_completed(checkout: Environment, recorder: Recorder) -> None:
    venv.EnvBuilder(with_pip=False).create(checkout.folder)
    (checkout.folder / "mine.txt").write_text("kept")
    ensure(checkout)
    assert recorder.created == 0
    assert (checkout.folder / "mine.txt").exists()
    assert checkout.ready()


def test_a_half_made_environment_is_made_anew(checkout: Environment, recorder: Recorder) -> None:
    checkout.scripts.mkdir(parents=True)
    (checkout.folder / "pyvenv.cfg").write_text("version = 3.11.7\n")
    checkout.python.symlink_to(checkout.root / "gone") if not module.WINDOWS else checkout.python.touch()
    ensure(checkout)
    assert recorder.created == 1
    assert checkout.ready()


@pytest.mark.parametrize(("error", "created"), [(KeyboardInterrupt(), 2), (SetupError("no network"), 1)])
def test_killed_while_installing_is_made_anew_and_a_failed_install_tried_again_in_place(
    checkout: Environment, recorder: Recorder, error: BaseException, created: int
) -> None:
    recorder.error = error
    with pytest.raises(type(error)):
        ensure(checkout)
    assert not checkout.ready()
    assert not (checkout.folder / STAMP).exists()
    assert (checkout.folder / UNFINISHED).exists() == (created == 2)
    recorder.error = None
    ensure(checkout)
    assert recorder.created == created
    assert checkout.ready()


def test_a_moved_checkout_installs_again(checkout: Environment, recorder: Recorder, tmp_path: Path) -> None:
    ensure(checkout)
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    checkout.root.rename(moved)
    assert not Environment(moved).ready()
    moved.rename(checkout.root)
    assert checkout.ready()


def test_constraints_without_torch_is_a_sentence(checkout: Environment, recorder: Recorder) -> None:
    checkout.constraints.write_text("numpy==2.4.6\n")
    with pytest.raises(SetupError, match=r"has no line `torch==\.\.\.`"):
        ensure(checkout)
    assert recorder.installs == []


def test_pip_failure_shows_the_end_of_its_log(checkout: Environment, capsys: pytest.CaptureFixture[str]) -> None:
    venv.EnvBuilder(with_pip=False).create(checkout.folder)
    with pytest.raises(SetupError, match="No module named pip") as caught:
        module._pip(checkout, Progress(), "installing numpy", ["numpy"])
    assert "installing numpy: failed with exit code 1" in str(caught.value)
    assert "installing numpy" in capsys.readouterr().err


def test_real_health_check_wants_pip(checkout: Environment) -> None:
    assert not module._healthy(checkout)
    venv.EnvBuilder(with_pip=False).create(checkout.folder)
    assert not module._healthy(checkout)


def test_child_environment_leads_to_no_other_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv("PYTHONHOME", "elsewhere")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("KEPT", "yes")
    child = module.child_environment()
    assert "PYTHONPATH" not in child
    assert "PYTHONHOME" not in child
    assert "PYTHONDONTWRITEBYTECODE" not in child
    assert child["KEPT"] == "yes"

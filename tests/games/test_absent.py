"""The package without its games: everything else is imported and runs, and a game that is named is one sentence."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.waiting import HANG_S

PACKAGE = Path(__file__).resolve().parents[2] / "tau_trainer"
RUN = """
environment: {name: %s, num_envs: 4}
behaviors:
  agent:
    trainer_type: ppo
    hyperparameters: {batch_size: 8, buffer_size: 16, learning_rate: 0.001, beta: 0.0, num_epoch: 1}
    network_settings: {hidden_units: 8, num_layers: 1}
    reward_signals: {extrinsic: {gamma: 0.9}}
    max_steps: 16
evaluation: {episodes: 0}
checkpoint_settings: {run_id: %s}
"""
SCRIPT = '''
import contextlib, importlib, io, sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


class Stub(ModuleType):
    """A package of others that takes seconds to import."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name.islower():
            return importlib.import_module(f"{self.__name__}.{name}")
        return type(name, (), {})


class Stubs:
    @staticmethod
    def find_spec(name, path, target=None):
        return ModuleSpec(name, Stubs) if name.partition(".")[0] in ("lightning", "ray") else None

    create_module = staticmethod(lambda spec: Stub(spec.name))
    exec_module = staticmethod(lambda module: None)


sys.meta_path.insert(0, Stubs)
here = Path.cwd()
for path in sorted((here / "tau_trainer").rglob("*.py")):
    if path.name != "__main__.py" and path != here / "tau_trainer/envs/worlds.py":  # which is a game's earlier name
        importlib.import_module(".".join(path.relative_to(here).with_suffix("").parts).removesuffix(".__init__"))

from tau_trainer.cli import main
from tau_trainer.metrics import plot

plot.draw, plot.save_figure = lambda history: None, lambda figure, path: path  # half a second
print(main(["batch", "tau.yaml", "--quiet"]), (here / "results/tau/agent.onnx").is_file())
for words in sys.stdin.read().splitlines():
    with contextlib.redirect_stderr(io.StringIO()) as told:
        code = main(words.split())
    print(code, " ".join(told.getvalue().split()), sep="|")
print(sorted(path.name for path in (here / "results").iterdir()))
'''
ABSENT = "needs tau_trainer.games, which is not installed here; install tau-trainer again"
NAMED = {
    "batch cartpole.yaml --quiet": f"'cartpole' {ABSENT}",
    "batch hironaka.yaml --quiet": f"'hironaka' {ABSENT}",
    "check-env tag_gridworld": f"'tag_gridworld' {ABSENT}",
    "play hironaka --host random --agent random": f"'play' {ABSENT}",
    "learn --env gym:tau_trainer.games.worlds:GoalWorld-v0 --run-id world": "No module named 'tau_trainer.games'",
    "learn --env gym:tau_trainer.envs.worlds:GoalWorld-v0 --run-id world": "No module named 'tau_trainer.games'",
}


def test_everything_else_goes_on(tmp_path: Path) -> None:
    left_out = PACKAGE / "games"
    shutil.copytree(
        PACKAGE,
        tmp_path / "tau_trainer",
        ignore=lambda folder, names: {"games"} if Path(folder) == PACKAGE else set(),
    )
    assert left_out.is_dir()
    assert not (tmp_path / "tau_trainer" / "games").exists()
    for name in ("tau", "cartpole", "hironaka"):
        (tmp_path / f"{name}.yaml").write_text(RUN % (name, name))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        input="\n".join(NAMED),
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, *told, runs = done.stdout.splitlines()
    assert first == "0 True"
    for (words, sentence), line in zip(NAMED.items(), told, strict=True):
        code, _, said = line.partition("|")
        assert (code, said.count("error: ")) == ("2", 1), (words, said)
        assert sentence in said, words
        assert "Traceback" not in said
    assert runs == "['tau']"

"""The package without its games: runs go on, and a game that is named is one sentence.

`tests/test_architecture.py` shows that nothing else imports them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tau_trainer.cli import main

GAMES = "tau_trainer.games"
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
ABSENT = f"needs {GAMES}, which is not installed here; install tau-trainer again"
NAMED = {
    "batch cartpole.yaml --quiet": f"'cartpole' {ABSENT}",
    "batch hironaka.yaml --quiet": f"'hironaka' {ABSENT}",
    "check-env tag_gridworld": f"'tag_gridworld' {ABSENT}",
    "play hironaka --host random --agent random": f"'play' {ABSENT}",
    f"learn --env gym:{GAMES}.worlds:GoalWorld-v0 --run-id world": f"No module named '{GAMES}'",
    "learn --env gym:tau_trainer.envs.worlds:GoalWorld-v0 --run-id world": f"No module named '{GAMES}'",
}


class Absent:
    """Finds no games."""

    @staticmethod
    def find_spec(name: str, path: object, target: object = None) -> None:
        if name == GAMES:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the earlier name of a module of games
def test_everything_else_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in [one for one in sys.modules if f"{one}.".startswith((f"{GAMES}.", "tau_trainer.envs.worlds."))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])
    monkeypatch.chdir(tmp_path)
    for name in ("tau", "cartpole", "hironaka"):
        Path(f"{name}.yaml").write_text(RUN % (name, name))
    assert main(["batch", "tau.yaml", "--quiet"]) == 0
    assert Path("results/tau/agent.onnx").is_file()
    capsys.readouterr()
    for words, sentence in NAMED.items():
        assert main(words.split()) == 2, words
        said = " ".join(capsys.readouterr().err.split())
        assert said.count("error: ") == 1, said
        assert sentence in said, words
        assert "Traceback" not in said
    assert [path.name for path in Path("results").iterdir()] == ["tau"]

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from tau_trainer.cli import main
from tau_trainer.collection.decisions import Actor
from tau_trainer.errors import SettingsError
from tau_trainer.report import animation
from tau_trainer.report.animation import Picture, Showing, animate

LENGTH = 7


class Sketch(gymnasium.Env[Any, Any]):
    """Seven steps; the first observation says which of two actions pays 1. Its picture tells step, seed and action."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012
    observation_space = spaces.Dict({"cue": spaces.Box(-1.0, 1.0, (2,), np.float32), "clock": spaces.Discrete(LENGTH)})
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None, width: int = 32) -> None:
        self.render_mode, self.width, self.action = render_mode, width, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seed, self.time = seed or 0, 0
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time, self.action = self.time + 1, int(action)
        return self._see(), float(action == 1), self.time == LENGTH, False, {}

    def _see(self) -> Any:
        return {"cue": np.ones(2, np.float32), "clock": min(self.time, LENGTH - 1)}

    def render(self) -> Any:
        picture = np.zeros((16, self.width, 3), np.uint8)
        picture[..., 0], picture[..., 1], picture[..., 2] = self.time, self.seed, 100 * self.action
        picture[: self.time] += 50
        return picture


class Blind(Sketch):
    metadata = {"render_modes": ["human"]}  # noqa: RUF012

    def render(self) -> Any:
        return None


for name, kind in (("Sketch-v0", Sketch), ("Blind-v0", Blind)):
    gymnasium.register(name, cast("Any", kind))
gymnasium.register("Other-v0", "gymnasium.envs.classic_control:CartPoleEnv")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    numbers = {"batch_size": 16, "buffer_size": 64, "learning_rate": 0.01, "num_epoch": 8}
    words = [word for key, value in numbers.items() for word in ("--set", f"behaviors.*.hyperparameters.{key}={value}")]
    words += ["--set", "behaviors.*.network_settings.memory={sequence_length: 8, memory_size: 8}"]
    flags = f"--env gym:Sketch-v0 --max-steps 600 --num-areas 4 --seed 1 --run-id seen --results-dir {results} --quiet"
    chosen = "--set behaviors.*.trainer_type=ppo --set collection.learner=thread"
    assert main(["learn", *flags.split(), *chosen.split(), *words]) == 0
    return results / "seen"


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Picture], list[float]]:
    """What would be written, and at which rate."""
    seen: list[Picture] = []
    rates: list[float] = []

    def write(found: Iterator[Picture], path: Path, fps: float) -> None:
        seen.extend(found)
        rates.append(fps)
        path.write_bytes(b"written")

    monkeypatch.setattr(animation, "_writer", lambda target: write)
    return seen, rates


def test_every_step_is_a_picture(run: Path, tmp_path: Path, pictures: tuple[list[Picture], list[float]]) -> None:
    seen, rates = pictures
    played = animate(run, "gym:Sketch-v0", tmp_path / "a.gif", Showing(episodes=2, seed=30, deterministic=True))
    assert [int(one[-1, 0, 0]) for one in seen] == [*range(LENGTH + 1), *range(LENGTH + 1)]
    assert [int(one[-1, 0, 1]) for one in seen] == [30] * (LENGTH + 1) + [31] * (LENGTH + 1)
    assert played.episodes.lengths == [LENGTH, LENGTH]
    assert played.episodes.returns == [LENGTH, LENGTH], "it has learned, and does what it has learned"
    assert all(one[-1, 0, 2] == 100 for one in seen[1 : LENGTH + 1])
    assert played.pictures == len(seen)
    assert rates == [25.0]
    assert (tmp_path / "a.gif").read_bytes() == b"written"


def test_it_draws_samples_and_cuts_and_takes_arguments(
    run: Path, tmp_path: Path, pictures: tuple[list[Picture], list[float]]
) -> None:
    seen, rates = pictures
    arguments = ["width=48"]
    played = animate(
        run, "gym:Sketch-v0", tmp_path / "a.gif", Showing(max_steps=3, fps=5.0, episodes=40, env_args=arguments)
    )
    assert set(played.episodes.lengths) == {3}
    assert len(seen) == 40 * 4
    assert seen[0].shape == (16, 48, 3)
    assert rates == [5.0]
    assert min(played.episodes.returns) < 3, "some samples are not the most likely action"


def test_what_an_agent_carries_is_forgotten_between_episodes(
    run: Path, tmp_path: Path, pictures: tuple[list[Picture], list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    carried: list[bool] = []
    decide = Actor.decide

    def looked_at(self: Any, rows: Any, obs: Any, mask: Any) -> Any:
        self.state.fit(rows)
        carried.append(any(self.state[column.name][rows].any() for column in self.state.columns))
        assert self.state.columns
        return decide(self, rows, obs, mask)

    monkeypatch.setattr(Actor, "decide", looked_at)
    animate(run, "gym:Sketch-v0", tmp_path / "a.gif", Showing(episodes=2))
    assert carried == ([False] + [True] * (LENGTH - 1)) * 2


@pytest.mark.parametrize(("fps", "lasting"), [(25.0, 40), (50.0, 20), (1000.0, 20)])
def test_a_gif(run: Path, tmp_path: Path, fps: float, lasting: int) -> None:
    animate(run, "gym:Sketch-v0", tmp_path / "a.gif", Showing(fps=fps))
    with Image.open(tmp_path / "a.gif") as image:
        assert image.n_frames == LENGTH + 1  # type: ignore[attr-defined]
        assert image.info["duration"] == lasting
        assert image.info["loop"] == 0
        assert image.size == (32, 16)


def test_an_mp4(run: Path, tmp_path: Path) -> None:
    import imageio_ffmpeg

    animate(run, "gym:Sketch-v0", tmp_path / "a.mp4", Showing(fps=20.0))
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "a.mp4"))
    assert frames == LENGTH + 1
    assert seconds == pytest.approx(0.4, abs=0.06)


@pytest.mark.parametrize(
    ("env", "target", "said"),
    [
        ("gym:Nonsense-v0", "a.gif", "--env gym:Nonsense-v0: cannot be made with render_mode rgb_array"),
        ("gym:nowhere:Sketch-v0", "a.gif", "No module named 'nowhere'"),
        ("gym:Blind-v0", "a.gif", r"it draws no pictures \(rgb_array\); its render modes: human"),
        (
            "gym:Other-v0",
            "a.gif",
            "it shows 4 and takes one of 2, and run 'seen' learned 'Sketch-v0', which shows 7 and 2 and takes one of 2",
        ),
        ("headless:balance", "a.gif", "play the run in the game with `tau-train learn --inference --run-id seen"),
        ("pettingzoo:pettingzoo.x", "a.gif", "only environments of Gymnasium"),
        ("gym:Sketch-v0", "a.avi", "a.avi: must end in .gif or .mp4"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(env: str, target: str, said: str, run: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=said):
        animate(run, env, tmp_path / target)
    assert not list(tmp_path.iterdir())


def test_an_extra_or_a_renderer_that_is_missing_is_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "imageio_ffmpeg":
            raise ImportError("No module named 'imageio_ffmpeg'")
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SettingsError, match=r"an MP4 needs imageio-ffmpeg.*pip install 'tau-trainer\[video\]'"):
        animate(run, "gym:Sketch-v0", tmp_path / "a.mp4")

    def render(self: Any) -> Any:
        raise gymnasium.error.DependencyNotInstalled("pygame is not installed, run `pip install pygame`")

    monkeypatch.setattr(Sketch, "render", render)
    with pytest.raises(SettingsError, match=r"what draws it is not installed \(pygame is not installed"):
        animate(run, "gym:Sketch-v0", tmp_path / "a.gif")


def test_the_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    where = ["--results-dir", str(run.parent)]
    assert main(["animate", "seen", "--deterministic", *where]) == 0
    assert f"episode 1: {LENGTH} steps, return {LENGTH}\nwritten: {run / 'animation.gif'}" in capsys.readouterr().out
    assert main(["animate", "seen", *where]) == 2
    assert "animation.gif: already exists; choose another name, or add --force" in capsys.readouterr().err
    assert main(["animate", "seen", *where, "--force", "--env-args", "width=64"]) == 0
    with Image.open(run / "animation.gif") as image:
        assert image.width == 64
    (run / "animation.gif").unlink()
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("animate seem", "seem: no run of this name in"),
        ("animate seen --episodes 0", "--episodes 0: must be more than 0"),
        ("animate seen --max-steps 0", "--max-steps 0: must be more than 0"),
        ("animate seen --fps -1", "fps"),
        ("animate seen --fps nan", "--fps nan: must be more than 0"),
        ("animate seen --seed -3", "seed"),
        ("animate seen --output nowhere/a.gif", "--output nowhere/a.gif: the folder nowhere does not exist"),
        ("animate seen --env-args width", "--env-args width: must be NAME=VALUE"),
    ],
)
def test_bad_input_is_one_sentence(
    words: str, said: str, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent.parent)
    head, *tail = words.split(" --env-args")
    rest = f" --env-args{tail[0]}" if tail else ""
    assert main(f"{head} --results-dir {run.parent}{rest}".split()) == 2
    errors = [line for line in capsys.readouterr().err.replace("\\", "/").splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert said in errors[0]
    assert not list(run.glob("animation.*"))

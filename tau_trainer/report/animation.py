"""A GIF or MP4 of a run's policy in a Gymnasium environment that draws itself, with one picture for each step."""

from __future__ import annotations

import importlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray
from PIL import Image

from tau_trainer.collection.decisions import Actor
from tau_trainer.envs.gymnasium import PREFIX
from tau_trainer.envs.spaces import action_spec, arrays, sensors, to_space
from tau_trainer.envs.threaded import named_arguments
from tau_trainer.errors import SettingsError
from tau_trainer.evaluation.candidates import Candidate
from tau_trainer.evaluation.episodes import EpisodeLog
from tau_trainer.files import atomic_write_bytes
from tau_trainer.specs import ActionSpec, BehaviorSpec
from tau_trainer.training.stored import candidates_of_run

Picture = NDArray[np.uint8]
"""A picture, uint8 [height, width, 3]."""
SUFFIXES = (".gif", ".mp4")
_FPS = 30.0
"""Pictures a second if the environment sets none."""
_GIF_TICK_MS, _GIF_LEAST_MS = 10, 20
"""A GIF counts in hundredths of a second; viewers show pictures of less than two of them at a tenth of the speed."""


@dataclass(frozen=True, slots=True)
class Showing:
    """Settings of play and picture."""

    episodes: int = 1
    """Number of consecutive episodes; episode ``i`` starts with ``seed + i``."""
    max_steps: int = 1000
    """Steps after which an episode is cut."""
    fps: float | None = None
    """Pictures a second; None: the environment's number."""
    deterministic: bool = False
    """Take the most likely action instead of a sample."""
    seed: int = 0
    """Random seed of the episodes and the samples."""
    env_args: Sequence[str] = ()
    """``NAME=VALUE``, arguments of :func:`gymnasium.make`."""


_ONCE = Showing()


@dataclass(slots=True)
class PlayedEpisodes:
    """The played episodes."""

    name: str
    """Name of the learner whose policy played."""
    episodes: EpisodeLog = field(default_factory=EpisodeLog)
    pictures: int = 0


def animate(run: Path, env: str, target: Path, showing: Showing = _ONCE) -> PlayedEpisodes:
    """Play and write ``target``, completely or not at all.

    Args:
        run: its folder.
        env: ``gym:ID``, or ``gym:MODULE:ID``.
        target: a file that ends in ``.gif`` or ``.mp4``.
        showing: how.

    Raises:
        SettingsError: the environment cannot be made or draws nothing, or none of the run's policies fits it; or what
            writes the file is not installed.
        CheckpointError: the run has saved nothing that can be read.
    """
    write = _writer(target)
    playing = _make(env, run, showing.env_args)
    try:
        candidate = _fitting(candidates_of_run(run), playing, run, env)
        played = PlayedEpisodes(candidate.name)
        rate = showing.fps or float(playing.metadata.get("render_fps") or _FPS)
        pictures = _pictures(playing, candidate, played, showing, env)
        with tempfile.TemporaryDirectory(prefix="tau-animate-") as place:
            staged = Path(place, target.name)
            write(pictures, staged, rate)
            atomic_write_bytes(target, staged.read_bytes())
    finally:
        playing.close()
    return played


def _make(env: str, run: Path, env_args: Sequence[str]) -> gymnasium.Env[Any, Any]:
    if not env.startswith(PREFIX):
        raise SettingsError(
            f"--env {env}: only environments of Gymnasium (gym:ID) can be drawn from here; play the run in the game "
            f"with `tau-train learn --inference --run-id {run.name} --env {env}` and record its window"
        )
    name, arguments = env.removeprefix(PREFIX), named_arguments(env_args, "gymnasium.make")
    try:
        if name.rpartition(":")[0]:
            importlib.import_module(name.rpartition(":")[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an environment that draws nothing is reported below
            return gymnasium.make(name, render_mode="rgb_array", disable_env_checker=True, **arguments)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise SettingsError(f"--env {env}: cannot be made with render_mode rgb_array ({reason})") from error


def _fitting(candidates: Sequence[Candidate], env: gymnasium.Env[Any, Any], run: Path, name: str) -> Candidate:
    """The first policy whose observations and actions are those of ``env``."""
    seen, actions = tuple(sensors(env.observation_space)), action_spec(env.action_space)
    shapes = [candidate.shape for candidate in seen]
    for candidate in candidates:
        if [sensor.shape for sensor in candidate.spec.observations] == shapes and candidate.spec.actions == actions:
            return candidate
    learned = "; ".join(f"'{candidate.spec.short_name}', which {_in_words(candidate.spec)}" for candidate in candidates)
    shown = _in_words(BehaviorSpec(name, seen, actions))
    raise SettingsError(
        f"--env {name}: it {shown}, and run '{run.name}' learned {learned}; name the environment it was trained on"
    )


def _in_words(spec: BehaviorSpec) -> str:
    shapes = " and ".join("x".join(map(str, sensor.shape)) for sensor in spec.observations)
    return f"shows {shapes} and takes {_actions_in_words(spec.actions)}"


def _actions_in_words(actions: ActionSpec) -> str:
    parts = [f"{actions.continuous_size} continuous"] if actions.continuous_size else []
    parts += [f"one of {size}" for size in actions.discrete_branches]
    return " and ".join(parts)


def _pictures(
    env: gymnasium.Env[Any, Any], candidate: Candidate, played: PlayedEpisodes, showing: Showing, name: str
) -> Iterator[Picture]:
    """Play; yields a picture of every step, and of the start and end of every episode."""
    actor = Actor(candidate.policy, np.random.default_rng(showing.seed), deterministic=showing.deterministic)
    space, row = env.observation_space, np.zeros(1, np.int64)
    room: Any = create_empty_array(space, 1)
    for episode in range(showing.episodes):
        obs, _ = env.reset(seed=showing.seed + episode)
        actor.forget(row)
        played.episodes.lengths.append(0)
        played.episodes.returns.append(0.0)
        yield _drawn(env, played, name)
        done = False
        while not done and played.episodes.lengths[-1] < showing.max_steps:
            decision = actor.decide(row, tuple(arrays(space, concatenate(space, [obs], room))), None)
            obs, reward, terminated, truncated, _ = env.step(to_space(env.action_space, decision.to_env())[0])
            done = terminated or truncated
            played.episodes.lengths[-1] += 1
            played.episodes.returns[-1] += float(reward)
            yield _drawn(env, played, name)


def _drawn(env: gymnasium.Env[Any, Any], played: PlayedEpisodes, name: str) -> Picture:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picture: Any = env.render()
    except gymnasium.error.DependencyNotInstalled as error:
        raise SettingsError(f"--env {name}: what draws it is not installed ({' '.join(str(error).split())})") from error
    except NotImplementedError:
        picture = None
    if not isinstance(picture, np.ndarray) or picture.ndim != 3:
        modes = ", ".join(map(str, env.metadata.get("render_modes") or ())) or "none"
        raise SettingsError(f"--env {name}: it draws no pictures (rgb_array); its render modes: {modes}")
    played.pictures += 1
    return np.ascontiguousarray(picture[:, :, :3], np.uint8)


def _writer(target: Path) -> Callable[[Iterator[Picture], Path, float], None]:
    """The function that writes a file of this kind. Raises SettingsError."""
    if target.suffix.lower() == ".gif":
        return _write_gif
    if target.suffix.lower() != ".mp4":
        raise SettingsError(f"--output {target}: must end in {' or '.join(SUFFIXES)}")
    try:
        import imageio_ffmpeg  # noqa: F401
    except ImportError as error:
        raise SettingsError(
            f"--output {target}: an MP4 needs imageio-ffmpeg, which is not installed: pip install 'tau-trainer[video]' "
            f"({error}); a .gif needs nothing more"
        ) from error
    return _write_mp4


def _write_gif(pictures: Iterator[Picture], path: Path, fps: float) -> None:
    lasting = max(_GIF_LEAST_MS, round(1000.0 / fps / _GIF_TICK_MS) * _GIF_TICK_MS)
    images = (Image.fromarray(picture).quantize(64, dither=Image.Dither.NONE) for picture in pictures)
    next(images).save(path, save_all=True, append_images=images, duration=lasting, loop=0)


def _write_mp4(pictures: Iterator[Picture], path: Path, fps: float) -> None:
    import imageio_ffmpeg

    first = next(pictures)
    height, width = first.shape[:2]
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=fps, macro_block_size=2)
    writer.send(None)
    try:
        writer.send(first)
        for picture in pictures:
            writer.send(picture)
    finally:
        writer.close()

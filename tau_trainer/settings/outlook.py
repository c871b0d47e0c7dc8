"""Findings about settings: untrainable settings, differences from mlagents-learn, keys without effect, warnings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tau_trainer.settings.document import Location
from tau_trainer.settings.engines import HEADLESS_PREFIX, SENT, plays_unreal
from tau_trainer.settings.gathering import Finding, blanks, trainers_of
from tau_trainer.settings.hyperparameters import OffPolicyHyperparameters
from tau_trainer.settings.parameters import Curriculum, Lesson
from tau_trainer.settings.problems import Problems, did_you_mean
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.signals import LEARNED, LEARNED_BESIDE
from tau_trainer.settings.trainers import OfflineTrainerSettings, TrainerSettings

_BESIDE = f"{', '.join(LEARNED_BESIDE[:-1])} and {LEARNED_BESIDE[-1]}"
_CLOCK = ("max_steps", "summary_freq", "checkpoint_interval", "even_checkpoints")
"""Keys that must be equal in all behaviors of a batched run, because they play in the same copies, step by step."""


def untrainable(file: RunSettings) -> Iterator[Finding]:
    """Everything in ``file`` that this version cannot train."""
    yield from blanks(file)
    for place, settings in trainers_of(file):
        yield from _signals(place, settings)
    if file.environment is not None:
        yield from _copies(file)
        return
    kinds = {isinstance(settings, OfflineTrainerSettings): name for name, settings in file.behaviors.items()}
    if len(kinds) > 1:
        text = f"learns only from recordings, but {kinds[False]} does not; put them into separate files"
        yield ("behaviors", kinds[True], "trainer_type"), text
    yield from _lessons(file)
    yield from _actors(file)
    yield from _strategy(file)
    if file.env_settings.attached and file.collection.deterministic:
        text = "makes engines take turns, but with attach:MAX they connect at any time; remove it"
        yield ("collection", "deterministic"), text


def _copies(file: RunSettings) -> Iterator[Finding]:
    """What a batched run cannot do with the keys of the whole file, and what its behaviors lack together."""
    learning = {name: trainer for name, trainer in file.behaviors.items() if trainer.learns}
    if not file.behaviors:
        yield ("behaviors",), "is empty; name the policies there, such as behaviors: {agent: {}}"
    elif not learning:
        yield (), "has no behavior that learns; give one to_train: true and no player"
    for key in _CLOCK:
        given = {getattr(trainer, key): name for name, trainer in learning.items()}
        if len(given) > 1:
            said = " and ".join(f"{name} has {key} {number}" for number, name in given.items())
            yield ("behaviors",), f"play in the same copies, but {said}; set it once, under default_settings"
    copies, devices = file.played.num_envs, file.devices
    if copies % devices:
        text = f"cannot divide {copies} copies among {devices} devices; make environment.num_envs a multiple of it"
        yield (), text
    if file.cluster is not None and devices == 1:
        yield (), "has a cluster (--cluster), which runs all ranks but the first, but one device; add --devices"


def _actors(file: RunSettings) -> Iterator[Finding]:
    """Settings that do not work with actors in separate processes."""
    if file.execution != "async":
        if file.cluster is not None:
            yield ("execution",), "is sync, which plays in this process, but cluster (--cluster) has actors; remove one"
        return
    if file.cluster is not None and file.collection.listen is not None:
        text = "is for engines on other machines, but on a cluster each actor starts its own engine; remove it"
        yield ("collection", "listen"), text
    engines, actors = file.env_settings.num_envs, file.async_trainer.actors
    if engines not in (1, actors):
        text = (
            f"is {engines}, but async_trainer.actors (--actors) is {actors}; each actor has one engine: remove one key"
        )
        yield ("env_settings", "num_envs"), text
    if file.env_settings.awaited:
        text = "is async, where actors start their own engines; name a build with env_path (--env)"
        yield ("execution",), text


def _strategy(file: RunSettings) -> Iterator[Finding]:
    """Settings of the whole file that do not work with a parameter server."""
    if file.strategy != "parameter_server":
        if file.max_staleness is not None:
            yield ("max_staleness",), "is for a parameter server; remove it, or add strategy: parameter_server"
        return
    if file.devices == 1:
        yield ("strategy",), "is parameter_server, which needs several learning processes; add devices (--devices N)"
    elif file.staleness_bound < file.devices - 1:
        text = (
            f"allows only {file.staleness_bound + 1} of {file.devices} devices to learn at a time; raise it to at "
            f"least {file.devices - 1}"
        )
        yield ("max_staleness",), text
    if file.collection.deterministic or (file.execution == "async" and file.async_trainer.mode == "lock_step"):
        text = "is parameter_server, whose learners run in any order, so no seed is reproducible; use mirrored"
        yield ("strategy",), text


def _lessons(file: RunSettings) -> Iterator[Finding]:
    """Lessons that would never end because they wait for a behavior that does not exist."""
    if not file.behaviors or file.default_settings is not None:
        return
    for place, lesson, last in _every_lesson(file):
        criteria = lesson.completion_criteria
        if not last and criteria is not None and criteria.behavior not in file.behaviors:
            near = did_you_mean(criteria.behavior, file.behaviors)
            text = f"is behavior {criteria.behavior}, which `behaviors` does not have; {near}"
            yield (*place, "completion_criteria", "behavior"), text


def _every_lesson(file: RunSettings) -> Iterator[tuple[Location, Lesson, bool]]:
    """Every lesson with its location, and whether it is the last of its parameter."""
    for name, value in (file.environment_parameters or {}).items():
        lessons = value.curriculum if isinstance(value, Curriculum) else ()
        for i, lesson in enumerate(lessons):
            yield ("environment_parameters", name, "curriculum", i), lesson, lesson is lessons[-1]


def _signals(place: Location, settings: TrainerSettings) -> Iterator[Finding]:
    """What is learned beside the policy, with a trainer type or a network that does not support it."""
    kind, memory = settings.trainer_type, settings.network_settings.memory
    text = f"works only with {_BESIDE}, not with {kind}; remove it, or change trainer_type"
    if settings.behavioral_cloning is not None and kind not in LEARNED_BESIDE:
        yield (*place, "behavioral_cloning"), text
    for name, signal in settings.reward_signals.items():
        where = (*place, "reward_signals", name)
        if name in LEARNED and kind not in LEARNED_BESIDE:
            yield where, text
        elif signal.asks_policy and memory is not None:
            yield where, "does not support a policy with memory; remove it, or remove network_settings.memory"


_TYPICAL = {
    "learning_rate": (1e-5, 1e-3),
    "beta": (1e-4, 1e-2),
    "epsilon": (0.1, 0.3),
    "num_epoch": (3, 10),
    "hidden_units": (32, 512),
    "num_layers": (1, 3),
}
"""Ranges from ML-Agents' documentation that hold for any scene. 0, which disables a feature, is always accepted."""
_FAR = 10
"""A value this factor outside its range is probably a typo; ML-Agents' own examples are within it."""
_BUILD = ("env_args", "max_lifetime_restarts", "restarts_rate_limit_n", "restarts_rate_limit_period_s")
_REPLAYED = ("channel_capacity", "samples_per_update", "max_policy_lag", "sync_interval")
_IMAGES = ("image_order", "flat_sensors")
_PLAYER = ("no_graphics", "no_graphics_monitor")


def pace(settings: TrainerSettings) -> dict[str, int]:
    """Number of updates and of their decisions and minibatches, by name; empty for trainers of other packages."""
    hyper, steps = settings.hyperparameters, settings.max_steps
    if isinstance(hyper, OffPolicyHyperparameters):
        most, least = (max(0, int((steps - hyper.buffer_init_steps) / every)) for every in hyper.decisions_per_step)
        return {"updates": least, "minibatches_per_update": 1} | ({"most_updates": most} if hyper.auto else {})
    new: int | None = getattr(hyper, "rollout_size", None)
    if new is None:
        return {}
    minibatches = getattr(hyper, "num_epoch", 1) * max(1, new // hyper.batch_size)
    # An agent's newest decision is not yet experience, so the last steps do not fill a buffer.
    return {"updates": (steps - 1) // new, "new_decisions_per_update": new, "minibatches_per_update": minibatches}


class Outlook:
    """Findings about valid settings. A finding without a location concerns the whole file."""

    def __init__(self, settings: RunSettings, read: Problems) -> None:
        self._settings = settings
        self._data, self._flags = read.document.data, read.flags
        self._trainers: dict[Location, TrainerSettings] = dict(trainers_of(settings))

    @property
    def _rollouts(self) -> bool:
        """Whether all trainers learn from rollouts."""
        return not any(each.hyperparameters.replays for each in self._trainers.values())

    @property
    def _threaded(self) -> bool:
        """Whether mlagents-learn would also learn in parallel with acting."""
        return bool(self._trainers) and all(trainer.threaded for trainer in self._trainers.values())

    def differences(self) -> Iterator[Finding]:
        """Differences from mlagents-learn."""
        collection = self._settings.collection
        if self._settings.execution == "async":
            steps = self._settings.async_trainer.max_policy_lag
            lag = (
                "a rollout ahead of learning"
                if self._rollouts
                else f"with weights at most {steps:,} gradient steps old"
            )
            yield (), f"actors play in separate processes, {lag}; mlagents-learn stops the game to learn"
        elif (age := collection.max_policy_age) and not collection.deterministic and not self._threaded:
            text = (
                f"agents keep acting during an update, with a policy at most {age} update{'s' if age > 1 else ''} old; "
                "mlagents-learn stops the game, as --set collection.max_policy_age=0 does"
            )
            yield (), text
        if self._settings.torch_settings.device is None:
            text = "learning uses the CPU; mlagents-learn uses a GPU if there is one, as --torch-device cuda does"
            yield (), text
        if any("new_decisions_per_update" in pace(trainer) for trainer in self._trainers.values()):
            text = "a full buffer cuts trajectories, and decisions count at once; mlagents-learn waits for their end"
            yield (), text
        for place, trainer in self._trainers.items():
            hyper, network = trainer.hyperparameters, trainer.network_settings
            new = pace(trainer).get("new_decisions_per_update")
            if new is not None and new < (hyper.buffer_size or 0):
                text = (
                    f"an update starts with {new:,} new decisions and reuses the others once; mlagents-learn waits for "
                    f"{hyper.buffer_size:,}, as updates_per_buffer: 1 does"
                )
                yield self._at(place, "hyperparameters", "buffer_size"), text
            if network.normalize and not hyper.replays:
                text = "statistics include a buffer after the update that uses it; with mlagents-learn, before"
                yield self._at(place, "network_settings", "normalize"), text
            if trainer.self_play is not None:
                text = (
                    "if another team learns, no environment is reset, and opponents change with the next episode; "
                    "mlagents-learn resets, and changes opponents during games"
                )
                yield self._at(place, "self_play"), text
        for place, lesson, last in _every_lesson(self._settings):
            end = lesson.completion_criteria
            if end is not None and not last and end.measure == "reward" and not end.min_lesson_length:
                yield place, "the mean of several episodes ends this lesson; with mlagents-learn, a single one does"

    def without_effect(self) -> Iterator[Finding]:
        """Keys that the user has set and that have no effect, or another effect than expected."""
        for place, trainer in self._trainers.items():
            replayed = trainer.hyperparameters.replays
            idle: dict[str, tuple[bool, str]] = {
                "threaded": (trainer.threaded, "has no effect: learning always runs in parallel with acting"),
                "time_horizon": (replayed, f"has no effect: {trainer.trainer_type} cuts no trajectories"),
                "checkpoint_interval": (trainer.even_checkpoints, "has no effect with even_checkpoints"),
                "trial_count": (
                    trainer.criterion is None and not trainer.save_best_only,
                    "has no effect without criterion or save_best_only",
                ),
            }
            yield from (
                ((*place, key), text) for key, (so, text) in idle.items() if so and self._written((*place, key))
            )
            for name, signal in trainer.reward_signals.items():
                if signal.network_settings.memory is not None:
                    text = "has no effect: the signal's own network sees single steps"
                    yield (*place, "reward_signals", name, "network_settings", "memory"), text
            every = (*place, "hyperparameters", "reward_signal_steps_per_update")
            if self._written(every) and not trainer.reward_signals.keys() & LEARNED.keys():
                yield every, "has no effect without a learned reward signal"
            replay = (*place, "hyperparameters", "save_replay_buffer")
            if trainer.save_param_only and getattr(trainer.hyperparameters, "save_replay_buffer", False):
                yield replay, "has no effect with save_param_only"
        if self._settings.execution == "async" and self._rollouts:
            yield from self._unused("rollouts, which all actors fill together", async_trainer=_REPLAYED)
        env = self._settings.env_settings
        path, godot = env.place, env.godot
        if godot:
            yield from self._parameters("a Godot game receives no parameters")
            started = not env.awaited
            unused = tuple(key for key in SENT if key != "time_scale" or not started)
            yield from self._unused("Godot games, which receive no such setting", engine_settings=unused)
            if not started:
                yield from self._unused("games that you start, whose Sync node says it", collection=("action_repeat",))
        else:
            of_godot = ("action_repeat", "truncate_after")
            yield from self._unused("games of other engines than Godot", collection=of_godot)
        if path is None:
            port = 11008 if godot else 5004
            yield from self._unused("the editor", env_settings=_BUILD, engine_settings=_PLAYER)
            yield from self._unused(f"the editor, which always connects to port {port}", env_settings=("base_port",))
        elif env.attached:
            yield from self._unused("attach:MAX", env_settings=_BUILD, engine_settings=_PLAYER)
        elif path.startswith(HEADLESS_PREFIX):
            yield from self._unused("the headless engine", engine_settings=_PLAYER + (() if godot else SENT))
        elif path.startswith("gym:"):
            yield from self._unused("Gymnasium", env_settings=("base_port",), engine_settings=_PLAYER + SENT)
            yield from self._unused("Gymnasium", collection=_IMAGES)
        elif not godot and plays_unreal(path):
            yield from self._parameters("an Unreal game receives no parameters")
            yield from self._unused("Unreal games, which receive no settings", engine_settings=SENT)
            yield from self._unused("Unreal games, which send no pictures", collection=_IMAGES)
        for place, lesson, last in _every_lesson(self._settings):
            if last and lesson.completion_criteria is not None:
                yield (*place, "completion_criteria"), "has no effect in the last lesson"
        if self._settings.checkpoint_settings.train_model:
            yield ("checkpoint_settings", "train_model"), "has no effect"
        if self._settings.tau is not None:
            yield ("tau",), "is for `tau-train parallel`; `learn` ignores its pairs and agents"

    def warnings(self) -> Iterator[Finding]:
        """Valid settings that are probably mistakes."""
        for place, trainer in self._trainers.items():
            hyper, network, facts = trainer.hyperparameters, trainer.network_settings, pace(trainer)
            new = facts.get("new_decisions_per_update")
            if facts and not facts["updates"]:
                text = (
                    f"is {trainer.max_steps:,}, which ends before the first update, so nothing would be learned; raise "
                    "it or lower buffer_size"
                )
                yield self._at(place, "max_steps"), text
            if new is not None and (rest := (hyper.buffer_size or new) % hyper.batch_size):
                text = f"is not a multiple of batch_size {hyper.batch_size:,}: each pass leaves out {rest:,} decisions"
                yield self._at(place, "hyperparameters", "buffer_size"), text
            if new is not None and trainer.time_horizon > new:
                text = f"is more than the {new:,} new decisions of an update, so updates cut trajectories first"
                yield self._at(place, "time_horizon"), text
            if network.deterministic and not self._settings.checkpoint_settings.inference:
                text = "is on during training: an agent that always takes its best action does not explore"
                yield self._at(place, "network_settings", "deterministic"), text
            rivals = trainer.self_play
            if rivals is not None and rivals.save_steps >= trainer.max_steps:
                text = (
                    f"is {rivals.save_steps:,} of {trainer.max_steps:,} decisions: no agent plays an earlier policy "
                    "except the first; lower it"
                )
                yield self._at(place, "self_play", "save_steps"), text
            cloning = trainer.behavioral_cloning
            if cloning and not cloning.samples_per_update and hyper.replays:
                text = (
                    f"uses all recordings in every update, and {trainer.trainer_type} has an update every few "
                    "decisions; set samples_per_update, such as 512"
                )
                yield self._at(place, "behavioral_cloning"), text
            if not cloning and not any(signal.strength for signal in trainer.reward_signals.values()):
                yield (
                    self._at(place, "reward_signals"),
                    "has only signals of strength 0, so there is nothing to learn from",
                )
            for section, values in (("hyperparameters", hyper), ("network_settings", network)):
                for key, (low, high) in _TYPICAL.items():
                    value: Any = getattr(values, key, 0)
                    if isinstance(value, int | float) and value and not low / _FAR <= value <= high * _FAR:
                        text = f"is {value:g}, far from the usual range ({low:g} to {high:g})"
                        yield self._at(place, section, key), text

    def _parameters(self, why: str) -> Iterator[Finding]:
        for name in self._settings.environment_parameters or {}:
            yield ("environment_parameters", name), f"has no effect: {why}"

    def _unused(self, what: str, **sections: tuple[str, ...]) -> Iterator[Finding]:
        for section, keys in sections.items():
            for key in keys:
                if self._written((section, key)):
                    yield (section, key), f"has no effect with {what}"

    def _written(self, location: Location) -> bool:
        """Whether the user has set this key, in the file or with a flag."""
        here: Any = self._data
        for part in location:
            here = here.get(part) if isinstance(here, dict) else None
        return here is not None or location in self._flags

    def _at(self, place: Location, *key: str) -> Location:
        """The location of a behavior's key: in the behavior or in default_settings."""
        common = ("default_settings", *key)
        return common if self._written(common) and not self._written((*place, *key)) else (*place, *key)

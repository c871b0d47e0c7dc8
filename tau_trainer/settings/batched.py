"""A file for ``tau-train batch``: an environment whose copies are tensors, and the policies of its agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from tau_trainer.settings.document import Location, read_document
from tau_trainer.settings.hyperparameters import (
    A2CHyperparameters,
    BatchedDQNHyperparameters,
    Hyperparameters,
    OffPolicyHyperparameters,
    PPOHyperparameters,
)
from tau_trainer.settings.kinds import Bool, Float, Fraction, Int, NaturalInt, PositiveInt, Section, Text
from tau_trainer.settings.merging import apply_overrides
from tau_trainer.settings.networks import NetworkSettings
from tau_trainer.settings.problems import Problems, did_you_mean, key_path
from tau_trainer.settings.run import CheckpointSettings, TorchSettings, fixed_seed
from tau_trainer.settings.shipped import find_config
from tau_trainer.settings.trainers import SummaryFreq, summary_every

Compile = Literal["auto", "on", "off"]
"""Whether stepping and acting are compiled: where a probe says that it is faster, always, or never."""


class EnvironmentSettings(Section):
    """``environment``: what is played."""

    name: Text
    """A batched environment by its name, or MODULE:CLASS of one's own."""
    num_envs: PositiveInt = 1024
    """Copies that are played at once."""
    starts: Literal["drawn", "fixed", "pool"] | None = None
    """Episodes begin drawn anew, each as its copy's first one, or as one of a pool of starts; null = as the environment
    does by itself."""
    pool: PositiveInt = 1024
    """Starts in the pool."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Its own, by name."""


class EvaluationSettings(Section):
    """``evaluation``: episodes of the most likely actions, in copies of their own."""

    interval: NaturalInt = 0
    """Decisions between two evaluations; 0: at the end alone."""
    episodes: NaturalInt = 16
    """Copies, of which each plays one episode; 0: there is no evaluation."""
    max_episode_steps: PositiveInt = 10000
    """Steps after which an episode that has not ended is counted as it stands."""
    trace: Bool = False
    """Keep one episode of the last evaluation: trace.npz, and trace.gif where the environment draws pictures."""


class PolicySettings(Section):
    """One entry under ``policies``."""

    agents: tuple[Text, ...] | None = None
    """Whose it is: agents by name, or by what stands before their number; null = all there are."""
    to_train: Bool = True
    """Whether it learns; else it acts as it is."""
    player: Text | None = None
    """A fixed player of the environment that decides instead of a network."""
    trainer_type: str
    """The algorithm."""
    hyperparameters: SerializeAsAny[Hyperparameters]
    """Its numbers."""
    network_settings: NetworkSettings = NetworkSettings()
    """Shape of its network."""
    gamma: Fraction = 0.99
    """Discount for each step."""
    init_path: Text | None = None
    """A checkpoint to start from."""
    criterion: Float | None = None
    """Mean return of trial_count episodes, from which this policy has learned enough; None = it learns to the end."""
    trial_count: PositiveInt = 100
    """Newest episodes that criterion and save_best_only look at, and as many more as are counted together."""
    save_best_only: Bool = False
    """Write checkpoints only where a policy that asks for this has become better, by those episodes."""

    @property
    def learns(self) -> bool:
        """Whether anything changes it."""
        return self.to_train and self.player is None

    @model_validator(mode="after")
    def _players_are_no_networks(self) -> Self:
        given = {"hyperparameters", "network_settings", "init_path", "trainer_type", "gamma"} & self.model_fields_set
        if self.player is not None and given:
            text = "has a player, which is no network, and {key}; remove one of them"
            raise PydanticCustomError("player", text, {"key": min(given)})
        return self

    @model_validator(mode="after")
    def _no_memory(self) -> Self:
        if self.network_settings.memory is not None:
            text = "asks for network_settings.memory, which is not learned on tensors; remove it"
            raise PydanticCustomError("no_memory", text)
        return self


class PPOPolicySettings(PolicySettings):
    """A policy that PPO trains."""

    trainer_type: Literal["ppo"] = "ppo"
    hyperparameters: PPOHyperparameters = PPOHyperparameters()

    @model_validator(mode="after")
    def _once(self) -> Self:
        if self.hyperparameters.updates_per_buffer == 2:
            text = "asks for hyperparameters.updates_per_buffer 2, which is for engines; remove it"
            raise PydanticCustomError("once", text)
        return self


class A2CPolicySettings(PolicySettings):
    """A policy that A2C trains."""

    trainer_type: Literal["a2c"] = "a2c"
    hyperparameters: A2CHyperparameters = A2CHyperparameters()
    gamma: Fraction = 0.98
    """Discount for each step."""


class DQNPolicySettings(PolicySettings):
    """A policy that deep Q-learning trains."""

    trainer_type: Literal["dqn"] = "dqn"
    hyperparameters: BatchedDQNHyperparameters = BatchedDQNHyperparameters()


_POLICIES: dict[str, type[PolicySettings]] = {
    "a2c": A2CPolicySettings,
    "ppo": PPOPolicySettings,
    "dqn": DQNPolicySettings,
}
"""By ``trainer_type``."""


def _as_word(value: object) -> object:
    """``on`` and ``off``, which YAML reads as true and false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _of_its_type(value: object) -> object:
    """A plain mapping as the class that its ``trainer_type`` asks for."""
    if not isinstance(value, Mapping):
        return value
    return _POLICIES[value.get("trainer_type", "ppo")].model_validate(value)


AnyPolicySettings = Annotated[SerializeAsAny[PolicySettings], BeforeValidator(_of_its_type)]


class BatchedSettings(Section):
    """All that such a file may say. A *step* is one decision of one agent; those that have left are counted too."""

    environment: EnvironmentSettings
    """What is played."""
    policies: Annotated[dict[str, AnyPolicySettings], Field(min_length=1)]
    """Who decides for whom, by name."""
    max_steps: PositiveInt = 1_000_000
    """Decisions of all agents together after which the run ends."""
    summary_freq: SummaryFreq = "auto"
    """Decisions between two points of every curve; auto = 50000, in short runs a twentieth of max_steps."""
    checkpoint_interval: PositiveInt = 500000
    """Decisions between checkpoints."""
    keep_checkpoints: Int = 5
    """Newest checkpoints kept; 0 or less keeps all."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """Episodes beside learning."""
    devices: PositiveInt = 1
    """Processes that train together, each with its share of the copies: on GPUs one each, else on the CPU."""
    compile: Annotated[Compile, BeforeValidator(_as_word)] = "auto"
    """Whether stepping and acting are compiled."""
    seed: Int = -1
    """Of everything random; -1: a random one."""
    checkpoint_settings: CheckpointSettings = CheckpointSettings()
    """Where the run is kept."""
    torch_settings: TorchSettings = TorchSettings()
    """Where everything is computed."""
    callbacks: tuple[Text, ...] = ()
    """What is told of the run: callbacks by name, or MODULE:CLASS of one's own."""
    debug: Bool = False
    """Tell more in the log; show tracebacks."""

    @property
    def device(self) -> str:
        """Where the tensors are."""
        return self.torch_settings.device or "cpu"

    def on(self, device: str) -> BatchedSettings:
        """The same on that device."""
        chosen = self.torch_settings.model_copy(update={"device": device})
        return self.model_copy(update={"torch_settings": chosen})

    @property
    def summary_every(self) -> int:
        """Decisions between two points of every curve."""
        return summary_every(self.summary_freq, 50000, self.max_steps)

    @model_validator(mode="after")
    def _somebody_learns(self) -> Self:
        if not any(policy.learns for policy in self.policies.values()):
            text = "has no policy that learns; let one have to_train: true and no player"
            raise PydanticCustomError("nobody_learns", text)
        return self

    @model_validator(mode="after")
    def _shared_out(self) -> Self:
        if self.environment.num_envs % self.devices:
            text = "cannot share {copies} copies out to {devices} devices; make environment.num_envs a multiple of it"
            raise PydanticCustomError("devices", text, {"copies": self.environment.num_envs, "devices": self.devices})
        if self.devices > 1:
            for name, policy in self.policies.items():
                if policy.learns and isinstance(policy.hyperparameters, OffPolicyHyperparameters):
                    text = "has devices, and policies.{name} a trainer_type that learns in one process; remove devices"
                    raise PydanticCustomError("devices", text, {"name": name})
        return self


def is_batched(data: Mapping[str, Any]) -> bool:
    """Whether a file's data is for ``tau-train batch``."""
    return "policies" in data and "environment" in data


def load_batched(
    path: Path | str, overrides: Mapping[str, Any] | None = None, flags: Mapping[str, str] | None = None
) -> BatchedSettings:
    """A file for ``tau-train batch``.

    Args:
        path: YAML, or the name of a shipped one.
        overrides: values over the file by dotted key; ``policies.*.gamma`` sets every policy's.
        flags: names under which overrides are told of in messages.

    Raises:
        SettingsError: one sentence for every problem, with file, line and key, and what to do.
    """
    document = read_document(find_config(path))
    data, places = apply_overrides(document.data, overrides or {})
    names = {place: _flag(place, flags or {}) for place in places}
    problems = Problems(document, names)
    for location, line in document.duplicates:
        problems.sentences.append(f"{document.name}:{line}: {key_path(location)} stands twice; remove one of the two")
    if "behaviors" in data and not is_batched(data):
        problems.add(("behaviors",), "is for tau-train learn; a file for batch has `environment:` and `policies:`")
        problems.raise_if_any()
    if isinstance(data.get("policies"), dict):
        read = {name: _policy(problems, ("policies", name), entry) for name, entry in data["policies"].items()}
        if None in read.values():  # what else is wrong is told with it
            data["policies"] = {"-": PPOPolicySettings()}
        else:
            data["policies"] = read
    settings: BatchedSettings | None = None
    try:
        settings = BatchedSettings.model_validate(data)
    except ValidationError as error:
        problems.add_errors(error, BatchedSettings, ())
    problems.raise_if_any()
    assert settings is not None
    return settings


def _flag(place: Location, flags: Mapping[str, str]) -> str:
    dotted = key_path(place)
    return flags.get(dotted) or flags.get(".".join(["policies", "*", *map(str, place[2:])])) or f"override {dotted}"


def _policy(problems: Problems, place: Location, entry: Any) -> PolicySettings | None:
    """One policy's settings; None: it has problems, which are noted."""
    kind = entry.get("trainer_type", "ppo") if isinstance(entry, dict) else "ppo"
    if kind not in _POLICIES:
        text = f"is {kind!r}, which does not learn on tensors; {did_you_mean(str(kind), _POLICIES)}"
        problems.add((*place, "trainer_type"), text)
        return None
    try:
        return _POLICIES[kind].model_validate(entry if entry is not None else {})
    except ValidationError as error:
        problems.add_errors(error, _POLICIES[kind], place)
        return None


def plain_batched(settings: BatchedSettings) -> dict[str, Any]:
    """Every value as JSON has it; validating it gives equal settings."""
    values = settings.model_dump(mode="json")
    for name, policy in settings.policies.items():
        if policy.player is not None:
            values["policies"][name] = {"agents": values["policies"][name]["agents"], "player": policy.player}
    return values


def dump_batched(settings: BatchedSettings) -> str:
    """YAML with every value written out; loading it gives equal settings."""
    text: str = yaml.safe_dump(plain_batched(settings), sort_keys=False, allow_unicode=True)
    return text


def resolve_batched_seed(settings: BatchedSettings) -> BatchedSettings:
    """Settings whose seed is a fixed number of at least 0."""
    return settings.model_copy(update={"seed": fixed_seed(settings.seed, settings.checkpoint_settings)})

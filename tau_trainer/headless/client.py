"""The engine's side of the protocol: a handshake, then one step for every reply, until one side ends the connection."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tau_trainer.bridge.codec import Capabilities, EngineInitialization, TrainerInitialization
from tau_trainer.bridge.engine_codec import MessageReader, TrainerMessage, decode_trainer_message, encode_engine_message
from tau_trainer.bridge.protocol import STATUS_OK, UNITY_WIRE, UNREAL_WIRE, Command, Wire
from tau_trainer.bridge.side_channels import (
    ENGINE_CONFIGURATION,
    ENVIRONMENT_PARAMETERS,
    FLOAT_PROPERTIES,
    STATS,
    TRAINING_ANALYTICS,
    Stat,
    joined,
    parse_environment_parameter,
    stat_payload,
    unpack_payloads,
)
from tau_trainer.errors import DecodeError, VersionError
from tau_trainer.headless.link import TrainerClient, TrainerGoneError
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.report import Report
from tau_trainer.headless.scene import Scene
from tau_trainer.headless.scenes import create_scene
from tau_trainer.specs import Actions, Behaviors, BehaviorSpec, StepBatch

if TYPE_CHECKING:
    from tau_trainer.headless.args import HeadlessOptions

WIRES: Final[Mapping[str, Wire]] = {"unity": UNITY_WIRE, "unreal": UNREAL_WIRE}
"""The messages of each ``--dialect`` over gRPC."""
_log = logging.getLogger(__name__)
_SILENT = frozenset({ENGINE_CONFIGURATION, FLOAT_PROPERTIES, TRAINING_ANALYTICS})
"""Side channels that the engine ignores without a warning: it draws nothing and always runs at full speed."""


class HeadlessEngine:
    """Plays one scene for one trainer."""

    def __init__(self, link: TrainerClient, options: HeadlessOptions) -> None:
        self._link = link
        self._options = options
        self._wire = WIRES.get(options.dialect, UNITY_WIRE)
        self._unity = self._wire is UNITY_WIRE
        """Whether it has side channels, and obeys commands in replies without actions. Unreal's plugin does not."""
        self._fault = options.fault
        self._parameters = EnvironmentParameters()
        self._trainer = MessageReader(self._wire, Capabilities())
        self._unknown: set[uuid.UUID] = set()
        self._announced: set[str] = set()
        """Behaviors already described to the trainer. Each is described once, together with its first agent."""

    def run(self) -> None:
        """Play until the trainer or the user ends it. A trainer that disconnects is a normal end.

        Raises EngineError if no trainer can be reached, and other TauErrors for replies that the engine cannot follow.
        """
        try:
            scene = self._handshake()
            if scene is not None:
                self._play(scene)
        except TrainerGoneError as error:
            _log.info("the trainer has disconnected (%s); this engine ends", error)
        except KeyboardInterrupt:
            self._link.goodbye()
            _log.info("stopped by the user")

    def _handshake(self) -> Scene | None:
        """Make calls 1 and 2. Returns None if the trainer closes the connection here. Raises VersionError."""
        self._fault.before_connect()
        version = self._fault.version(self._wire.version)
        initialization = EngineInitialization(communication_version=version)
        if not self._unity:
            initialization = replace(initialization, package_version=version)
        request = encode_engine_message(initialization=initialization, reader=self._trainer)
        first = self._read(self._link.connect(request, self._options.connect_seconds))
        if self._ended(first):
            return None
        if first.initialization is None:
            raise VersionError(
                "the trainer's first reply has no initialization, so it uses another protocol; check the port."
            )
        _check_version(first.initialization, self._wire.version)
        self._trainer = MessageReader(self._wire, first.initialization.capabilities)
        second = self._read(self._link.exchange(encode_engine_message(reader=self._trainer)))
        if self._ended(second):
            return None
        if not second.has_input:
            raise VersionError("the trainer's second reply has no input, so it uses another protocol; check the port.")
        self._hear(second.side_channel)
        seed, areas = first.initialization.seed, first.initialization.num_areas
        scene = create_scene(self._options, self._parameters, seed=seed, areas=areas)
        _log.info("playing %s with %d agents", self._options.scene, scene.agents)
        return scene

    def _read(self, reply: bytes, specs: Behaviors | None = None) -> TrainerMessage:
        return decode_trainer_message(reply, specs or {}, self._wire)

    def _play(self, scene: Scene) -> None:
        if self._fault.silent():
            self._link.wait_until_gone()
            return
        specs = {spec.name: spec for spec in scene.specs}
        batches = scene.reset(self._parameters)
        report = self._report(scene)
        try:
            while True:
                request = self._request(scene, batches, specs)
                reply = self._read(self._link.exchange(request), specs)
                if self._ended(reply):
                    return
                batches = self._follow(reply, scene, batches, report)
                self._spend(self._parameters)
        finally:
            if report is not None:
                report.close()

    def _report(self, scene: Scene) -> Report | None:
        options = self._options
        if options.report_file is None:
            return None
        episodes, behaviors = options.report_episodes, len(scene.specs)
        return Report(options.report_file, scene.agents, options.report_seconds, behaviors=behaviors, episodes=episodes)

    def _request(self, scene: Scene, batches: list[StepBatch], specs: dict[str, BehaviorSpec]) -> bytes:
        fault, stats = self._fault, scene.stats() if self._unity else []
        if fault.stalled():
            self._link.wait_until_gone()
            raise TrainerGoneError("while stalled")
        batches[0] = fault.spoil(batches[0])
        return fault.garble(self._encode(batches, specs, stats))

    def _encode(self, batches: Sequence[StepBatch], specs: Behaviors, stats: Sequence[Stat]) -> bytes:
        """A step as bytes."""
        known = [batch for batch in batches if batch.behavior in self._announced or len(batch)]
        fresh = [specs[batch.behavior] for batch in known if batch.behavior not in self._announced]
        self._announced.update(spec.name for spec in fresh)
        return encode_engine_message(
            specs=fresh,
            steps=known,
            side_channel=joined((STATS, stat_payload(stat.key, stat.value, stat.aggregation)) for stat in stats),
            observation_specs=specs,
            reader=self._trainer,
        )

    def _follow(
        self, reply: TrainerMessage, scene: Scene, batches: list[StepBatch], report: Report | None
    ) -> list[StepBatch]:
        """Carry out the trainer's reply in Unity's order: side channel, command, actions."""
        parameters = self._parameters
        changed = self._hear(reply.side_channel)
        if reply.command is Command.RESET and (self._unity or reply.actions):
            if "seed" in parameters:
                scene.seed(int(parameters.get("seed", 0.0)))
            if report is not None:
                report.reset()
            return scene.reset(parameters)
        if changed:
            scene.update(parameters)
        asked = [len(batch) for batch in batches]
        actions = {spec.name: _actions(reply, spec, n) for spec, n in zip(scene.specs, asked, strict=True)}
        batches = scene.step(actions)
        if report is not None:
            report.add(asked, batches)
        return batches

    def _hear(self, data: bytes) -> bool:
        """Read a reply's side channel bytes. Returns True if they set an environment parameter. Raises DecodeError."""
        changed = False
        for channel, payload in unpack_payloads(data):
            if channel == ENVIRONMENT_PARAMETERS:
                self._parameters.set(*parse_environment_parameter(payload))
                changed = True
            elif channel not in _SILENT and channel not in self._unknown:
                self._unknown.add(channel)
                _log.warning("ignored messages of the unknown side channel %s", channel)
        return changed

    def _spend(self, parameters: EnvironmentParameters) -> None:
        """Make the step take its configured time: first compute (``spin_ms``), then sleep (``step_ms``).

        A game computes, then waits for the GPU. The environment parameters ``spin_ms`` and ``step_ms`` take precedence
        over the flags, and may be distributions.
        """
        spin = parameters.get("spin_ms", self._options.spin_ms)
        if spin > 0.0:
            end = time.perf_counter() + spin / 1000.0
            while time.perf_counter() < end:
                pass
        sleep = parameters.get("step_ms", self._options.step_ms)
        if sleep > 0.0:
            time.sleep(sleep / 1000.0)

    def _ended(self, reply: TrainerMessage) -> bool:
        if reply.status == STATUS_OK and reply.command is not Command.QUIT:
            return False
        _log.info("the trainer closed the connection (status %d); this engine ends", reply.status)
        return True


def _check_version(trainer: TrainerInitialization, ours: str) -> None:
    """Apply ML-Agents' rule: the major version numbers must be equal. Raises VersionError."""
    theirs = trainer.communication_version
    if theirs.split(".")[0] != ours.split(".")[0]:
        raise VersionError(
            f"the trainer uses communicator API {theirs}, this engine {ours}; use versions with the same first number."
        )


def _actions(reply: TrainerMessage, spec: BehaviorSpec, agents: int) -> Actions:
    """The reply's actions in the order of the agents that asked. If the reply has none, all actions are zero.

    Raises DecodeError for any other number of actions than ``agents``.
    """
    actions = reply.actions.get(spec.name)
    if actions is None or len(actions) == 0:
        return Actions.zeros(spec.actions, agents)
    if len(actions) != agents:
        raise DecodeError(
            f"the trainer sent {len(actions)} actions of behavior `{spec.name}` for the {agents} agents that asked; "
            "it must send one for each agent, in the order in which the engine lists them."
        )
    return actions

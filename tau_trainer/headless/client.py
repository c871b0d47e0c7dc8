"""One engine's life on the wire: handshake, then a step for every reply, until one side says goodbye."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tau_trainer.bridge.codec import (
    EngineInitialization,
    TrainerInitialization,
    TrainerMessage,
    decode_trainer_message,
    encode_engine_message,
)
from tau_trainer.bridge.protocol import COMMUNICATION_VERSION, STATUS_OK, Command
from tau_trainer.errors import DecodeError, VersionError
from tau_trainer.headless.channels import EngineChannels
from tau_trainer.headless.link import TrainerGoneError, TrainerLink
from tau_trainer.headless.pace import Pace
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.report import Report
from tau_trainer.headless.scene import Scene
from tau_trainer.headless.scenes.faulty import Fault
from tau_trainer.specs import Actions, BehaviorSpec, StepBatch

_log = logging.getLogger(__name__)

SceneFactory = Callable[[EnvironmentParameters, TrainerInitialization], Scene]
"""Makes the scene once the trainer's first words and parameters are known: behavior specs may depend on them."""


class HeadlessEngine:
    """Plays one scene for one trainer."""

    def __init__(
        self,
        link: TrainerLink,
        make_scene: SceneFactory,
        *,
        pace: Pace | None = None,
        fault: Fault | None = None,
        open_report: Callable[[int], Report] | None = None,
        connect_seconds: float = 10.0,
    ) -> None:
        self._link = link
        self._make_scene = make_scene
        self._pace = pace or Pace()
        self._fault = fault
        self._open_report = open_report
        self._connect_seconds = connect_seconds
        self._channels = EngineChannels()

    def run(self) -> None:
        """Play until the trainer or the user ends it; a trainer that is gone is a normal end.

        Raises EngineError if no trainer can be reached, other TauErrors for replies that cannot be followed.
        """
        try:
            scene = self._handshake()
            if scene is not None:
                self._play(scene)
        except TrainerGoneError as error:
            _log.info("the trainer is gone (%s); this engine ends", error)
        except KeyboardInterrupt:
            self._link.goodbye()
            _log.info("stopped by the user")

    def _handshake(self) -> Scene | None:
        """Calls 1 and 2; None where the trainer wants no engine after all. Raises VersionError."""
        if self._fault is not None:
            self._fault.before_connect()
        version = self._fault.version() if self._fault is not None else COMMUNICATION_VERSION
        request = encode_engine_message(initialization=EngineInitialization(communication_version=version))
        first = decode_trainer_message(self._link.connect(request, self._connect_seconds), {})
        if self._ended(first):
            return None
        if first.initialization is None:
            raise VersionError("the trainer's first reply holds no initialization, so it speaks another protocol.")
        _check_version(first.initialization)
        second = decode_trainer_message(self._link.exchange(encode_engine_message()), {})
        if self._ended(second):
            return None
        if not second.has_input:
            raise VersionError("the trainer's second reply holds no input, so it speaks another protocol.")
        self._channels.receive(second.side_channel)
        return self._make_scene(self._channels.parameters, first.initialization)

    def _play(self, scene: Scene) -> None:
        if self._fault is not None and self._fault.silent():
            self._link.wait_until_gone()
            return
        specs = {scene.spec.name: scene.spec}
        batch = scene.reset(self._channels.parameters)
        announce: tuple[BehaviorSpec, ...] = (scene.spec,)
        report = self._open_report(scene.agents) if self._open_report is not None else None
        try:
            while True:
                request = self._request(scene, batch, announce, specs)
                announce = ()
                reply = decode_trainer_message(self._link.exchange(request), specs)
                if self._ended(reply):
                    return
                batch = self._follow(reply, scene, batch, report)
                self._pace.spend(self._channels.parameters)
        finally:
            if report is not None:
                report.close()

    def _request(
        self, scene: Scene, batch: StepBatch, announce: tuple[BehaviorSpec, ...], specs: dict[str, BehaviorSpec]
    ) -> bytes:
        fault, stats = self._fault, scene.stats()
        if fault is not None:
            if fault.stalled():
                self._link.wait_until_gone()
                raise TrainerGoneError("while stalled")
            batch = fault.spoil(batch)
        request = encode_engine_message(
            specs=announce,
            steps=(batch,),
            side_channel=self._channels.stats(stats) if stats else b"",
            observation_specs=specs,
        )
        return request if fault is None else fault.garble(request)

    def _follow(self, reply: TrainerMessage, scene: Scene, batch: StepBatch, report: Report | None) -> StepBatch:
        """Do what the trainer asks, in Unity's order: side channel, command, actions."""
        parameters = self._channels.parameters
        changed = bool(reply.side_channel) and self._channels.receive(reply.side_channel)
        if reply.command is Command.RESET:
            if "seed" in parameters:
                scene.seed(int(parameters.get("seed", 0.0)))
            if report is not None:
                report.reset()
            return scene.reset(parameters)
        if changed:
            scene.update(parameters)
        decisions = len(batch)
        batch = scene.step(_actions(reply, scene.spec, decisions))
        if report is not None:
            report.add(decisions, batch)
        return batch

    def _ended(self, reply: TrainerMessage) -> bool:
        if reply.status == STATUS_OK and reply.command is not Command.QUIT:
            return False
        _log.info("the trainer closed the connection (status %d); this engine ends", reply.status)
        return True


def _check_version(trainer: TrainerInitialization) -> None:
    """Same rule as ML-Agents: the major number must be equal."""
    theirs, ours = trainer.communication_version, COMMUNICATION_VERSION
    if theirs.split(".")[0] != ours.split(".")[0]:
        raise VersionError(
            f"the trainer speaks communicator API {theirs}, this engine {ours}; their first numbers must agree."
        )


def _actions(reply: TrainerMessage, spec: BehaviorSpec, agents: int) -> Actions:
    """The reply's actions in the order of the agents that asked; no list at all means zero actions.

    Raises DecodeError for too few or too many.
    """
    actions = reply.actions.get(spec.name)
    if actions is None or len(actions) == 0:
        return Actions.zeros(spec.actions, agents)
    if len(actions) != agents:
        raise DecodeError(
            f"the trainer sent {len(actions)} actions of behavior `{spec.name}` for the {agents} agents that asked; "
            "send one for each, in the order they were listed."
        )
    return actions

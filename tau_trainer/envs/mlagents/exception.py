"""Exceptions under mlagents-envs' names. Each is an EngineError too, so ``except TauError`` catches them all."""

from __future__ import annotations

from tau_trainer.errors import EngineError


class UnityException(EngineError):  # noqa: N818 (their names)
    """Any error of an environment."""


class UnityEnvironmentException(UnityException):
    """It cannot be started or closed, or its process ended."""


class UnityCommunicationException(UnityException):
    """The connection broke, or a side channel received an unexpected message."""


class UnityCommunicatorStoppedException(UnityException):
    """The engine closed the connection: Stop in the editor, or a build that quit."""


class UnityObservationException(UnityException, RuntimeError):  # noqa: N818 (a bare RuntimeError there, for NaN)
    """Its observations cannot be read, changed their shape, or are not finite."""


class UnityActionException(UnityException):
    """Actions of an unknown behavior, of another shape, or out of range."""


class UnityTimeOutException(UnityException):
    """It did not answer within ``timeout_wait`` seconds."""


class UnitySideChannelException(UnityException):
    """A side channel cannot send the given values."""


class UnityWorkerInUseException(UnityException):
    """The port of a worker is taken."""

    def __init__(self, worker_id: int | str) -> None:
        super().__init__(
            f"the port of worker {worker_id} is taken by another program; close the environment that has it, or use "
            "another worker_id or base_port"
        )


class UnityPolicyException(UnityException):
    """For trainers on top of this API; nothing here raises it."""

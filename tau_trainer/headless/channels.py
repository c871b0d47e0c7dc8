"""The engine's end of the side channels: takes settings and parameters in, sends statistics out."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable

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
from tau_trainer.headless.parameters import EnvironmentParameters

_log = logging.getLogger(__name__)
_SILENT = frozenset({ENGINE_CONFIGURATION, FLOAT_PROPERTIES, TRAINING_ANALYTICS})
"""Channels that a trainer may use and that mean nothing to an engine without pictures, always at full speed."""


class EngineChannels:
    """What the trainer has told this engine outside of actions."""

    def __init__(self) -> None:
        self.parameters = EnvironmentParameters()
        self._unknown: set[uuid.UUID] = set()

    def receive(self, data: bytes) -> bool:
        """Take in one reply's side channel bytes; say whether an environment parameter came.

        Raises DecodeError for bytes that are not the protocol.
        """
        changed = False
        for channel, payload in unpack_payloads(data):
            if channel == ENVIRONMENT_PARAMETERS:
                self.parameters.set(*parse_environment_parameter(payload))
                changed = True
            elif channel not in _SILENT and channel not in self._unknown:
                self._unknown.add(channel)
                _log.warning("messages of the unknown side channel %s are ignored", channel)
        return changed

    def stats(self, stats: Iterable[Stat]) -> bytes:
        """Side channel bytes of these statistics."""
        return joined((STATS, stat_payload(stat.key, stat.value, stat.aggregation)) for stat in stats)

"""A cluster's address, and the environment variables that Ray needs before it is imported."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

from tau_trainer.errors import ClusterError
from tau_trainer.settings import ClusterSettings
from tau_trainer.settings.tasks import VARIABLE

_REACH_S = 5.0
_TOKEN = secrets.token_hex(32)
"""Token of private clusters: anyone who has it could run programs there."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",  # a late call must not start another cluster
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # paths in settings are relative to the command's folder
    "RAY_AIR_NEW_OUTPUT": "0",  # else Tune writes to the terminal even if set to be silent
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # a trial's run has its own loggers
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
}
_PRIVATE = _QUIET | {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": _TOKEN,
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # listen only on loopback
    "RAY_worker_niceness": "0",
    "RAY_memory_monitor_refresh_ms": "0",  # other programs may need the memory of this machine
    "RAY_health_check_initial_delay_ms": "1000",  # notice a dead node after some seconds instead of 15
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "3",
}


def address_of(settings: ClusterSettings) -> str:
    """The address for Ray. Raises ClusterError if the variable is not set, or the address does not answer."""
    if settings.private:
        return "local"
    address = settings.address
    if address == VARIABLE:
        address = os.environ.get(VARIABLE, "")
        host, _, port = address.rpartition(":")
        if not (host and port.isdecimal()) or "/" in host:
            said = f"is '{address}'" if address else "is not set"
            raise ClusterError(f"--cluster {VARIABLE}: this variable {said}; set it to HOST:PORT of a Ray cluster")
    if not answers(address, _REACH_S):
        raise ClusterError(
            f"--cluster {address}: no answer; give HOST:PORT as printed by `ray start --head`, or local for "
            "a private cluster on this machine"
        )
    return address


def answers(address: str, limit_s: float) -> bool:
    """Whether a server listens at the address."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), limit_s).close()
    except (OSError, OverflowError, UnicodeError):
        return False
    return True


def environment_of(settings: ClusterSettings) -> dict[str, str]:
    """Environment variables for Ray. Raises ClusterError for a running cluster without token and ``insecure``."""
    if settings.private:
        return _PRIVATE
    if _has_token():
        return _QUIET | {"RAY_AUTH_MODE": "token"}
    if not settings.insecure:
        raise ClusterError(
            f"--cluster {settings.address}: without a token, anyone who reaches that cluster can run programs on it; "
            "start its nodes with RAY_AUTH_MODE=token (`ray get-auth-token --generate` makes a token) and set "
            "RAY_AUTH_TOKEN here, or add --insecure if no one else can reach it"
        )
    return _QUIET | {"RAY_AUTH_MODE": "disabled"}


def _has_token() -> bool:
    """Whether Ray has a token in one of its three places."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return True
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    return path.is_file()

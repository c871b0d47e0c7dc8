"""Finds free ports on loopback and checks a server's address."""

from __future__ import annotations

import errno
import socket
import sys

from tau_trainer.bridge.protocol import BASE_PORT
from tau_trainer.errors import PortInUseError

_HIGHEST = 65535
_SEARCH = 2000
_ANOTHER = "choose another --base-port, or omit the flag to use free ports"


def is_free(port: int) -> bool:
    """Whether nothing listens on ``port`` on either loopback address."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                if sys.platform != "win32":  # on Windows the option would allow sharing a port in use
                    # Without it a port whose last connection lingers would count as taken.
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
        except OSError:
            if family == socket.AF_INET6 and not has_ipv6():
                continue
            return False
    return True


def has_ipv6() -> bool:
    """Whether this machine has an IPv6 loopback."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def check_address(address: str, port: int = 0, flag: str = "--listen", another: str = _ANOTHER) -> None:
    """Raises PortInUseError if no server can listen on ``port`` of ``address``; 0: on any port.

    ``flag``: the address's flag, for messages; ``another``: what to do if another program has the port.
    """
    try:
        family, kind, _, _, place = socket.getaddrinfo(address.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            if sys.platform != "win32":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise port_taken(port, another) from None
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise PortInUseError(f"cannot listen on {address}: {reason}; give {flag} an address of this machine") from error


def port_taken(port: int, another: str = _ANOTHER) -> PortInUseError:
    """The error for a ``port`` in use by another program (0: chosen by the system); ``another``: what to do."""
    return PortInUseError(f"port {port or '(any)'} is taken by another program; {another}")


def engine_ports(count: int, base_port: int | None = None) -> list[int]:
    """Ports for ``count`` engines.

    With ``base_port``, exactly ``base_port + i``, as in ML-Agents; raises PortInUseError if one is taken or out of
    range. Without it, the first free ports from 5005 up.
    """
    if base_port is not None:
        ports = list(range(base_port, base_port + count))
        for port in ports:
            if not 0 < port <= _HIGHEST:
                raise PortInUseError(
                    f"port {port} does not exist; choose --base-port between 1 and {_HIGHEST + 1 - count}"
                )
            if not is_free(port):
                raise port_taken(port)
        return ports
    ports = []
    for port in range(BASE_PORT, BASE_PORT + _SEARCH):
        if is_free(port):
            ports.append(port)
            if len(ports) == count:
                return ports
    raise PortInUseError(f"fewer than {count} free ports between {BASE_PORT} and {BASE_PORT + _SEARCH}; end other runs")

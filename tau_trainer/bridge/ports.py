"""Finds free ports on loopback and checks a server's address."""

from __future__ import annotations

import contextlib
import csv
import errno
import platform
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tau_trainer.bridge.protocol import BASE_PORT
from tau_trainer.errors import PortInUseError

_HIGHEST = 65535
_SEARCH = 2000
_LOOK_S = 10.0
_LISTENING = "0A"
"""State of a socket in Linux's tables."""
_ANOTHER = "choose another --base-port, or omit the flag to use free ports"


def is_free(port: int) -> bool:
    """Whether nothing listens on ``port`` on either loopback address."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            _bind(family, (host, port))
        except OSError:
            if family == socket.AF_INET6 and not has_ipv6():
                continue
            return False
    return True


def has_ipv6() -> bool:
    """Whether this machine has an IPv6 loopback."""
    try:
        _bind(socket.AF_INET6, ("::1", 0))
    except OSError:
        return False
    return True


def _bind(family: int, place: Any) -> None:
    """Raises OSError if no server can listen at ``place``."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":  # on Windows the option would allow sharing a port in use
            # Without it a port whose last connection lingers would count as taken.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(place)


def check_address(address: str, port: int = 0, flag: str = "--listen", another: str = _ANOTHER) -> None:
    """Raises PortInUseError if no server can listen on ``port`` of ``address``; 0: on any port.

    ``flag``: the address's flag, for messages; ``another``: what to do if another program has the port.
    """
    try:
        family, *_, place = socket.getaddrinfo(address.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        _bind(family, place)
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


def holder(port: int) -> str | None:
    """Who listens on ``port``: ``python, process 123``; None if no program does, or if the system does not tell."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, IndexError):
        if platform.system() == "Linux":
            return _of_proc(port, Path("/proc"))
        if platform.system() == "Windows":
            number = of_netstat(_output("netstat", "-ano"), port)
            listed = [] if number is None else _output("tasklist", "/FI", f"PID eq {number}", "/FO", "CSV", "/NH")
            return None if number is None else f"{next(csv.reader(listed))[0]}, process {number}"
        return of_lsof(_output("lsof", "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"))
    return None


def of_netstat(lines: list[str], port: int) -> int | None:
    """The process that listens on ``port`` according to ``netstat -ano``, whatever its language."""
    rows = [row for row in map(str.split, lines) if len(row) >= 4 and row[0].upper() == "TCP"]
    found = (row for row in rows if row[1].endswith(f":{port}") and row[2].endswith(":0"))
    return next((int(row[-1]) for row in found), None)


def of_lsof(lines: list[str]) -> str | None:
    """The first process in the output of ``lsof -Fpc``: a line for its number, and one for its name."""
    fields = {line[:1]: line[1:] for line in reversed(lines)}
    return f"{fields['c']}, process {fields['p']}" if {"c", "p"} <= fields.keys() else None


def _output(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, timeout=_LOOK_S, stdin=subprocess.DEVNULL, check=False)
    return done.stdout.decode("utf-8", "replace").splitlines()


def _of_proc(port: int, proc: Path) -> str | None:
    """The same from Linux's tables: the socket of the port, then the process that has it open."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        for row in map(str.split, (proc / "net" / table).read_text().splitlines()[1:]):
            if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port:
                sockets.add(f"socket:[{row[9]}]")
    for link in proc.glob("[0-9]*/fd/*") if sockets else ():
        with contextlib.suppress(OSError):  # other users' processes, and those that end meanwhile
            if str(link.readlink()) in sockets:
                folder = link.parents[1]
                return f"{(folder / 'comm').read_text().strip()}, process {folder.name}"
    return None

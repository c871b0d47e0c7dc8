"""Finding free ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tau_trainer.bridge import ports
from tau_trainer.bridge.ports import engine_ports, has_ipv6, is_free
from tau_trainer.errors import PortInUseError


@pytest.fixture(params=["127.0.0.1", pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6"))])
def taken(request: pytest.FixtureRequest) -> Iterator[int]:
    """A port that another program listens on, on one of the loopback addresses."""
    with socket.create_server(
        (request.param, 0), family=socket.AF_INET6 if ":" in request.param else socket.AF_INET
    ) as s:
        yield s.getsockname()[1]


def free_run(count: int) -> int:
    """The first of ``count`` free ports in a row."""
    for first in range(20_000, 60_000, 97):
        if all(is_free(first + i) for i in range(count)):
            return first
    raise AssertionError("no free ports")


def test_a_port_whose_last_connection_lingers_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = server.accept()
            accepted.close()  # this end closes first, so this end lingers
    assert is_free(port)


def test_a_base_port_numbers_the_engines() -> None:
    first = free_run(3)
    assert engine_ports(3, first) == [first, first + 1, first + 2]


def test_a_taken_base_port_is_told(taken: int) -> None:
    with pytest.raises(PortInUseError, match=f"port {taken} is taken by another program; choose another --base-port"):
        engine_ports(1, taken)


@pytest.mark.parametrize(("base", "count", "wrong", "highest"), [(0, 1, 0, 65535), (65535, 3, 65536, 65533)])
def test_ports_that_do_not_exist(
    base: int, count: int, wrong: int, highest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "is_free", lambda port: True)
    with pytest.raises(PortInUseError, match=f"port {wrong} does not exist; .* between 1 and {highest}"):
        engine_ports(count, base)
    assert engine_ports(count, highest)[-1] == 65535


def test_without_a_base_port_taken_ones_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda port: port not in (5005, 5007))
    assert engine_ports(3) == [5006, 5008, 5009]


def test_too_few_free_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda port: port == 5005)
    with pytest.raises(PortInUseError, match="fewer than 2 free ports"):
        engine_ports(2)


def test_a_machine_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    original = socket.socket

    class Refusing(original):  # type: ignore[valid-type,misc]
        def bind(self, address: tuple[str, int]) -> None:
            if self.family == socket.AF_INET6:
                raise OSError("no such address")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", Refusing)
    assert not has_ipv6()
    with original() as probe:
        probe.bind(("127.0.0.1", 0))
        assert not is_free(probe.getsockname()[1])
        port = probe.getsockname()[1]
    assert is_free(port)


def test_programs_that_list_sockets_are_read() -> None:
    said = """
      Proto  Lokale Adresse         Remoteadresse          Status           PID
      TCP    0.0.0.0:15004          0.0.0.0:0              ABHÖREN          3
      TCP    127.0.0.1:5004         127.0.0.1:9999         HERGESTELLT      4
      TCP    [::1]:5004             [::]:0                 ABHÖREN          1234
      UDP    0.0.0.0:5004           *:*                                     5
    """.splitlines()
    assert ports.of_netstat(said, 5004) == 1234
    assert ports.of_netstat(said, 5005) is None
    assert ports.of_lsof(["p77", "cPython Launcher", "f5"]) == "Python Launcher, process 77"
    assert ports.of_lsof([]) is None

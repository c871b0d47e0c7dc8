from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch

from tau_trainer.algorithms import ranks as networks
from tau_trainer.algorithms.ranks import LOOPBACK, Ranks, device_of, interface_of, listen_on
from tau_trainer.errors import LearnerError, SettingsError
from tau_trainer.training.batched import ranks as module
from tau_trainer.training.batched.ranks import gathered
from tau_trainer.training.learning.group import Ranked
from tests.trainers import processes
from tests.training.ranks_at_work import add
from tests.waiting import until

CPU = torch.device("cpu")


def gather(
    tmp_path: Path, work: str, count: int, lost: Any = None, host: str = LOOPBACK, **asked: Any
) -> AbstractContextManager[Ranks]:
    others = Ranked(count, "cpu", tmp_path, host=host)
    return gathered(f"tests.training.ranks_at_work:{work}", asked, others, lost or pytest.fail)


def test_ranks_add_up_on_loopback_and_end_with_rank_0_whose_own_error_is_told_as_it_is(tmp_path: Path) -> None:
    children: list[int] = []

    def work() -> None:
        with gather(tmp_path, "add", 3, times=5) as ranks:
            assert (ranks.rank, ranks.count, ranks.first) == (0, 3, True)
            children.extend(processes("ranks"))
            assert len(children) == 2
            assert add(ranks, CPU, {"times": 5}) == [6.0] * 5
            assert not [line for pid in (os.getpid(), *children) for line in listening(pid) if not loopback(line)]
            raise SettingsError("mine")

    with pytest.raises(SettingsError, match=r"^mine$"):
        work()
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("how", "text"), [("killed", "by SIGKILL"), ("raises", "with exit code 1; see .*: ValueError: it went wrong")]
)
def test_a_rank_that_dies_ends_the_run(tmp_path: Path, how: str, text: str) -> None:
    def work() -> None:
        with gather(tmp_path, "die", 2, how=how) as ranks:
            ranks.add(torch.ones(1))

    with pytest.raises(LearnerError, match=rf"^rank 1 of 2 ended {text}.*with --resume$"):
        work()


def test_where_rank_0_cannot_be_woken_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.3)
    told: list[str] = []

    def work() -> None:
        with gather(tmp_path, "die", 2, told.append, how="silent"):
            [child] = processes("ranks")
            os.kill(child, signal.SIGSTOP)
            time.sleep(0.5)
            assert told == [], "it is only slow"
            os.kill(child, signal.SIGKILL)
            until(lambda: told)
            raise RuntimeError("as gloo does")

    with pytest.raises(LearnerError):
        work()
    assert told[0].startswith("rank 1 of 2 ended by SIGKILL")


def test_alone_nothing_is_started(tmp_path: Path) -> None:
    with gather(tmp_path, "die", 1, how="killed") as ranks:
        assert ranks.alone
        assert processes("ranks") == []
        assert ranks.add(torch.ones(2)).tolist() == [1.0, 1.0]
        assert ranks.agree(7) == 7


def test_shares_are_even_or_refused() -> None:
    assert [Ranks(rank, 3).share(12) for rank in range(3)] == [slice(0, 4), slice(4, 8), slice(8, 12)]
    with pytest.raises(
        SettingsError, match=r"num_envs 10 cannot be divided evenly among 4 devices; make it a multiple of 4"
    ):
        Ranks(0, 4).share(10)


def test_each_rank_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_of(1, 2, torch.device("cuda")) == torch.device("cuda", 1)
    assert device_of(1, 2, CPU) == CPU
    with pytest.raises(SettingsError, match="--devices 3: this machine has 2 GPUs"):
        device_of(0, 3, torch.device("cuda"))


def listening(pid: int) -> list[str]:
    """Local addresses, as /proc has them, on which a process listens."""
    links = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()]
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()]
    return [row[1] for row in rows[1:] if row[3] == "0A" and row[9] in inodes]


def _plain(address: str) -> str:
    """Of an IPv4 address, mapped into IPv6 or not."""
    return socket.inet_ntoa(bytes.fromhex(address.partition(":")[0][-8:])[::-1])


def loopback(address: str) -> bool:
    return _plain(address) == LOOPBACK


VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


@pytest.fixture
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process, on a machine whose own name stands for a loopback address, as Debian's does."""
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    monkeypatch.setattr(networks, "_chosen", {})
    monkeypatch.setattr(socket, "gethostbyname", lambda name: name if name[0].isdigit() else "127.0.1.1")
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.1.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **options: found)


@pytest.fixture
def outside() -> str:
    """An address of this machine that others reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine is on no network")
        address: str = asked.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine is on no network")
    return address


named = pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="elsewhere interfaces are not known by name")


@named
@pytest.mark.usefixtures("nothing_chosen")
def test_ranks_use_the_network_of_their_address_whatever_the_machines_name_stands_for(outside: str) -> None:
    loopback = "lo" if sys.platform == "linux" else "lo0"
    assert (interface_of("127.0.0.1"), interface_of("::1")) == (loopback, loopback)
    listen_on("192.0.2.77")
    assert not set(VARIABLES) & os.environ.keys(), "no address of this machine"
    for address, name in (("127.0.0.1", loopback), (outside, interface_of(outside))):
        assert name
        listen_on(address)  # the next run of this process may be elsewhere
        assert [os.environ[variable] for variable in VARIABLES] == [name, f"={name}"]
    assert interface_of(outside) != loopback
    os.environ[VARIABLES[0]] = "mine"
    listen_on("127.0.0.1")
    assert [os.environ[variable] for variable in VARIABLES] == ["mine", f"={loopback}"], "a user says which"


@named
@pytest.mark.usefixtures("nothing_chosen")
def test_ranks_of_several_machines_listen_where_the_others_reach_them_and_nowhere_else(
    tmp_path: Path, outside: str
) -> None:
    before = set(listening(os.getpid()))
    with gather(tmp_path, "add", 2, host=outside, times=2) as ranks:
        assert add(ranks, CPU, {"times": 2}) == [3.0] * 2
        found = {line for pid in (os.getpid(), *processes("ranks")) for line in listening(pid)} - before
        assert found
        assert {_plain(line) for line in found} == {outside}


@pytest.mark.usefixtures("nothing_chosen")
def test_ranks_that_cannot_reach_each_other_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Gloo connectFullMesh failed with timed out\nmore")

    monkeypatch.setattr(Ranks, "joined", fail)
    monkeypatch.setattr(module, "_PATIENCE_S", 0.1)
    sentence = (
        r"^the 2 ranks cannot reach each other; .* 127.0.0.1 .*timed out\); let these .* GLOO_SOCKET_IFNAME on each$"
    )
    with pytest.raises(LearnerError, match=sentence), gather(tmp_path, "add", 2, times=1):
        pass

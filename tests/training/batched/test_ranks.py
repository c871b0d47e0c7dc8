from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tau_trainer.algorithms.ranks import Ranks, device_of, local_only
from tau_trainer.errors import LearnerError, SettingsError
from tau_trainer.training.batched import ranks as module
from tau_trainer.training.batched.ranks import Others, gathered
from tests.trainers import processes
from tests.training.ranks_at_work import add
from tests.waiting import until

CPU = torch.device("cpu")


def gather(tmp_path: Path, work: str, count: int, lost: Any = None, **asked: Any) -> Any:
    return gathered(f"tests.training.ranks_at_work:{work}", asked, Others(count, tmp_path), CPU, lost or pytest.fail)


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
    with pytest.raises(SettingsError, match=r"num_envs 10 cannot be shared out to 4 devices; make it a multiple of 4"):
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


def loopback(address: str) -> bool:
    return socket.inet_ntoa(bytes.fromhex(address.partition(":")[0])[::-1]) == "127.0.0.1"


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="elsewhere the loopback has no such name")
@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.7"])
def test_only_ranks_of_this_machine_listen_on_loopback_alone(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    local_only(host)
    assert ("GLOO_SOCKET_IFNAME" in os.environ) == (host == "127.0.0.1")

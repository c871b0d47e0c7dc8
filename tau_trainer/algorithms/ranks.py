"""Processes that train one policy together (data parallel): their sums, and the share of each.

Every rank has the same weights, and a share of the copies of a batched environment, or of the rows of each minibatch.
All ranks make common random draws alike, from generators in the same state, and each takes its own part; means over
everything are sums over all ranks. So the ranks are one learner of all experience, up to the order in which numbers are
added.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from tau_trainer.errors import SettingsError

LOOPBACK = "127.0.0.1"
_PATIENCE = timedelta(minutes=30)
"""Time limit for a silent rank. If a rank ends, the process that started it notices at once."""
_START = timedelta(seconds=120)
_VARIABLES = {"GLOO_SOCKET_IFNAME": "{}", "NCCL_SOCKET_IFNAME": "={}"}
"""Variables in which gloo and NCCL read their network, with the format of its name; ``=``: match the whole name."""
_chosen: dict[str, str] = {}
"""The values that :func:`listen_on` has set."""


class Ranks:
    """This process among those that train together; alone, unless it was :meth:`joined`.

    Attributes:
        rank: its number; 0 writes files and messages.
        count: number of ranks.
        alone: whether there are no other ranks.
        death: returns which rank has died and how, if one has; a sum has then failed, or never ends.
        broken: whether a sum has failed.
    """

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count = rank, count
        self.alone, self.broken = count == 1, False
        self.death: Callable[[], str | None] = lambda: None
        self._control: dist.ProcessGroup | None = None

    @classmethod
    def joined(cls, rank: int, count: int, store: TCPStore, device: torch.device, address: str) -> Ranks:
        """Meet the other ranks, which call the same: by NCCL on GPUs, otherwise by gloo. Blocks until all have joined.

        ``address``: this machine's, from the others' point of view.
        """
        listen_on(address)
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=_PATIENCE)
        ranks = cls(rank, count)
        if backend != "gloo":  # queries of the loop must not wait for the device
            ranks._control = dist.new_group(backend="gloo", timeout=_PATIENCE)
        return ranks

    @staticmethod
    def leave() -> None:
        """Leave the group of ranks."""
        if dist.is_initialized():
            dist.destroy_process_group()

    @property
    def first(self) -> bool:
        """Whether it is the rank that writes files and messages."""
        return self.rank == 0

    def share(self, copies: int) -> slice:
        """Its share of ``copies``. Raises SettingsError if they cannot be divided evenly."""
        each, rest = divmod(copies, self.count)
        if rest:
            raise SettingsError(
                f"environment.num_envs {copies} cannot be divided evenly among {self.count} devices; make it a "
                f"multiple of {self.count}"
            )
        return slice(self.rank * each, (self.rank + 1) * each)

    def part(self, rows: int) -> slice:
        """Its share of ``rows``, as even as possible."""
        return slice(rows * self.rank // self.count, rows * (self.rank + 1) // self.count)

    def add(self, values: torch.Tensor) -> torch.Tensor:
        """Sum of ``values`` over all ranks, in place; the same numbers on every rank."""
        return self._reduced(values, dist.ReduceOp.SUM)

    def lowest(self, values: torch.Tensor) -> torch.Tensor:
        """The lowest of each number over all ranks, in place; the same numbers on every rank."""
        return self._reduced(values, dist.ReduceOp.MIN)

    def _reduced(self, values: torch.Tensor, how: Any) -> torch.Tensor:
        if not self.alone:
            try:
                dist.all_reduce(values, how)
            except RuntimeError:
                self.broken = True
                raise
        return values

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """The mean of all ranks' ``values``, in place; the same numbers on every rank."""
        return values if self.alone else self.add(values).div_(self.count)

    def agree(self, number: int) -> int:
        """The number of rank 0. On the CPU: the device is not waited for."""
        return number if self.alone else int(self.copied(torch.tensor([number])))

    def copied(self, values: torch.Tensor) -> torch.Tensor:
        """Copy rank 0's numbers into ``values``, which are on the CPU, in place."""
        if not self.alone:
            dist.broadcast(values, 0, group=self._control)
        return values


def meeting_place(host: str, count: int) -> TCPStore:
    """A meeting place for ``count`` ranks, at a free port of ``host`` only."""
    listening = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    port = listening.getsockname()[1]
    return TCPStore(
        host,
        port,
        count,
        is_master=True,
        timeout=_START,
        wait_for_workers=False,
        master_listen_fd=listening.detach(),
    )


def found_at(host: str, port: int, count: int) -> TCPStore:
    """The meeting place that another process has opened at this address."""
    return TCPStore(host, port, count, is_master=False, timeout=_START)


def listen_on(address: str) -> None:
    """Let gloo and NCCL use the network of ``address``, an address of this machine, unless the user has set one.

    By default gloo uses the address of the machine's own host name. On many machines that is a loopback address, which
    no other machine reaches; on loopback alone, the name may resolve to an address that others reach.
    """
    name = interface_of(address)
    for variable, form in _VARIABLES.items():
        if name is not None and os.environ.get(variable) == _chosen.get(variable):
            os.environ[variable] = _chosen[variable] = form.format(name)


class _Interface(ctypes.Structure):
    """The first fields of C's ``struct ifaddrs``."""


_Interface._fields_ = [
    ("next", ctypes.POINTER(_Interface)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
]


def interface_of(address: str) -> str | None:
    """The name of this machine's network interface with ``address``.

    None: there is none, or the system does not tell.
    """
    if sys.platform == "win32":
        return None
    family, start = (socket.AF_INET6, 8) if ":" in address else (socket.AF_INET, 4)  # in a struct sockaddr
    try:
        wanted = socket.inet_pton(family, address if ":" in address else socket.gethostbyname(address))
    except OSError:
        return None
    system, first = ctypes.CDLL(None), ctypes.POINTER(_Interface)()
    if system.getifaddrs(ctypes.byref(first)) != 0:
        return None
    try:
        here = first
        while here:
            found = here.contents
            head = ctypes.string_at(found.address, 2) if found.address else b"\0\0"
            kind = head[1] if sys.platform == "darwin" else int.from_bytes(head, sys.byteorder)
            if kind == family and ctypes.string_at(found.address + start, len(wanted)) == wanted:
                return os.fsdecode(found.name)
            here = found.next
        return None
    finally:
        system.freeifaddrs(first)


def device_of(rank: int, count: int, device: torch.device) -> torch.device:
    """The device of a rank on this machine. Raises SettingsError if there are not enough GPUs."""
    if device.type != "cuda" or count == 1:
        return device
    have = torch.cuda.device_count()
    if have < count:
        raise SettingsError(f"--devices {count}: this machine has {have} GPUs; use at most {have}, or --device cpu")
    return torch.device("cuda", rank)

"""Processes that train one policy together (data parallel): what they add up, and which share is whose.

Every rank has the same weights, and a share of the copies of a batched environment, or of the rows of each minibatch.
Whatever is drawn for all is drawn alike by all, from generators that stand alike, and each takes its own; whatever is a
mean over all is added up over all ranks. So the ranks are one learner of everything, to the order in which numbers are
added.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from tau_trainer.errors import SettingsError

LOOPBACK = "127.0.0.1"
_PATIENCE = timedelta(minutes=30)
"""For a rank that says nothing. One that ends is noticed at once, by whoever started it."""
_START = timedelta(seconds=120)
_VARIABLES = {"GLOO_SOCKET_IFNAME": "{}", "NCCL_SOCKET_IFNAME": "={}"}
"""Where gloo and NCCL read which network they use, and how its name is written; ``=``: no other that begins so."""
_chosen: dict[str, str] = {}
"""What :func:`listen_on` has set of these."""


class Ranks:
    """This process among those that train together; alone, unless it was :meth:`joined`.

    Attributes:
        rank: its number; 0 writes and talks.
        count: of all.
        death: says which rank has died and how, where one has; a sum then has failed, or never ends.
        broken: whether a sum has failed.
    """

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count, self.broken = rank, count, False
        self.death: Callable[[], str | None] = lambda: None
        self._control: dist.ProcessGroup | None = None

    @classmethod
    def joined(cls, rank: int, count: int, store: TCPStore, device: torch.device, address: str) -> Ranks:
        """Meet the others, who do the same: by NCCL on GPUs, else by gloo. Blocks until all are there.

        ``address``: this machine's, as the others reach it.
        """
        listen_on(address)
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=_PATIENCE)
        ranks = cls(rank, count)
        if backend != "gloo":  # what the loop asks must not wait for the device
            ranks._control = dist.new_group(backend="gloo", timeout=_PATIENCE)
        return ranks

    @staticmethod
    def leave() -> None:
        """No longer be among them."""
        if dist.is_initialized():
            dist.destroy_process_group()

    @property
    def alone(self) -> bool:
        """Whether there is nobody else."""
        return self.count == 1

    @property
    def first(self) -> bool:
        """Whether it is the one that writes."""
        return self.rank == 0

    def share(self, copies: int) -> slice:
        """Which of so many copies are its own. Raises SettingsError: they cannot be shared out evenly."""
        each, rest = divmod(copies, self.count)
        if rest:
            raise SettingsError(
                f"environment.num_envs {copies} cannot be shared out to {self.count} devices; make it a multiple of "
                f"{self.count}"
            )
        return slice(self.rank * each, (self.rank + 1) * each)

    def part(self, rows: int) -> slice:
        """Which of so many rows are its own: as evenly as can be."""
        return slice(rows * self.rank // self.count, rows * (self.rank + 1) // self.count)

    def add(self, values: torch.Tensor) -> torch.Tensor:
        """``values`` of all ranks added up, in place; the same numbers on every rank."""
        if not self.alone:
            try:
                dist.all_reduce(values)
            except RuntimeError:
                self.broken = True
                raise
        return values

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """The mean of all ranks' ``values``, in place; the same numbers on every rank."""
        return values if self.alone else self.add(values).div_(self.count)

    def agree(self, number: int) -> int:
        """What rank 0 says. On the CPU: the device is not waited for."""
        return number if self.alone else int(self.copied(torch.tensor([number])))

    def copied(self, values: torch.Tensor) -> torch.Tensor:
        """Rank 0's numbers over those of ``values``, which are on the CPU, in place."""
        if not self.alone:
            dist.broadcast(values, 0, group=self._control)
        return values


def meeting_place(host: str, count: int) -> TCPStore:
    """Where so many ranks meet, at a free port of ``host`` and nowhere else."""
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
    """The meeting place that another process has opened there."""
    return TCPStore(host, port, count, is_master=False, timeout=_START)


def listen_on(address: str) -> None:
    """Let gloo and NCCL use the network of ``address``, which this machine has, unless a user says which.

    By itself gloo uses the address that the machine's own name stands for. On many machines that is a loopback one,
    which no other machine reaches; on loopback alone, that name may stand for an address that others reach.
    """
    name = interface_of(address)
    for variable, form in _VARIABLES.items():
        if name is not None and os.environ.get(variable) == _chosen.get(variable):
            os.environ[variable] = _chosen[variable] = form.format(name)


class _Interface(ctypes.Structure):
    """The beginning of C's ``struct ifaddrs``."""


_Interface._fields_ = [
    ("next", ctypes.POINTER(_Interface)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
]


def interface_of(address: str) -> str | None:
    """The name of this machine's network interface that has ``address``; None: none has, or the system does not say."""
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
    """Where a rank computes on this machine. Raises SettingsError: there are not enough GPUs."""
    if device.type != "cuda" or count == 1:
        return device
    have = torch.cuda.device_count()
    if have < count:
        raise SettingsError(f"--devices {count}: this machine has {have} GPUs; give at most so many, or --device cpu")
    return torch.device("cuda", rank)

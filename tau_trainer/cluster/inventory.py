"""The file of ``tau-train cluster``: machines that are reached by ssh, and the Ray cluster that they shall be."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from tau_trainer.settings.document import read_document
from tau_trainer.settings.kinds import Bool, NaturalFloat, NaturalInt, PositiveInt, Section, Text
from tau_trainer.settings.problems import Problems


def _plain(pattern: str, what: str) -> BeforeValidator:
    """A text that is neither an option of ssh nor anything to a shell."""

    def check(value: Any) -> Any:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise PydanticCustomError("plain", "must be {what}", {"what": what})
        return value

    return BeforeValidator(check)


HostName = Annotated[str, _plain(r"[A-Za-z0-9:][\w.:-]*", "a host's name or address")]
ClusterName = Annotated[str, _plain(r"[a-z][a-z0-9-]{0,19}", "up to 20 small letters, digits and hyphens")]
UserName = Annotated[str, _plain(r"[A-Za-z_][\w.-]*", "a user's name")]
PortNumber = Annotated[PositiveInt, Field(lt=65536)]


class Machine(Section):
    """One of them; a text stands for its ``host``."""

    host: HostName
    """As ssh reaches it."""
    address: HostName | None = None
    """As the other machines reach it; null: by ``host``."""
    cpu: NaturalInt | None = None
    """Cores for actors; null: all, and none on a head that has workers."""
    resources: dict[Text, NaturalFloat] = Field(default_factory=dict)
    """Others that it has, by name, as ``cluster.resources`` asks for them."""


_Machine = Annotated[Machine, BeforeValidator(lambda value: {"host": value} if isinstance(value, str) else value)]


class SSHSettings(Section):
    """How machines are reached; what is not said here is ssh's own affair."""

    user: UserName | None = None
    port: PortNumber | None = None
    identity: Text | None = None
    """File of a private key. It stays on this machine."""
    config: Text | None = None
    """A file as ``~/.ssh/config``, in its place."""


class MachinesSettings(Section):
    """Everything in that file."""

    name: ClusterName
    head: _Machine
    workers: list[_Machine] = Field(default_factory=list)
    port: PortNumber = 6379
    """Of the head, where everybody joins."""
    bin: Text | None = None
    """Folder of ``ray`` on every machine; null: where a shell finds it."""
    dashboard: Bool = False
    """Ray's dashboard, on the head's loopback address."""
    ssh: SSHSettings = SSHSettings()

    @property
    def address(self) -> str:
        """HOST:PORT of the head."""
        host = self.head.address or self.head.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def on_loopback(self) -> bool:
        """Whether the head is alone, and nobody else needs to reach it."""
        address = self.head.address or self.head.host
        try:
            return ipaddress.ip_address(address).is_loopback
        except ValueError:
            return address == "localhost"


def load_machines(path: Path) -> MachinesSettings:
    """Read that file. Raises SettingsError."""
    document = read_document(path)
    problems = Problems(document)
    try:
        settings = MachinesSettings.model_validate(document.data)
        hosts = [machine.host for machine in (settings.head, *settings.workers)]
        for host in sorted({host for host in hosts if hosts.count(host) > 1}):
            problems.add(("workers",), f"has {host} more than once, or the head; name each machine once")
        if settings.on_loopback and settings.workers:
            text = "has a loopback address, by which no worker reaches it; say address, as the others reach it"
            problems.add(("head",), text)
    except ValidationError as error:
        problems.add_errors(error, MachinesSettings, ())
    problems.raise_if_any()
    return settings

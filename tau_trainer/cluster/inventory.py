"""The file of ``tau-train cluster``: machines with ssh access, and the Ray cluster to make of them."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from tau_trainer.settings.document import read_document
from tau_trainer.settings.kinds import Bool, NaturalFloat, NaturalInt, PositiveInt, Section, Text, invalid
from tau_trainer.settings.problems import Problems


def _plain(pattern: str, what: str) -> BeforeValidator:
    """A text that ssh cannot read as an option and a shell does not interpret."""

    def check(value: Any) -> Any:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise invalid(f"must be {what}")
        return value

    return BeforeValidator(check)


HostName = Annotated[str, _plain(r"[A-Za-z0-9:][\w.:-]*", "a host's name or address")]
ClusterName = Annotated[str, _plain(r"[a-z][a-z0-9-]{0,19}", "up to 20 small letters, digits and hyphens")]
UserName = Annotated[str, _plain(r"[A-Za-z_][\w.-]*", "a user's name")]
PortNumber = Annotated[PositiveInt, Field(lt=65536)]


class Machine(Section):
    """One machine; a plain text is its ``host``."""

    host: HostName
    """Address for ssh."""
    address: HostName | None = None
    """Address for the other machines; null: same as ``host``."""
    cpu: NaturalInt | None = None
    """Cores for actors; null: all, and none on a head that has workers."""
    resources: dict[Text, NaturalFloat] = Field(default_factory=dict)
    """Other resources by name, for ``cluster.resources``."""


_Machine = Annotated[Machine, BeforeValidator(lambda value: {"host": value} if isinstance(value, str) else value)]


class SSHSettings(Section):
    """How to connect to machines; ssh's own configuration applies to everything else."""

    user: UserName | None = None
    port: PortNumber | None = None
    identity: Text | None = None
    """Path of a private key, which stays on this machine."""
    config: Text | None = None
    """A file to use instead of ``~/.ssh/config``."""


class MachinesSettings(Section):
    """All settings in the file."""

    name: ClusterName
    head: _Machine
    workers: list[_Machine] = Field(default_factory=list)
    port: PortNumber = 6379
    """The head's port, to which all nodes connect."""
    bin: Text | None = None
    """Folder of ``ray`` on every machine; null: use the shell's PATH."""
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
        """Whether the head has a loopback address, which other machines cannot reach."""
        address = self.head.address or self.head.host
        try:
            return ipaddress.ip_address(address).is_loopback
        except ValueError:
            return address == "localhost"


def load_machines(path: Path) -> MachinesSettings:
    """Read the file. Raises SettingsError."""
    document = read_document(path, "`head:`")
    problems = Problems(document)
    try:
        settings = MachinesSettings.model_validate(document.data)
        hosts = [machine.host for machine in (settings.head, *settings.workers)]
        for host in sorted({host for host in hosts if hosts.count(host) > 1}):
            problems.add(("workers",), f"has {host} more than once, or it is also the head; name each machine once")
        if settings.on_loopback and settings.workers:
            text = "has a loopback address, which workers cannot reach; set address to one that they can"
            problems.add(("head",), text)
    except ValidationError as error:
        problems.add_errors(error, MachinesSettings, ())
    problems.raise_if_any()
    return settings

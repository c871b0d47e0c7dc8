"""Environments by name: built-in headless scenes, and builds listed in a file. Nothing is downloaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tau_trainer.envs.mlagents.environment import UnityEnvironment
from tau_trainer.envs.mlagents.exception import UnityEnvironmentException
from tau_trainer.envs.mlagents.registry.base_registry_entry import BaseRegistryEntry

_HERE: Final = Path(__file__).parent / "scenes.yaml"
_KEYS: Final = {"linux": "linux_url", "darwin": "darwin_url", "win32": "win_url"}


@dataclass(eq=False)
class LocalRegistryEntry(BaseRegistryEntry):
    """A build on this machine, or a scene of the headless engine."""

    path: str | None
    """UnityEnvironment's ``file_name``; None: there is no build for this platform."""
    additional_args: list[str] | None = None

    def make(self, **kwargs: Any) -> UnityEnvironment:
        """Start it. Raises UnityEnvironmentException if its build is not here, and UnityEnvironment's errors."""
        kwargs.pop("file_name", None)
        if self.path is None:
            raise UnityEnvironmentException(f"'{self.identifier}' has no build for {sys.platform}; add one to its file")
        if self.path.startswith(("http://", "https://")):
            raise UnityEnvironmentException(
                f"'{self.identifier}' is at {self.path}; download and unpack it, and name its folder instead"
            )
        arguments = [*(kwargs.pop("additional_args", None) or ()), *(self.additional_args or ())]
        return UnityEnvironment(file_name=self.path, additional_args=arguments, **kwargs)


class UnityEnvRegistry(Mapping[str, BaseRegistryEntry]):
    """Entries by identifier: ``registry["Basic"].make()``."""

    def __init__(self) -> None:
        self._entries: dict[str, BaseRegistryEntry] = {}
        self._manifests: list[Path] = []

    def register(self, new_entry: BaseRegistryEntry) -> None:
        """Add an entry; replaces an entry with the same identifier."""
        self._entries[new_entry.identifier] = new_entry

    def register_from_yaml(self, path_to_yaml: str) -> None:
        """Add the environments of a file in ML-Agents' form; the file is read on first use.

        It has a list ``environments`` of ``identifier: {expected_reward, description, linux_url, darwin_url, win_url,
        additional_args}``. The urls are paths of builds, relative to the file's folder, or ``headless:SCENE``; ``path``
        sets all three.
        """
        self._manifests.append(Path(path_to_yaml))

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._manifests.clear()

    def __getitem__(self, identifier: str) -> BaseRegistryEntry:
        """Raises KeyError for an unknown identifier."""
        self._read()
        if identifier not in self._entries:
            raise KeyError(f"The entry {identifier} is not present in the registry, which has {', '.join(self)}.")
        return self._entries[identifier]

    def __len__(self) -> int:
        self._read()
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        self._read()
        yield from self._entries

    def _read(self) -> None:
        while self._manifests:
            for entry in _entries(self._manifests[0]):
                self.register(entry)
            del self._manifests[0]


def _entries(manifest: Path) -> Iterator[BaseRegistryEntry]:
    """The entries of a file. Raises UnityEnvironmentException."""
    try:
        listed = yaml.safe_load(manifest.read_text("utf-8"))["environments"]
        pairs = [(str(name), dict(values)) for entry in listed for name, values in dict(entry).items()]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise UnityEnvironmentException(
            f"{manifest} cannot be read as a list of environments ({type(error).__name__}: {error}); "
            "it needs a list `environments` of `name: {description: ..., path: ...}`"
        ) from error
    for name, values in pairs:
        path = values.get("path", values.get(_KEYS.get(sys.platform, "")))
        yield LocalRegistryEntry(
            name,
            values.get("expected_reward"),
            values.get("description"),
            None if path is None else _resolved(str(path), manifest.parent),
            values.get("additional_args"),
        )


def _resolved(path: str, folder: Path) -> str:
    """A path relative to the file's folder; anything that is not a path stays unchanged."""
    path = path.removeprefix("file://")
    return path if ":" in path and not Path(path).is_absolute() else str(folder / path)


default_registry = UnityEnvRegistry()
default_registry.register_from_yaml(str(_HERE))

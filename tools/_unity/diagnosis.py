"""Reads the log of a failed Unity editor and explains the error and its fix in one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .editors import Wanted

PREFIX = "tau-build: "
"""Prefix of the project's build script's lines in the log."""
NO_LICENCE_CODE = 198
"""Unity's exit code if it has no license."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Data about a failed build."""

    log: str
    """The editor's whole log."""
    path: Path
    """The log's path."""
    code: int
    """The editor's exit code."""
    wanted: Wanted
    """The project's version of Unity."""


def diagnose(failure: Failure) -> str:
    """The explanation; for unknown errors, the end of the log."""
    for explain in _EXPLANATIONS:
        sentence = explain(failure)
        if sentence:
            return f"{sentence} The log: {failure.path}"
    return _unknown(failure)


def own_lines(log: str) -> list[str]:
    """The lines of the project's build script, in order, without the prefix."""
    return [line[len(PREFIX) :].strip() for line in log.splitlines() if line.startswith(PREFIX)]


def _licence(failure: Failure) -> str | None:
    said = _first(
        failure.log,
        r"^.*(?:No valid Unity Editor license found|com\.unity\.editor\.headless was not found"
        r"|Failed to activate.*licen[cs]e|License is not active).*$",
    )
    if said is None and failure.code != NO_LICENCE_CODE:
        return None
    reason = _quoted(said) if said else f"exit code {failure.code}"
    return (
        f"Unity has no license on this machine ({reason}): activate one in Unity Hub (Preferences, Licenses), or "
        "on a machine without a screen with "
        "`Unity -batchmode -quit -serial KEY -username MAIL -password WORD`, and build again."
    )


def _already_open(failure: Failure) -> str | None:
    if not _first(failure.log, "another Unity instance is running|Multiple Unity instances cannot open"):
        return None
    return "The project is open in another Unity editor: close that editor and build again."


def _newer(failure: Failure) -> str | None:
    if not _first(
        failure.log,
        r"(?i)(?:created|saved|made) (?:with|in|by) a newer version of (?:the )?Unity"
        r"|Opening Project in Non-Matching Editor",
    ):
        return None
    version = failure.wanted.version
    return f"The project needs a newer Unity than this editor, {version}: {failure.wanted.remedy()}."


def _packages(failure: Failure) -> str | None:
    start = re.search(
        r"An error occurred while resolving packages|Project has invalid dependencies|Failed to resolve packages",
        failure.log,
    )
    if start is None:
        return None
    lines = [line.strip() for line in failure.log[start.start() :].splitlines()[:6]]
    named = next((line for line in lines if re.match(r"com\.[\w.-]+: ", line)), lines[0])
    return (
        f"Unity cannot get the project's packages ({_quoted(named)}): check the network and proxy of this machine, and "
        "Packages/manifest.json."
    )


def _compilation(failure: Failure) -> str | None:
    errors = dict.fromkeys(re.findall(r"^(.+?\(\d+,\d+\): error CS\d+: .+?)\s*$", failure.log, re.MULTILINE))
    if not errors:
        return None
    first = next(iter(errors))
    more = f" (the first of {len(errors)} errors)" if len(errors) > 1 else ""
    return (
        f"The project's scripts do not compile{more}: {first}: check that com.unity.ml-agents in "
        "Packages/manifest.json has the version named in the project's README, or fix that line."
    )


def _module(failure: Failure) -> str | None:
    said = _first(
        failure.log,
        r"^.*(?:Build Support \(Mono\) is not installed|build target was unsupported|Support for \w+ is not installed"
        r"|support for \w+ is not installed|scripting backend \(\w+\) is not installed).*$",
    )
    if said is None:
        return None
    return (
        f"The editor lacks a module for this target ({_quoted(said)}): in Unity Hub, under Installs, add "
        "`Linux Build Support (Mono)` (or the one of your target) to this editor, and build again."
    )


def _no_method(failure: Failure) -> str | None:
    said = _first(failure.log, r"^.*executeMethod (?:class|method) .* could not be found.*$")
    if said is None:
        return None
    return f"Unity cannot find the project's build script ({_quoted(said)}): check out Assets/Tau/Editor again."


def _disk(failure: Failure) -> str | None:
    if not _first(failure.log, r"No space left on device|There is not enough space on the disk|Disk full"):
        return None
    return "The disk is full: make room (a build needs about 5 GB in addition to the editor) and build again."


def _library(failure: Failure) -> str | None:
    said = _first(failure.log, r"^.*error while loading shared libraries: .*$")
    if said is None:
        return None
    return f"The editor does not start ({_quoted(said)}): install the library that it names with your package manager."


def _own(failure: Failure) -> str | None:
    errors = [line.removeprefix("error: ") for line in own_lines(failure.log) if line.startswith("error: ")]
    return f"The build failed: {errors[0].removeprefix('the build failed: ').rstrip('.')}." if errors else None


def _unknown(failure: Failure) -> str:
    tail = [line for line in failure.log.splitlines() if line.strip()][-12:]
    lines = "\n".join(f"    {line}" for line in tail) or "    (nothing)"
    return f"Unity ended with exit code {failure.code} and no player; the end of {failure.path}:\n{lines}"


_EXPLANATIONS: tuple[Callable[[Failure], str | None], ...] = (
    _already_open,
    _packages,
    _compilation,
    _module,
    _licence,
    _newer,
    _no_method,
    _disk,
    _library,
    _own,
)
"""The order matters: a log can also contain harmless complaints, especially about licenses."""


def _first(log: str, pattern: str) -> str | None:
    match = re.search(pattern, log, re.MULTILINE)
    return match[0].strip() if match else None


def _quoted(line: str) -> str:
    text = line.removeprefix(PREFIX).removeprefix("error: ").strip()
    return f"`{text if len(text) <= 240 else text[:237] + '...'}`"

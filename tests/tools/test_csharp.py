"""The C# toolchain: what is fetched, what is refused, what the compiler's words become, what a launcher holds."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools import csharp
from tools._bootstrap.progress import Progress, SetupError
from tools._csharp import kits
from tools._csharp.kits import SDK, Archive, Kit, ensure_kit
from tools._csharp.project import Asmdef, read_project, version_matches
from tools.csharp import CACHE, Diagnostic, Toolchain, build_player, parse_diagnostics, unsupported, write_launcher

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="a launcher is a POSIX shell script")


def tarball(files: Mapping[str, str]) -> bytes:
    """An npm package: a gzipped tar; the file `run` may be run."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            member.mode = 0o755 if name.endswith("/run") else 0o644
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def wheel(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


PACKAGE = tarball(
    {"package/run": "program", "package/lib/a.dll": "a", "package/lib/b.pdb": "b", "package/../evil": "e"}
)
WHEEL = wheel({"thing.libs/libssl-1.so": "ssl", "thing/__init__.py": ""})


class Registry(Progress):
    """Puts archives where npm and pip would; can fail at a chosen command."""

    def __init__(self, package: bytes = PACKAGE) -> None:
        super().__init__()
        self.package = package
        self.commands: list[list[str]] = []
        self.fail_at = -1

    def say(self, text: str) -> None:
        """Keeps the test's output quiet."""

    def run(self, text: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        """Records the command and writes the archive that it asks for."""
        self.commands.append(list(command))
        if len(self.commands) == self.fail_at:
            raise SetupError(f"{text}: failed with exit code 1; the end of {log}")
        if "pack" in command:
            folder, name, content = command[command.index("--pack-destination") + 1], "thing-1.0.tgz", self.package
        else:
            folder, name, content = command[command.index("-d") + 1], "thing-1.0-py3-none-any.whl", WHEEL
        Path(folder, name).write_bytes(content)


def archive(registry: str = "npm", content: bytes = PACKAGE) -> Archive:
    prefix, keep = ("package/", ("run", "lib/*", "*evil")) if registry == "npm" else ("thing.libs/", ("libssl-*",))
    digest = hashlib.sha256(content).hexdigest()
    return Archive(registry, "thing", "1.0", digest, prefix, keep, ("*.pdb",), registry)


KIT = Kit("things", (archive(), archive("pip", WHEEL)))


@pytest.fixture(autouse=True)
def any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if on Linux x64 with npm on the PATH."""
    monkeypatch.setattr(kits, "unsupported", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


def test_only_what_is_needed_stays_of_the_versions_that_are_pinned_and_is_made_once(tmp_path: Path) -> None:
    registry = Registry()
    folder = ensure_kit(KIT, tmp_path, registry)
    assert ensure_kit(KIT, tmp_path, registry) == folder
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {"npm/run", "npm/lib/a.dll", "pip/libssl-1.so", "kit.json"}
    assert (folder / "pip" / "libssl-1.so").read_text() == "ssl"
    assert not (tmp_path / "evil").exists()
    if sys.platform != "win32":
        assert (folder / "npm" / "run").stat().st_mode & 0o111
        assert not (folder / "npm" / "lib" / "a.dll").stat().st_mode & 0o111
    npm, pip = registry.commands
    assert (npm[0], npm[-1]) == ("/usr/bin/npm", "thing@1.0")
    assert Path(npm[npm.index("--cache") + 1]).is_relative_to(folder), "which goes with the download"
    assert not (folder / "downloads").exists()
    assert pip[:4] == [sys.executable, "-m", "pip", "download"]
    assert pip[-1] == "thing==1.0"
    assert "3.11" in pip, "the same wheel whichever Python this is"


@pytest.mark.parametrize("fail_at", [0, 1, 2])
def test_one_that_is_half_made_or_fails_its_check_starts_over(tmp_path: Path, fail_at: int) -> None:
    def checked(folder: Path) -> None:
        raise SetupError("failed with exit code 1")

    broken = Registry()
    broken.fail_at = fail_at
    with pytest.raises(SetupError, match="failed with exit code 1"):
        ensure_kit(KIT, tmp_path, broken, checked)
    whole, seen = Registry(), list[Path]()
    folder = ensure_kit(KIT, tmp_path, whole, seen.append)
    assert len(whole.commands) == 2
    assert seen == [folder]
    assert (folder / "npm" / "run").read_text() == "program"


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    other = Registry(tarball({"package/run": "something else"}))
    with pytest.raises(SetupError, match=r"thing-1\.0\.tgz has the SHA-256 \w{64} instead of \w{64}"):
        ensure_kit(KIT, tmp_path, other)
    assert not list(tmp_path.rglob("run"))
    assert not list(tmp_path.rglob("kit.json"))


def test_what_cannot_be_fetched_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="none of the files"):
        ensure_kit(Kit("things", (replace(archive(), keep=("nothing",)),)), tmp_path, Registry())
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match="check the folder and the disk"):
        ensure_kit(KIT, tmp_path / "file" / "cache", Registry())
    monkeypatch.setattr(Registry, "run", lambda *_: None)
    with pytest.raises(SetupError, match=r"left 0 archives.*npm must be 7\.18 or newer"):
        ensure_kit(KIT, tmp_path, Registry())
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SetupError, match=r"not on the PATH: install Node\.js 18 or newer.*thing 1\.0"):
        ensure_kit(KIT, tmp_path, Registry())


def test_everything_that_decides_changes_the_fingerprint() -> None:
    first, second = KIT.archives
    changes: list[dict[str, Any]] = [{name: "other"} for name in ("version", "sha256", "prefix", "into", "name")]
    changes += [{"keep": ("*",)}, {"drop": ()}]
    kits_of = [KIT, Kit("others", KIT.archives), *(Kit("things", (replace(first, **each), second)) for each in changes)]
    assert len({kit.fingerprint() for kit in kits_of}) == len(kits_of)
    assert Kit("things", (first, second)).fingerprint() == KIT.fingerprint()


@pytest.mark.parametrize(
    ("system", "machine", "libc", "said"),
    [
        ("linux", "x86_64", "glibc", None),
        ("linux", "aarch64", "glibc", "this is linux aarch64: use a Linux x64 machine"),
        ("darwin", "x86_64", "", "this is darwin x86_64"),
        ("win32", "AMD64", "", "this is win32 AMD64"),
        ("linux", "x86_64", "", "needs glibc"),
    ],
)
def test_other_machines_are_told_so(
    system: str, machine: str, libc: str, said: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kits, "unsupported", unsupported)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "libc_ver", lambda: (libc, ""))
    if said is None:
        assert unsupported() is None
        return
    with pytest.raises(SetupError, match=said):
        ensure_kit(KIT, tmp_path, Registry())
    assert not list(tmp_path.iterdir())


def test_the_sdk_keeps_the_compiler_and_no_other_language() -> None:
    assert SDK.path_of("package/sdk/3.1.102/Roslyn/bincore/csc.dll") == "dotnet/sdk/3.1.102/Roslyn/bincore/csc.dll"
    assert SDK.path_of("package/dotnet") == "dotnet/dotnet"
    assert SDK.path_of("package/sdk/3.1.102/Roslyn/bincore/de/Microsoft.CodeAnalysis.resources.dll") is None
    assert SDK.path_of("package/sdk/3.1.102/MSBuild.dll") is None
    assert SDK.path_of("package/shared/Microsoft.NETCore.App/../../evil") is None


def test_what_the_compiler_says_is_read() -> None:
    text = "\n".join(
        [
            "/a b/Script(2).cs(12,5): error CS1061: 'X' does not contain a definition for 'Y' (and: more)",
            "/a b/Script.cs(3,1): warning CS0168: The variable 'z' is declared but never used",
            "error CS0006: Metadata file '/x.dll' could not be found",
            "fatal error CS8785: stopped",
            "Some other line",
            "",
        ]
    )
    assert parse_diagnostics(text) == (
        Diagnostic(Path("/a b/Script(2).cs"), 12, "CS1061", "'X' does not contain a definition for 'Y' (and: more)"),
        Diagnostic(Path("/a b/Script.cs"), 3, "CS0168", "The variable 'z' is declared but never used"),
        Diagnostic(None, 0, "CS0006", "Metadata file '/x.dll' could not be found"),
        Diagnostic(None, 0, "CS8785", "stopped"),
    )
    assert str(parse_diagnostics(text)[1]) == (
        f"{Path('/a b/Script.cs')}(3): CS0168: The variable 'z' is declared but never used"
    )


@pytest.fixture
def fake_toolchain(tmp_path: Path) -> Toolchain:
    """A toolchain whose `dotnet` says how it was called, in a folder with a difficult name."""
    toolchain = Toolchain(tmp_path / "it's; a $folder", tmp_path)
    toolchain.dotnet.parent.mkdir(parents=True)
    toolchain.dotnet.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$LD_LIBRARY_PATH" "$DOTNET_STARTUP_HOOKS" "$@"\nexit 7\n', encoding="utf-8"
    )
    toolchain.dotnet.chmod(0o755)
    return toolchain


@POSIX
def test_a_launcher_passes_arguments_variables_and_exit_code(
    fake_toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "a 'build'" / "TauPlayer.dll"
    program.parent.mkdir()
    launcher = write_launcher(fake_toolchain, program)
    assert launcher == program.with_name("TauPlayer.x86_64")
    environment = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/own libs", "DOTNET_STARTUP_HOOKS": "/hook.dll"}
    command = [str(launcher), "--mlagents-port", "5005", "two words", "$HOME", "*"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    libraries, hooks, *arguments = done.stdout.splitlines()
    assert libraries == f"{fake_toolchain.folder / 'openssl'}:/own libs"
    assert hooks == ""
    assert arguments == ["exec", str(program), *command[1:]]
    plain = subprocess.run([str(launcher)], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=False)
    assert plain.stdout.splitlines()[0] == str(fake_toolchain.folder / "openssl"), "no empty folder"
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    monkeypatch.setenv("SOMETHING", "else")
    assert fake_toolchain.environment["LD_LIBRARY_PATH"] == f"{fake_toolchain.folder / 'openssl'}:/mine"
    assert fake_toolchain.environment["SOMETHING"] == "else"
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert fake_toolchain.environment["LD_LIBRARY_PATH"] == str(fake_toolchain.folder / "openssl")


@POSIX
def test_what_cannot_be_compiled_is_a_sentence(
    fake_toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how: dict[str, Any] = {"kind": "library", "profile": "netstandard2.1"}
    with pytest.raises(ValueError, match="0 sources"):
        fake_toolchain.compile([], tmp_path / "a.dll", **how)
    with pytest.raises(SetupError, match="ended with 7"):  # a compiler that says nothing readable
        fake_toolchain.compile([tmp_path / "a.cs"], tmp_path / "a.dll", **how)
    monkeypatch.setattr(csharp, "compile_project", lambda *_: {})
    with pytest.raises(SetupError, match="no C# files"):
        build_player(fake_toolchain, tmp_path, tmp_path / "player")


def write_asmdef(folder: Path, name: str, **content: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.asmdef").write_text(json.dumps({"name": name, **content}), encoding="utf-8")
    (folder / f"{name}.cs").touch()


def test_assemblies_come_after_those_they_refer_to(tmp_path: Path) -> None:
    assets = tmp_path / "Assets"
    write_asmdef(assets / "A", "A", references=["B", "Elsewhere"], includePlatforms=["Editor"])
    write_asmdef(assets / "B", "B", references=["C"])
    write_asmdef(assets / "B" / "Deep" / "C", "C", noEngineReferences=True)
    (assets / "B" / "Deep" / "Own.cs").touch()
    c, b, a = read_project(tmp_path)
    assert [each.name for each in (c, b, a)] == ["C", "B", "A"]
    assert [path.name for path in b.sources] == ["B.cs", "Own.cs"]
    assert [path.name for path in c.sources] == ["C.cs"]
    assert (c.engine, b.engine, a.engine) == (False, True, True)
    assert (b.editor, a.editor) == (False, True)
    write_asmdef(assets / "B" / "Deep" / "C", "C", references=["A"])
    with pytest.raises(SetupError, match="circular: A -> B -> C -> A"):
        read_project(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"references": []}'])
def test_a_broken_assembly_definition_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "Assets").mkdir()
    (tmp_path / "Assets" / "A.asmdef").write_text(text)
    with pytest.raises(SetupError, match=r"A\.asmdef is not an assembly definition"):
        read_project(tmp_path)


@pytest.mark.parametrize(
    ("expression", "version", "expected"),
    [
        ("3.0.0", "3.0.0", True),
        ("3.0.0", "4.1.0", True),
        ("3.0.1", "3.0.0", False),
        ("[3.0.0,4.0.0)", "3.0.0", True),
        ("[3.0.0, 4.0.0)", "3.9.9", True),
        ("[3.0.0,4.0.0)", "4.0.0", False),
        ("(3.0.0,4.0.0]", "3.0.0", False),
        ("(3.0.0,4.0.0]", "4.0.0", True),
        ("(,3.0]", "2.9.1", True),
        ("[3.10.0,)", "3.9.0", False),
        ("[3.0.0]", "3.0.0", True),
        ("[3.0.0]", "3.0.1", False),
    ],
)
def test_version_expressions(expression: str, version: str, expected: bool) -> None:
    assert version_matches(version, expression) is expected
    with pytest.raises(SetupError, match="`>=3` is not a version expression"):
        version_matches(version, ">=3")


def test_version_defines_are_set_where_the_package_is() -> None:
    rules = (("thing", "[3.0.0,4.0.0)", "OLD"), ("thing", "4.0.0", "NEW"), ("other", "1.0.0", "OTHER"))
    asmdef = Asmdef(Path("A.asmdef"), "A", (), True, False, rules, ())
    assert asmdef.defines({"thing": "3.5.0"}) == ("OLD",)
    assert asmdef.defines({"thing": "4.0.1", "other": "1.0.0"}) == ("NEW", "OTHER")
    assert asmdef.defines({}) == ()


def test_the_command_line_lists_errors_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fake_toolchain: Toolchain
) -> None:
    monkeypatch.setattr(csharp, "ensure_toolchain", lambda: fake_toolchain)
    for found, code, said in ((["A.cs(1): CS0103: wrong"], 1, "A.cs(1): CS0103: wrong\n"), ([], 0, "OK")):
        monkeypatch.setattr(csharp, "check_project", lambda toolchain, found=found: found)
        assert csharp.main(["check"]) == code
        assert capsys.readouterr().out.startswith(said)

    def fails() -> Toolchain:
        raise SetupError("no npm here")

    monkeypatch.setattr(csharp, "ensure_toolchain", fails)
    assert csharp.main(["check"]) == 2
    assert capsys.readouterr().err == "no npm here\n"


def test_git_ignores_the_cache() -> None:
    root = Path(csharp.__file__).resolve().parents[1]
    assert CACHE.relative_to(root).parts[0] == ".cache"
    assert ".cache/" in (root / ".gitignore").read_text(encoding="utf-8").splitlines()

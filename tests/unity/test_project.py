"""The Unity project as files: what Unity reads when it opens it is whole, and what is not code agrees with the code."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tau_trainer import __version__
from tau_trainer.cli.app import build_app
from tools._unity.editors import Wanted
from tools.csharp import read_project
from tools.unity_assets import PROJECT, ROOT, assets
from tools.unity_assets import main as check_assets
from tools.unity_build import TARGETS

ASSETS = PROJECT / "Assets"
SETTINGS = PROJECT / "ProjectSettings"
PACKAGE = PROJECT / "Packages" / "com.tau.trainer"
SCRIPTS = sorted((ASSETS / "Tau").rglob("*.cs"))
PACKAGED = sorted(PACKAGE.rglob("*.cs"))
TEXTS = sorted(
    path
    for path in [*PROJECT.iterdir(), *SETTINGS.iterdir(), *(PROJECT / "Packages").rglob("*"), *ASSETS.rglob("*")]
    if path.is_file() and path.suffix not in (".npz", ".onnx", ".tau", ".unity")
)
PACKAGES = {"Unity.ML-Agents", "Unity.InferenceEngine", "Unity.Sentis"}
"""Assemblies of com.unity.ml-agents and of what it brings: Inference Engine to 4.x, Sentis to 3.0.0."""


def inside(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


# --- what Unity opens


def test_the_manifest_pins_ml_agents_4_and_nothing_else_of_a_registry() -> None:
    manifest = json.loads((PROJECT / "Packages" / "manifest.json").read_text(encoding="utf-8"))
    assert list(manifest) == ["dependencies"]
    packages = manifest["dependencies"]
    assert re.fullmatch(r"4\.\d+\.\d+", packages.pop("com.unity.ml-agents"))
    assert {name: version for name, version in packages.items() if not name.startswith("com.unity.modules.")} == {}
    assert set(packages.values()) == {"1.0.0"}
    assert list(packages) == sorted(packages)
    wanted = {"imageconversion", "jsonserialize", "physics"}  # by ML-Agents
    assert {f"com.unity.modules.{name}" for name in wanted} < set(packages)


CLASSES = {
    "ProjectSettings": 129,
    "EditorSettings": 159,
    "EditorBuildSettings": 1045,
    "VersionControlSettings": 890905787,
}
"""Numbers by which Unity knows what a file of settings holds."""


def settings_of(name: str) -> dict[str, Any]:
    """One settings file: its two directives, then a single object."""
    lines = (SETTINGS / f"{name}.asset").read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["%YAML 1.1", "%TAG !u! tag:unity3d.com,2011:", f"--- !u!{CLASSES[name]} &1"]
    ((kind, content),) = yaml.safe_load("\n".join(lines[3:])).items()
    assert kind == ("PlayerSettings" if name == "ProjectSettings" else name)
    assert isinstance(content, dict)
    return content


def test_settings_that_training_and_version_control_need() -> None:
    settings = {path.stem: settings_of(path.stem) for path in SETTINGS.glob("*.asset")}
    player = settings["ProjectSettings"]
    assert {target.player.rpartition(".")[0] for target in TARGETS.values()} == {player["productName"]} == {"Tau"}
    assert player["runInBackground"] == 1
    assert player["scriptingBackend"] == {"Server": 0, "Standalone": 0}, "players of IL2CPP cannot be trained"
    assert player["apiCompatibilityLevelPerPlatform"] == {"Server": 6, "Standalone": 6}, "6 is .NET Standard 2.1"
    assert re.fullmatch(r"[0-9a-f]{32}", str(player["productGUID"]))
    assert settings["EditorSettings"]["m_SerializationMode"] == 2, "2 is text"
    assert settings["VersionControlSettings"]["m_Mode"] == "Visible Meta Files"


# --- assets


def test_assets_are_complete_and_metas_say_what_is_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_assets(["--check"]) == 0, capsys.readouterr().out
    for asset in assets(PROJECT):
        meta = yaml.safe_load(asset.with_name(asset.name + ".meta").read_text(encoding="utf-8"))
        assert bool(meta.get("folderAsset")) == asset.is_dir()


def test_texts_are_utf8_with_unix_line_ends() -> None:
    for path in TEXTS:
        content = path.read_bytes()
        assert not content.startswith(b"\xef\xbb\xbf"), path
        assert b"\r" not in content, path
        assert content.endswith(b"\n"), path
        content.decode("utf-8")


# --- assemblies and scripts


def test_assemblies_refer_to_what_exists_and_never_upwards() -> None:
    found = {asmdef.name: asmdef for asmdef in read_project(PROJECT)}
    assert set(found) == {"Tau.Core", "Tau.Runtime", "Tau.Editor", "Tau.Trainer.Core", "Tau.Trainer.Editor"}
    for asmdef in found.values():
        assert set(asmdef.references) <= {*found, *PACKAGES}
        assert asmdef.path.stem == asmdef.name
    for core in (found["Tau.Core"], found["Tau.Trainer.Core"]):
        assert (core.engine, core.references) == (False, ()), "it works in every project"
    assert "Tau.Editor" not in found["Tau.Runtime"].references
    assert {name for name in found if not found[name].editor} == {"Tau.Core", "Tau.Runtime"}
    assert set(found["Tau.Trainer.Editor"].references) == {"Tau.Trainer.Core", "Unity.ML-Agents"}


KIND = r"(?:class|struct|enum|interface)"
TYPE = re.compile(rf"^    (?:public|internal) (?:(?:abstract|sealed|static|readonly) )*{KIND} (\w+)", re.MULTILINE)


@pytest.mark.parametrize("path", [*SCRIPTS, *PACKAGED], ids=inside)
def test_a_script_is_named_like_a_type_in_the_folders_namespace(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    packaged = path in PACKAGED
    folder = path.parent.name if packaged else path.relative_to(ASSETS / "Tau").parts[0]
    names = TYPE.findall(text)
    assert path.stem in names
    assert packaged or folder == "Core" or names == [path.stem], "Unity finds a MonoBehaviour by its file's name"
    home = ("Tau.Trainer", "Core") if packaged else ("Tau", "Runtime")
    namespace = home[0] if folder == home[1] else f"{home[0]}.{folder}"
    assert re.findall(r"^namespace ([\w.]+)$", text, re.MULTILINE) == [namespace]


def test_scripts_are_short_and_their_lines_too() -> None:
    wrong, core = [], 0
    for path in (*SCRIPTS, *PACKAGED):
        lines = path.read_text(encoding="utf-8").splitlines()
        core += len(lines) * ("Tau/Core" in path.as_posix())
        wrong += [f"{inside(path)}: {len(lines)} lines"] * (len(lines) > (400 if path.stem == "TrainerWindow" else 250))
        wrong += [
            f"{inside(path)}:{number}: {len(line)} columns" for number, line in enumerate(lines, 1) if len(line) > 120
        ]
    assert wrong == []
    assert 0 < core < 2500, "the core is read in an evening"


def test_the_readme_names_versions_menu_and_every_flag_of_a_build() -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    menu = (ASSETS / "Tau" / "Editor" / "TauMenu.cs").read_text(encoding="utf-8")
    items = re.findall(r'\[MenuItem\("([^"]+)"', menu)
    assert len(items) == 5
    assert [item for item in items if item not in readme] == []
    model = re.search(r'Model = "([^"]+)"', menu)
    assert model is not None
    assert (PROJECT / model[1]).is_file()
    wanted = Wanted.of(PROJECT)
    assert (wanted.version.stream, wanted.version.stage) == ((6000, 0), "f"), "Unity 6 LTS"
    assert re.fullmatch(r"[0-9a-f]{12}", str(wanted.changeset))
    assert f"`{wanted.version}`" in readme
    manifest = json.loads((PROJECT / "Packages" / "manifest.json").read_text(encoding="utf-8"))
    for version in (manifest["dependencies"]["com.unity.ml-agents"], "3.0.0"):
        assert f'"com.unity.ml-agents": "{version}"' in readme
    flag = re.compile(r"--tau-[a-z-]*[a-z]")
    options = (ASSETS / "Tau" / "Core" / "Commands" / "TauOptions.cs").read_text(encoding="utf-8")
    assert set(flag.findall(readme)) == set(flag.findall(options))


# --- the package


def test_the_package_works_in_other_projects() -> None:
    manifest = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))
    assert (manifest["name"], manifest["unity"], manifest["license"]) == (PACKAGE.name, "2022.3", "MIT")
    assert manifest["version"] == __version__
    assert f"## [{__version__}]" in (PACKAGE / "CHANGELOG.md").read_text(encoding="utf-8")
    assert manifest["dependencies"]["com.unity.ml-agents"] == "2.0.0"
    assert all(name.startswith("com.unity.") for name in manifest["dependencies"])
    assert (PACKAGE / "LICENSE.md").read_bytes() == (ROOT / "LICENSE").read_bytes()
    kinds = {path.suffix for path in PACKAGE.rglob("*") if path.is_file()}
    assert kinds == {".cs", ".asmdef", ".json", ".md", ".meta"}, "no native code, and nothing compiled"


def test_the_window_is_where_documents_say() -> None:
    window = (PACKAGE / "Editor" / "TrainerWindow.cs").read_text(encoding="utf-8")
    assert re.findall(r'\[MenuItem\("([^"]+)"\)\]', window) == ["Window/Tau Trainer"]
    sections = re.findall(r'Section\("([^"]+)"', window)
    readme = (PACKAGE / "README.md").read_text(encoding="utf-8")
    assert sections
    assert [section for section in sections if f"\n| {section} |" not in readme] == []
    guide = (ROOT / "docs" / "guides" / "unity.md").read_text(encoding="utf-8")
    assert "*Window → Tau Trainer*" in guide
    assert len(re.findall(r"^\d+\. \[ \] ", guide, re.MULTILINE)) == 12


# --- the workflow

WORKFLOW = ROOT / ".github" / "workflows" / "unity.yml"


def workflow() -> dict[Any, Any]:
    content = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def steps() -> Iterator[dict[str, Any]]:
    for job in workflow()["jobs"].values():
        yield from job["steps"]


def commands() -> Iterator[list[str]]:
    """Every command that starts one of our own programs, in words, without what is piped or redirected."""
    for step in steps():
        for line in step.get("run", "").replace("\\\n", " ").splitlines():
            words = shlex.split(line.split(" | ")[0])
            if words and (words[0] == "python" or words[0].startswith(".venv/bin/")):
                yield words


def test_the_workflow_may_only_read_gives_way_to_its_successor_and_pins_its_actions() -> None:
    content = workflow()
    assert content["permissions"] == {"contents": "read"}
    assert content["concurrency"] == {"group": "unity-${{ github.ref }}", "cancel-in-progress": True}
    assert set(content[True]) == {"push", "pull_request", "workflow_dispatch"}  # YAML 1.1 reads `on` as true
    for job in content["jobs"].values():
        assert job["timeout-minutes"] <= 120
        assert not str(job["runs-on"]).endswith("latest")
    used = [step["uses"] for step in steps() if "uses" in step]
    assert [one for one in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@v\d+\.\d+\.\d+", one)] == []
    assert any(one.startswith("game-ci/unity-builder@v4.") for one in used)


def test_every_file_that_the_workflow_names_exists() -> None:
    named = re.findall(r"(?<![\w/.])(?:tools|tests|unity_project)/[\w./-]*[\w]", WORKFLOW.read_text(encoding="utf-8"))
    made = ("unity_project/Library",)
    assert [name for name in named if name not in made and not (ROOT / name).exists()] == []
    assert {"tools/csharp.py", "tools/unity_assets.py", "tools/bootstrap.py", "tests/unity"} <= set(named)
    for step in steps():
        path = step.get("with", {}).get("cache-dependency-path")
        assert path is None or (ROOT / path).is_file()


def test_every_command_of_the_workflow_is_one_of_ours() -> None:
    starts = {tuple(words[:2]) for words in commands()}
    assert starts == {
        ("python", "tools/bootstrap.py"),
        (".venv/bin/python", "tools/unity_assets.py"),
        (".venv/bin/python", "tools/csharp.py"),
        (".venv/bin/python", "-m"),
        (".venv/bin/tau-train", "parallel"),
    }
    for words in commands():
        if words[1].startswith("tools/"):
            usage = subprocess.run(
                [sys.executable, str(ROOT / words[1]), "--help"], capture_output=True, text=True, check=True, cwd=ROOT
            ).stdout
            assert words[2] in usage


def test_the_training_commands_parse_and_are_2000_decisions_long() -> None:
    trained = [words for words in commands() if words[0].endswith("tau-train")]
    assert [words[words.index("--env") + 1] for words in trained] == ["build/player/Tau.x86_64", "headless:tau"]
    for words in trained:
        command, bound, _ = build_app().parse_args(words[1:], exit_on_error=False, print_error=False)
        assert command.__name__ == "parallel"
        assert bound.arguments["flags"].run.max_steps == "2000"


def test_the_player_is_built_by_our_method_and_trained_where_it_was_built() -> None:
    (step,) = [step for step in steps() if step.get("uses", "").startswith("game-ci/")]
    assert step["with"]["buildMethod"] == TARGETS["linux"].method
    assert step["with"]["projectPath"] == PROJECT.name
    assert step["with"]["targetPlatform"] == "StandaloneLinux64"
    words = shlex.split(step["with"]["customParameters"])
    player = words[words.index("-tauOutput") + 1].removeprefix("/github/workspace/")
    assert f"--env {player} " in WORKFLOW.read_text(encoding="utf-8")
    assert Path(player).name == TARGETS["linux"].player


def test_without_a_licence_the_headless_engine_is_trained_and_the_summary_says_so() -> None:
    jobs = workflow()["jobs"]
    there = "needs.licence.outputs.there"
    assert jobs["player"]["if"] == f"{there} == 'true'"
    assert jobs["headless"]["if"] == f"{there} != 'true'"
    (look,) = jobs["licence"]["steps"]
    assert jobs["licence"]["outputs"]["there"] == "${{ steps." + look["id"] + ".outputs.there }}"
    assert "No Unity licence: the player is not built" in look["run"]
    assert "$GITHUB_STEP_SUMMARY" in look["run"]


@pytest.mark.skipif(sys.platform == "win32", reason="the step is a bash script")
@pytest.mark.parametrize(("licence", "there"), [("", "false"), ("<root/>", "true")])
def test_the_step_that_looks_for_a_licence_works(licence: str, there: str, tmp_path: Path) -> None:
    (look,) = workflow()["jobs"]["licence"]["steps"]
    output, summary = tmp_path / "output", tmp_path / "summary"
    summary.touch()
    given = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary), "UNITY_LICENSE": licence}
    path = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", look["run"]], env={**path, **given}, check=True)
    assert output.read_text() == f"there={there}\n"
    assert summary.read_text().startswith("### No Unity licence") == (there == "false")

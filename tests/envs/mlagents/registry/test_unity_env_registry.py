from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tau_trainer.envs.mlagents import UnityEnvironmentException, UnityEnvRegistry, default_registry
from tau_trainer.envs.mlagents.registry.unity_env_registry import LocalRegistryEntry
from tau_trainer.headless.scenes import SCENES

MANIFEST = """
environments:
- Ours:
    expected_reward: 0.93
    description: |
      two
      lines
    linux_url: headless:basic
    darwin_url: headless:basic
    win_url: headless:basic
    additional_args: [--agents, "2"]
- Beside:
    path: builds/game
- Far:
    path: https://example.com/game.zip
- Elsewhere:
    expected_reward: 1
    plan9_url: builds/game
"""


@pytest.fixture
def registry(tmp_path: Path) -> UnityEnvRegistry:
    (tmp_path / "list.yaml").write_text(MANIFEST)
    registry = UnityEnvRegistry()
    registry.register_from_yaml(str(tmp_path / "list.yaml"))
    return registry


def test_our_own_scenes() -> None:
    """Every scene stands there under the name of the example that it is a twin of."""
    paths = {name: default_registry[name].path for name in default_registry}  # type: ignore[attr-defined]
    scenes = {f"headless:{scene}" for scene in SCENES if scene != "faulty"}
    assert scenes <= set(paths.values())
    for name, entry in default_registry.items():
        assert entry.description
        assert entry.expected_reward is not None or name in ("Sorter", "SoccerTwos")


def test_a_file_of_environments(registry: UnityEnvRegistry, tmp_path: Path) -> None:
    assert list(registry) == ["Ours", "Beside", "Far", "Elsewhere"]
    assert len(registry) == 4
    ours = registry["Ours"]
    assert (ours.identifier, ours.expected_reward, ours.description) == ("Ours", 0.93, "two\nlines\n")
    env = ours.make(base_port=0, file_name="never", worker_id=0)
    env.reset()
    assert len(env.get_steps("Basic?team=0")[0]) == 2
    env.close()
    with pytest.raises(UnityEnvironmentException, match=re.escape(str(tmp_path / "builds" / "game"))):
        registry["Beside"].make()
    with pytest.raises(UnityEnvironmentException, match="download and unpack it"):
        registry["Far"].make()
    with pytest.raises(UnityEnvironmentException, match=f"no build for {sys.platform}"):
        registry["Elsewhere"].make()


def test_entries_can_be_replaced_and_forgotten(registry: UnityEnvRegistry) -> None:
    registry.register(LocalRegistryEntry("Mine", None, None, "headless:basic"))
    assert "Mine" in registry
    with pytest.raises(KeyError, match="Yours is not present in the registry, which has Mine, Ours"):
        registry["Yours"]
    registry.register(LocalRegistryEntry("Mine", 2.0, None, "headless:basic"))
    assert registry["Mine"].expected_reward == 2.0
    registry.clear()
    assert list(registry) == []


@pytest.mark.parametrize("text", ["environments: 3", "- a", "environments: [a]", "{", "environments:\n- A: 5"])
def test_a_file_that_is_no_list(tmp_path: Path, text: str) -> None:
    registry = UnityEnvRegistry()
    (tmp_path / "list.yaml").write_text(text)
    registry.register_from_yaml(str(tmp_path / "list.yaml"))
    for _ in range(2):
        with pytest.raises(UnityEnvironmentException, match=r"list\.yaml cannot be read as a list of environments"):
            list(registry)
    missing = UnityEnvRegistry()
    missing.register_from_yaml("no.yaml")
    with pytest.raises(UnityEnvironmentException, match="FileNotFoundError"):
        len(missing)

"""Which policy decides for whom."""

from __future__ import annotations

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.settings.trainers import PPOTrainerSettings, TrainerSettings
from tau_trainer.training.batched.assignment import assigned

AGENTS = ("tagger_0", "tagger_1", "runner_0", "runner_1", "host")


def policies(**agents: list[str] | None) -> dict[str, TrainerSettings]:
    return {name: PPOTrainerSettings.model_validate({"agents": of}) for name, of in agents.items()}


def test_one_policy_has_all_agents() -> None:
    assert assigned(policies(all=None), AGENTS) == {"all": [0, 1, 2, 3, 4]}


def test_agents_are_named_one_by_one_or_by_group() -> None:
    found = assigned(policies(fast=["runner", "host"], slow=["tagger_1", "tagger_0"]), AGENTS)
    assert found == {"fast": [2, 3, 4], "slow": [0, 1]}


@pytest.mark.parametrize(
    ("agents", "sentence"),
    [
        ({"a": ["tagger"], "b": ["runner"]}, "agent 'host' has no policy; name it in the `agents` of one"),
        ({"a": ["tagger"]}, "agent 'runner_0' and 2 more have no policy"),
        (
            {"a": ["tagger", "host"], "b": ["runner", "tagger_1"]},
            "behaviors.b.agents: agent 'tagger_1' has the policy 'a' already; assign each agent to one policy",
        ),
        ({"a": None, "b": None}, "behaviors.b.agents: agent 'tagger_0' has the policy 'a' already"),
        ({"a": ["taggers"]}, "behaviors.a.agents: there is no agent and no group 'taggers'; did you mean tagger?"),
        ({"a": []}, "behaviors.a.agents: is empty; name its agents, or remove the policy"),
    ],
)
def test_what_cannot_be_assigned_is_told(agents: dict[str, list[str] | None], sentence: str) -> None:
    with pytest.raises(SettingsError) as error:
        assigned(policies(**agents), AGENTS)
    assert sentence in str(error.value)

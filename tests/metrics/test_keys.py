from __future__ import annotations

from pathlib import Path

from tau_trainer.metrics import keys
from tau_trainer.tau.task import TauTask

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def scalars() -> set[str]:
    constants = {value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str)}
    task = TauTask.keys
    own = {task.reward, task.success, task.aggregated}
    return constants | own | {keys.episode_reward("extrinsic"), keys.value_estimate("extrinsic")}


def test_every_scalar_is_explained() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in sorted(scalars()) if f"`{name}`" not in page] == []


def test_mlagents_names_are_verbatim() -> None:
    assert scalars() >= {
        "Environment/Cumulative Reward",
        "Environment/Group Cumulative Reward",
        "Environment/Episode Length",
        "Policy/Entropy",
        "Policy/Learning Rate",
        "Policy/Epsilon",
        "Policy/Beta",
        "Policy/Extrinsic Reward",
        "Policy/Extrinsic Value Estimate",
        "Losses/Policy Loss",
        "Losses/Value Loss",
    }


def test_pair_keys_stand_under_the_pair_so_that_they_never_meet_those_of_a_game() -> None:
    assert keys.pair_key("Tau/Mean Reward", "3") == "Pair 3/Mean Reward"
    assert keys.pair_key("a/b/c", "0") == "Pair 0/c"
    assert keys.pair_key("x", "0") == "Pair 0/x"

"""Games as the plugin introduces them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tau_trainer.bridge.godot.codec import GodotCodec, parse_message
from tau_trainer.bridge.protocol import Command
from tau_trainer.specs import StepBatch

JUMP = {"jump": {"size": 2, "action_type": "discrete"}}


MIXED = {"jump": JUMP["jump"], "move": {"size": 2, "action_type": "continuous"}}


BOX = {"obs": {"size": [3], "space": "box"}}


def introduction(count: int = 2, **changed: Any) -> dict[str, Any]:
    """What a game of ``count`` agents says of itself."""
    said = {
        "type": "env_info",
        "observation_space": [BOX] * count,
        "action_space": [MIXED] * count,
        "n_agents": count,
        "agent_policy_names": ["shared_policy"] * count,
    }
    return {key: value for key, value in {**said, **changed}.items() if value is not None}


class Game:
    """A codec whose game says what the test says."""

    def __init__(self, count: int = 2, limit: int | None = None, *, flat: bool = False, **changed: Any) -> None:
        self.notes: list[str] = []
        self.codec = GodotCodec(introduction(count, **changed), limit, self.notes, flat=flat)

    def reset(self, obs: list[Any], **more: Any) -> list[StepBatch]:
        self.codec.reply(Command.RESET, {})
        return self._hear({"type": "reset", "obs": obs, **more})

    def step(self, obs: list[Any], reward: list[Any], done: list[Any], **more: Any) -> list[StepBatch]:
        self.codec.reply(Command.STEP, {})
        return self._hear({"type": "step", "obs": obs, "reward": reward, "done": done, **more})

    def _hear(self, message: dict[str, Any]) -> list[StepBatch]:
        return self.codec.steps(parse_message(json.dumps(message).encode()))


def seen(*values: float) -> list[dict[str, list[float]]]:
    """One observation of three numbers for each agent."""
    return [{"obs": [value, 0.0, 0.0]} for value in values]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["obs", "size", "space", "x"]), inner),
    max_leaves=8,
)

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.console import Console

from tau_trainer.metrics import LiveTable, MetricsHub, RunSnapshot, keys
from tau_trainer.metrics.trend import Trend, mean_losses, sparkline

KEYS = {keys.POLICY_LOSS: 0.5, keys.VALUE_LOSS: 2.0, keys.POLICY_ENTROPY: 1.25, keys.APPROXIMATE_KL: 0.01}


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ([], 4, ""),
        ([3.0], 4, "a"),
        ([1.0, 1.0], 4, "aa"),
        ([0.0, 1.0, 2.0], 4, "abc"),
        ([0.0, 0.2, 1.9, 2.0], 2, "ac"),
        ([0.0, 1.0], 0, ""),
        ([-2.0, -1.0, 0.0, -2.0, -2.0], 5, "abcaa"),
    ],
)
def test_sparkline(values: list[float], width: int, line: str) -> None:
    assert sparkline(values, width, "abc") == line


def test_what_summaries_say() -> None:
    hub, trend = MetricsHub(), Trend()
    for number in (1.0, 2.0):
        hub.add("A", "Task/Reward", number, pair=3)
        hub.add("A", keys.CUMULATIVE_REWARD, 10 * number, pair=3)
        hub.add_all("A", {key: number * value for key, value in KEYS.items()})
        trend.add(hub.flush("A", int(number)), "Task/Reward")
    assert (trend.rewards, trend.pairs) == ([1.0, 2.0], {"3": [1.0, 2.0]})
    assert trend.losses == {"policy loss": 1.0, "value loss": 4.0, "entropy": 2.5, "KL": 0.02}
    hub.add("A", keys.CUMULATIVE_REWARD, 7.0)
    hub.add("A", keys.POLICY_LOSS, float("nan"))
    trend.add(hub.flush("A", 3))
    assert trend.rewards[-1] == 7.0, "without a task an episode's reward"
    assert trend.losses["policy loss"] == 1.0, "the newest that is a number"
    assert trend.groups == []
    hub.add("A", keys.GROUP_CUMULATIVE_REWARD, 3.0)
    trend.add(hub.flush("A", 4))
    assert trend.groups == [3.0]
    assert len(trend.rewards) == 3, "a summary without reward is no point"
    trends = {"A": Trend(losses={"KL": 1.0}), "B": Trend(losses={"KL": 3.0, "entropy": 2.0})}
    assert mean_losses(trends) == {"KL": 2.0, "entropy": 2.0}
    assert mean_losses({}) == {}


def test_the_live_table_shows_them(
    snapshot: Callable[..., RunSnapshot], console: Callable[..., Console], text_of: Callable[[Console], str]
) -> None:
    target = console(120, 30, terminal=True)
    with MetricsHub([LiveTable(target)]) as hub:
        hub.event("task", reward="Task/Reward", success="Task/Success", aggregated="Task/Aggregated")
        for number in range(3):
            hub.add("TauAgent", "Task/Reward", number, pair=1)
            hub.add_all("TauAgent", KEYS)
            hub.flush("TauAgent", number)
        hub.snapshot(snapshot())
        hub.drain()
    text = text_of(target)
    assert "reward ▁▅█ 2.000 (0.000 to 2.000) · policy loss 0.5 · value loss 2 · entropy 1.25 · KL 0.01" in text
    with_trend = {line.split()[1] for line in text.splitlines() if "Training" in line and "▁▅█" in line}
    assert with_trend == {"1"}, "pairs without values have none"


def test_what_a_terminal_echoes_lands_below_the_table(
    snapshot: Callable[..., RunSnapshot], console: Callable[..., Console], text_of: Callable[[Console], str]
) -> None:
    target = console(80, 30, terminal=True)
    table = LiveTable(target)
    table.on_snapshot(snapshot())
    assert text_of(target).endswith("╯\n"), "the cursor stands at the beginning of a line of its own"
    table.close()

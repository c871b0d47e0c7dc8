"""Statistics that the game reports (``StatsRecorder.Add``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from tau_trainer.bridge.side_channels import STATS, parse_stat
from tau_trainer.envs.mlagents.side_channel.side_channel import IncomingMessage, SideChannel
from tau_trainer.specs import Aggregation as StatsAggregationMethod

__all__ = ["EnvironmentStats", "StatList", "StatsAggregationMethod", "StatsSideChannel"]

StatList = list[tuple[float, StatsAggregationMethod]]
EnvironmentStats = Mapping[str, StatList]


class StatsSideChannel(SideChannel):
    """Collects statistics until you fetch them."""

    def __init__(self) -> None:
        super().__init__(STATS)
        self.stats: defaultdict[str, StatList] = defaultdict(list)

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Store one statistic."""
        stat = parse_stat(msg.buffer)
        self.stats[stat.key].append((stat.value, stat.aggregation))

    def get_and_reset_stats(self) -> EnvironmentStats:
        """All statistics since the last call, by name."""
        stats, self.stats = self.stats, defaultdict(list)
        return stats

"""Binary rewards: success predicates, aggregation over steps, and the reward that a learner sees."""

from tau_trainer.rewards.aggregation import WindowAggregator
from tau_trainer.rewards.computer import RewardComputer, RewardResult
from tau_trainer.rewards.predicates import PREDICATES, Predicate

__all__ = ["PREDICATES", "Predicate", "RewardComputer", "RewardResult", "WindowAggregator"]

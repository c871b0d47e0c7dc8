"""The progress of a learner, and the summaries that report it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.metrics.summary import Statistics
from tau_trainer.training.learning.figures import Figures
from tau_trainer.training.learning.reward_scale import RewardScaleCheck
from tau_trainer.training.learning.scores import LastRewards


class Progress:
    """Counts the work of one learner, and writes its summaries. Belongs to the event loop.

    Attributes:
        decisions: made for it so far, including earlier sessions of a resumed run.
        max_steps: number of decisions at which it is done and its schedules end.
        opts: gradient steps, including those of earlier sessions.
        samples: transitions that actors pushed, including those of earlier sessions.
        updates: since this process started; the policy's version also counts those of earlier sessions.
        update_seconds: total time of these updates.
        policy_age: age in versions of the experience in the newest update.
        rewards: of the newest summary.
        replays: whether it has a replay memory, so that gradient steps per decision are reported.
        steps_per_decision: gradient steps per decision between the two newest summaries; None: not reported.
        reward_scale: finds reward signals that are too large compared with the environment's.
        figures: gather the statistics of updates, until they are reported with a summary; None: they are reported as
            they come.
        next_summary: number of decisions at which the next summary is due: every ``summary_freq``, and a few in every
        run.
    """

    def __init__(
        self, name: str, hub: MetricsHub, max_steps: int, summary_freq: int, streams: Iterable[str] = ()
    ) -> None:
        """Starts with all counts at 0; ``summary_freq``: decisions between summaries; ``streams``: names of rewards."""
        self.decisions = self.opts = self.samples = self.updates = 0
        self.update_seconds = self.policy_age = 0.0
        self.max_steps = max_steps
        self.rewards, self.reward_scale = LastRewards(), RewardScaleCheck(streams)
        self.figures: Figures | None = None
        self.replays = False
        self.steps_per_decision: float | None = None
        self.name, self.hub = name, hub
        self._summed = 0, 0
        """Decisions and opts at the newest summary."""
        self._summary_freq = self.next_summary = summary_freq

    @property
    def share(self) -> float:
        """Finished share of the decisions, 0 to 1."""
        return min(self.decisions / self.max_steps, 1.0)

    def took(self, seconds: float, statistics: Mapping[str, float] | None) -> None:
        """Count an update that took ``seconds``; its statistics by TensorBoard name, None: it was skipped."""
        self.update_seconds += seconds
        self.hub.add(self.name, keys.UPDATE_SECONDS, seconds)
        if statistics is not None:
            self.updates += 1
            self.policy_age = statistics.get(keys.POLICY_AGE, 0.0)
            self.opts += int(statistics.get(keys.MINIBATCHES, 0.0))
            if self.figures is None:
                self.hub.add_all(self.name, statistics)
            else:
                self.figures.means.add(statistics)

    def gather(self) -> Figures:
        """Gather the statistics of updates from now on."""
        self.figures = Figures(self)
        return self.figures

    def rest(self) -> None:
        """Mark it as done. The last update's statistics come with the summary that ends the run."""
        self.next_summary = self.decisions + self._summary_freq
        self.hub.rest(self.name)

    def flush(self, *, training: bool) -> None:
        """Write a summary now."""
        if self.figures is not None:
            self.figures.record()
        (decisions, opts), self._summed = self._summed, (self.decisions, self.opts)
        if self.replays and self.opts and self.decisions > decisions:
            self.steps_per_decision = (self.opts - opts) / (self.decisions - decisions)
            self.hub.add(self.name, keys.STEPS_PER_DECISION, self.steps_per_decision)
        self._plan_summary()
        summary = self.hub.flush(self.name, self.decisions, training=training)
        self.rewards.take(summary)
        for sentence in self.reward_scale.found(summary.statistics):
            self.hub.warning(sentence, behavior=self.name)

    def _plan_summary(self) -> None:
        self.next_summary = (self.decisions // self._summary_freq + 1) * self._summary_freq

    def state(self) -> dict[str, Any]:
        """The state that a checkpoint keeps, as JSON values."""
        pending = self.hub.pending(self.name, (*keys.EPISODE_REWARDS, keys.ELO))
        return {
            "decisions": self.decisions,
            "opts": self.opts,
            "samples": self.samples,
            "last_rewards": self.rewards.state(),
            "open_rewards": {key: statistics.plain() for key, statistics in pending.items()},
        }

    def load(self, values: Mapping[str, Any]) -> None:
        """Restore :meth:`state`; checkpoints of earlier versions have only decisions."""
        self.decisions = int(values["decisions"])
        self.opts, self.samples = int(values.get("opts", 0)), int(values.get("samples", 0))
        self._summed = self.decisions, self.opts
        self.rewards.load(values.get("last_rewards", {}))
        known = values.get("open_rewards", {})
        self.hub.carry(self.name, {key: Statistics.from_plain(plain) for key, plain in known.items()})
        self._plan_summary()

"""Reward streams that are learned beside the policy: each with an optimizer and a random order of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer import plugins
from tau_trainer.algorithms.offline.recordings import recorded_work
from tau_trainer.algorithms.parameters import FlatParameters, fitting
from tau_trainer.bridge.demonstrations import read_demonstrations
from tau_trainer.columns import Arrays
from tau_trainer.errors import DataError, NonFiniteError
from tau_trainer.memory import Rollout
from tau_trainer.models import ActorCritic
from tau_trainer.models.actor_critic import as_tensor
from tau_trainer.rewards.learned import Experience, LearnedReward
from tau_trainer.settings.signals import LEARNED

if TYPE_CHECKING:
    from tau_trainer.algorithms.base import Setup
    from tau_trainer.settings.signals import AIRLSettings

LogProb = Callable[[Experience], torch.Tensor]
"""Log-probability [n] of the actions of transitions under the policy of now."""

_ROWS = 2048
"""That are paid at once."""


def experience_of(rollout: Rollout, network: ActorCritic, device: torch.device) -> Experience:
    """All transitions of a rollout, but for their log-probability."""
    inputs = network.arrange(rollout.observations)
    following = network.arrange(tuple(rollout.next_observations(i) for i in range(len(rollout.observations))))
    forbidden = np.zeros((len(rollout), network.action.choices.mask_size), np.bool_)  # bool [n, M]
    if rollout.mask is not None:
        forbidden = network.action.forbidden(rollout.mask)
    return Experience(
        [as_tensor(values).to(device) for values in inputs],
        [as_tensor(values).to(device) for values in following],
        torch.from_numpy(1.0 - rollout.terminated.astype(np.float32)).to(device),  # 1 after a cut by a limit
        as_tensor(rollout.column("continuous")).to(device),
        torch.from_numpy(rollout.column("discrete").astype(np.int64)).to(device),
        torch.from_numpy(forbidden).to(device),
        torch.zeros(0, device=device),  # whoever asks for rewards or a loss fills it in: the policy changes
    )


class Signal:
    """One of them.

    Args:
        name: of the stream.
        setup: of the algorithm.
        network: what acts.
        log_prob: under its policy of now.

    Raises:
        DataError: the demonstrations cannot be read, or are of other agents.
    """

    def __init__(self, name: str, setup: Setup, network: ActorCritic, log_prob: LogProb) -> None:
        settings = cast("AIRLSettings", setup.settings.reward_signals[name])
        self.name = name
        self._settings = settings
        self._batch = setup.settings.hyperparameters.batch_size
        self._log_prob = log_prob
        self._device = torch.device(setup.device)
        self.generator = torch.Generator().manual_seed(setup.seed)
        self.model: LearnedReward = plugins.resolve(LEARNED[name])(setup.spec, settings, self.generator)
        self.parameters = FlatParameters(self.model, self._device)
        self._expert: Experience | None = None
        if setup.learns:
            recorded = read_demonstrations([settings.demo_path], setup.spec, setup.images)
            rollout = Rollout(recorded_work(recorded, network))
            if not len(rollout):
                raise DataError(f"demonstration '{settings.demo_path}' holds no decision whose outcome is known")
            self._expert = experience_of(rollout, network, self._device)
            self.model.observe(self._expert, expert=True)

    def passes(self, experience: Experience) -> dict[str, float]:
        """``num_epoch`` passes over transitions of the agents, in minibatches; numbers by TensorBoard name."""
        self.model.observe(experience, expert=False)
        count = len(experience.goes_on)
        size, found = min(self._batch, count), list[dict[str, torch.Tensor]]()
        for _ in range(self._settings.num_epoch):
            order = torch.randperm(count, generator=self.generator).to(self._device)  # int64 [n]
            # The incomplete last one is left out.
            found += [self._step(experience.part(order[i : i + size])) for i in range(0, count - size + 1, size)]
        return self._means(found)

    def steps(self, experience: Experience, count: int) -> dict[str, float]:
        """So many gradient steps, each from a minibatch that is drawn anew; numbers by TensorBoard name."""
        self.model.observe(experience, expert=False)
        # int64 [count, B], with replacement.
        drawn = torch.randint(len(experience.goes_on), (count, self._batch), generator=self.generator).to(self._device)
        return self._means([self._step(experience.part(rows)) for rows in drawn])

    def _step(self, played: Experience) -> dict[str, torch.Tensor]:
        assert self._expert is not None
        # int64 [B], with replacement: as many as of the agents.
        rows = torch.randint(len(self._expert.goes_on), (len(played.goes_on),), generator=self.generator)
        expert = self._expert.part(rows.to(self._device))
        with torch.no_grad():  # the policy is not what this loss changes
            played, expert = (side._replace(log_prob=self._log_prob(side)) for side in (played, expert))
        self.parameters.optimizer.gradient.zero_()
        with torch.enable_grad():
            loss, found = self.model.loss(played, expert)
            loss.backward()  # type: ignore[no-untyped-call]
        self.parameters.descend(self._settings.learning_rate)
        return {name: value.detach() for name, value in found.items()}

    def _means(self, found: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, float]:
        """Raises NonFiniteError."""
        means = {name: float(torch.stack([row[name] for row in found]).mean()) for name in (found[0] if found else ())}
        if not all(np.isfinite(value) for value in means.values()) or not self.parameters.finite():
            raise NonFiniteError(f"the reward signal {self.name} became NaN or infinite; lower its learning_rate")
        return means

    @torch.no_grad()
    def rewards(self, experience: Experience, *, soft: bool) -> torch.Tensor:
        """What is paid for transitions, float32 [n, 1], before the stream's strength.

        ``soft``: to an algorithm that adds the policy's entropy itself.
        """
        paid = []
        for begin in range(0, len(experience.goes_on), _ROWS):
            piece = experience.part(slice(begin, begin + _ROWS))
            log_prob = torch.zeros_like(piece.goes_on) if soft else self._log_prob(piece)  # SAC counts entropy itself
            paid.append(self.model.rewards(piece._replace(log_prob=log_prob)))
        return torch.cat(paid)[:, None]  # [n, 1]

    def backup(self) -> tuple[list[torch.Tensor], torch.Tensor]:
        """A copy of everything, to go back to."""
        return self.parameters.backup(), self.generator.get_state()

    def restore(self, backup: tuple[list[torch.Tensor], torch.Tensor]) -> None:
        """Go back to a :meth:`backup`."""
        self.parameters.restore(backup[0])
        self.generator.set_state(backup[1])

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that is needed to go on bit for bit."""
        arrays = self.parameters.state() | {"random.generator": self.generator.get_state().numpy()}
        return {f"signal.{self.name}.{key}": values for key, values in arrays.items()}

    def load(self, arrays: Arrays, *, fresh: bool) -> None:
        """Go on from :meth:`state`; ``fresh``: with random numbers of its own. Raises CheckpointError."""
        begin = f"signal.{self.name}."
        stored = {key.removeprefix(begin): values for key, values in arrays.items() if key.startswith(begin)}
        random = fitting(stored, "random.generator", tuple(self.generator.get_state().shape))
        with torch.no_grad():
            self.parameters.load(stored)
        if not fresh:
            self.generator.set_state(torch.from_numpy(np.array(random)))

"""The life cycle of an AgentTrainer, and errors in a sentence."""

from __future__ import annotations

from tau_trainer.metrics import PairState

_NEXT: dict[PairState, tuple[PairState, ...]] = {
    PairState.IDLE: (PairState.PREPARING,),
    PairState.PREPARING: (PairState.TRAINING, PairState.PLAYING),
    PairState.TRAINING: (PairState.EVALUATING, PairState.COMPLETED),
    PairState.PLAYING: (PairState.COMPLETED,),
    PairState.EVALUATING: (PairState.COMPLETED,),
}
_EARLY = (PairState.CANCELLED, PairState.FAILED)


def allowed(before: PairState, after: PairState) -> bool:
    """Whether an AgentTrainer may change from ``before`` to ``after``."""
    return not before.ended and (after in _EARLY or after in _NEXT[before])

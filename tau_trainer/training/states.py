"""The life of an AgentTrainer, and errors in a sentence."""

from __future__ import annotations

from tau_trainer.errors import TauError
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
    """Whether an AgentTrainer may go from ``before`` to ``after``."""
    return not before.ended and (after in _EARLY or after in _NEXT[before])


def told(error: Exception) -> str:
    """An error as one sentence: a TauError's own, and for a defect of this program also what kind it is."""
    return str(error) if isinstance(error, TauError) else f"internal error: {type(error).__name__}: {error}"

"""Actions of the scene balance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tau_trainer.specs import Actions


def tilt(continuous: NDArray[np.floating]) -> Actions:
    return Actions(continuous.astype(np.float32), np.zeros((len(continuous), 0), np.int32))

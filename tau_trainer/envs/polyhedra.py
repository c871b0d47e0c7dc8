"""The earlier places of ``drawing`` and ``search`` of :mod:`tau_trainer.games.polyhedra`.

They are imported when something of them is asked for.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tau_trainer.plugins import moved


class _Moved(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by Python itself
            raise AttributeError(name)
        return moved(self.__name__, self.__name__.replace(".envs.", ".games."), name)


for _part in ("drawing", "search"):
    sys.modules[f"{__name__}.{_part}"] = _Moved(f"{__name__}.{_part}")

"""Checks of an environment's arguments; each error is one sentence."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

from tau_trainer.errors import SettingsError


class Arguments:
    """Checks the arguments of one environment; every method raises SettingsError.

    Args:
        environment: its name; messages start with it.
        values: the arguments by name.
    """

    def __init__(self, environment: str, values: dict[str, Any]) -> None:
        self._environment, self._values = environment, values

    def whole(self, *names: str, low: int, high: int | None = None) -> None:
        """Require whole numbers from ``low`` to ``high``."""
        bound = f"of at least {low}" if high is None else f"from {low} to {high}"
        for name in names:
            value = self._values[name]
            fits = isinstance(value, int) and not isinstance(value, bool) and value >= low
            self.require(name, fits and (high is None or value <= high), f"must be a whole number {bound}")

    def number(self, *names: str, low: float = -float("inf"), high: float = float("inf"), above: bool = False) -> None:
        """Require finite numbers from ``low`` to ``high``; ``above``: greater than ``low``."""
        bounds = [f"{'above' if above else 'of at least'} {low:g}"] if low > -float("inf") else []
        bounds += [f"of at most {high:g}"] if high < float("inf") else []
        wanted = " ".join(["must be a number", " and ".join(bounds)]).strip()
        for name in names:
            value = self._values[name]
            fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
            self.require(name, fits and low <= value <= high and not (above and value == low), wanted)

    def flag(self, *names: str) -> None:
        """Require true or false."""
        for name in names:
            self.require(name, isinstance(self._values[name], bool), "must be true or false")

    def require(self, name: str, fits: bool, wanted: str) -> None:
        """Raise SettingsError for ``name`` unless ``fits``; ``wanted`` is the requirement in words."""
        if not fits:
            raise SettingsError(f"{self._environment}: {name} {wanted}, but is {self._values[name]!r}")


def completed(environment: type, arguments: dict[str, Any]) -> SimpleNamespace:
    """All arguments of an environment: ``arguments``, and the defaults of the omitted ones."""
    parameters = inspect.signature(environment).parameters.values()
    return SimpleNamespace(**{parameter.name: parameter.default for parameter in parameters} | arguments)

"""A first look at a game: which behaviors it announces, and which algorithm suits it, measured in seconds."""

from __future__ import annotations

from dataclasses import replace

from tau_trainer.errors import TauError
from tau_trainer.search.advice import Measuring, Tell, algorithm_of, room_of
from tau_trainer.search.speed import Speed
from tau_trainer.search.stillness import Costs, Shown
from tau_trainer.training.advice import SLOW, USUAL, reasons_for_ppo
from tau_trainer.training.starting import (
    Announced,
    announced,
    read_starting,
    starting_text,
)

_SILENT = (
    "no agent of the game asked for a decision, so nothing is known of its behaviors; give it more time with --seconds"
)
_TOO_SLOW = "The game was too slow to be measured in that time; `tau-train advise` takes longer."


class FirstLook(Measuring):
    """Plays a game on one engine with random actions, and learns a little from the experience.

    Args:
        settings: with the environment, and a seed.
        seconds: half of them for playing, half for learning; the start of the engine does not count.
        say: called with sentences for the user.
    """

    def run(self, tell: Tell = lambda *_: None) -> list[Announced]:
        """The behaviors with suitable trainer types; if it was stopped, the behaviors seen so far.

        The engine has ended when this returns or raises. ``tell`` receives the progress.

        Raises TauError: the game cannot be played, or no agent asked for a decision.
        """
        self._tell, settings = tell, self._settings
        game, shown = self._speed("the game", settings, 1, self._seconds / 2), self._seen.shown
        if not shown and not self.stopped:
            raise TauError(_SILENT)
        behaviors = announced(shown, settings.env_settings.env_path)
        single = [behavior for behavior in behaviors if not behavior.groups]
        if not single or self.stopped:
            return behaviors
        tell("learning", 0.0, "learning from what the game shows")
        trainer, why = self._algorithm(game, shown, single)
        suited = {behavior.name: replace(behavior, trainer=trainer, why=why) for behavior in single}
        return [suited.get(each.name, each) for each in behaviors]

    def _algorithm(
        self,
        game: Speed | None,
        shown: Shown,
        single: list[Announced],
    ) -> tuple[str, str]:
        """The trainer type of behaviors without groups by the rule of ``advise``, and why."""
        if game is None:
            return USUAL, _TOO_SLOW
        names = {behavior.name for behavior in single}
        shown = {spec: batch for spec, batch in shown.items() if spec.short_name in names}
        settings = self._settings
        costs: dict[str, float] = {}
        refused: dict[str, str] = {}
        measuring = self.running(Costs(shown, self._seconds / 2))
        try:
            # With one team, so that all learn at once.
            alone = [replace(behavior, trainer=SLOW, teams=(0,)) for behavior in single]
            slow = read_starting(starting_text(settings, alone))
            costs = measuring.measure(settings.having(behaviors=slow.behaviors))
        except TauError as error:
            refused[SLOW] = str(error)
        reasons = [reasons_for_ppo(spec, settings.of_behavior(spec.short_name)) for spec in shown]
        room = room_of(game, costs)
        kind, why = algorithm_of(refused, True, room, frozenset().union(*reasons))
        return kind or USUAL, why

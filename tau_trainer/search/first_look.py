"""A first look at a game: which behaviors it announces, and which algorithm suits it, measured in seconds."""

from __future__ import annotations

from dataclasses import replace

from tau_trainer.errors import TauError
from tau_trainer.evaluation.play import Say
from tau_trainer.search.advice import (
    Tell,
    algorithm_of,
    room_of,
)
from tau_trainer.search.speed import (
    LargestMessages,
    Speed,
    speed_of,
)
from tau_trainer.search.stillness import Costs, Shown
from tau_trainer.settings import RunSettings
from tau_trainer.training.advice import SLOW, USUAL
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


class FirstLook:
    """Plays a game on one engine with random actions, and learns a little from the experience.

    Args:
        settings: with the environment, and a seed.
        seconds: half of them for playing, half for learning; the start of the engine does not count.
        say: called with sentences for the user.
    """

    def __init__(self, settings: RunSettings, seconds: float, say: Say = lambda text: None) -> None:
        self.stopped = False
        self._settings, self._seconds, self._say = settings, seconds, say
        self._costs: Costs | None = None

    def stop(self) -> None:
        """End playing or learning. Call from any thread."""
        self.stopped = True
        if self._costs is not None:
            self._costs.stop()

    def run(self, tell: Tell = lambda *_: None) -> list[Announced]:
        """The behaviors with suitable trainer types; if it was stopped, the behaviors seen so far.

        The engine has ended when this returns or raises. ``tell`` receives the progress.

        Raises TauError: the game cannot be played, or no agent asked for a decision.
        """
        seen = LargestMessages()

        def look(share: float) -> bool:
            tell("the game", share, "plays" if share else "starts")
            return not self.stopped

        settings, half = self._settings, self._seconds / 2
        game = speed_of(
            settings,
            1,
            half,
            seen=seen,
            look=look,
            say=self._say,
        )
        if not seen.shown and not self.stopped:
            raise TauError(_SILENT)
        behaviors = announced(
            seen.shown,
            settings.env_settings.env_path,
        )
        single = [behavior for behavior in behaviors if not behavior.groups]
        if not single or self.stopped:
            return behaviors
        tell("learning", 0.0, "learning from what the game shows")
        trainer, why = self._algorithm(game, seen.shown, single)
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
        self._costs = Costs(shown, self._seconds / 2)
        if self.stopped:  # meanwhile
            self._costs.stop()
        try:
            # With one team, so that all learn at once.
            alone = [replace(behavior, trainer=SLOW, teams=(0,)) for behavior in single]
            slow = read_starting(starting_text(settings, alone))
            changes = {"behaviors": slow.behaviors}
            learns = settings.model_copy(update=changes)
            costs = self._costs.measure(learns)
        except TauError as error:
            refused[SLOW] = str(error)
        room = room_of(game, costs)
        kind, why = algorithm_of(refused, True, room)
        return kind or USUAL, why

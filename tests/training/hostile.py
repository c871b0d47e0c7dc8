"""Names and messages that would steer a terminal."""

from __future__ import annotations

import re
from pathlib import Path

from tau_trainer.metrics import RunReport
from tau_trainer.metrics.games import Games
from tau_trainer.metrics.snapshot import BaselineScore, BehaviorSnapshot, PairMetrics, PairState, RunSnapshot

EVIL = "Evil\x1b]0;owned\x07\x1b[2J\x9b31m\nwarning: all is lost\r\u202e[red]x[/red]"


def clean(text: str, *, colours: bool = False, traceback: bool = False) -> str:
    """``text``, in which nothing steers a terminal but what draws our own tables, and no name has made a line.

    A ``traceback`` shows an exception's text with its line breaks.
    """
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text
    left = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text) if colours else text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", left), left
    assert traceback or not [line for line in left.splitlines() if line.startswith("warning: all is lost")], (
        "a name made a line"
    )
    return text


SNAPSHOT = RunSnapshot(
    EVIL,
    "learn",
    EVIL,
    pairs=(
        PairMetrics(0, PairState.FAILED, error=EVIL),
        PairMetrics(1, PairState.TRAINING, node=EVIL),
    ),
    behaviors=(BehaviorSnapshot(EVIL, games=(Games(EVIL, 1, 1, 0, 0),)),),
    baselines={EVIL: BaselineScore(0.0, 0.5)},
    lessons=(EVIL,),
    figures=(EVIL,),
    message=EVIL,
)


RESULT = RunReport(
    EVIL,
    Path(EVIL),
    "learn",
    "completed",
    9,
    1.0,
    9.0,
    behaviors=SNAPSHOT.behaviors,
    errors=(EVIL,),
    files={EVIL: Path(EVIL)},
)

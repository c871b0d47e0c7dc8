"""``tau-train learn``: train the behaviors of an ML-Agents file, with mlagents-learn's flags."""

from __future__ import annotations

from tau_trainer.cli.options import Config, LearnFlags
from tau_trainer.cli.running import prepare, train


def learn(config: Config = None, /, *, flags: LearnFlags = LearnFlags()) -> int:
    """Train the behaviors of an ML-Agents file.

    Flags and keys mean the same as in mlagents-learn. Without --env, it waits for the editor: press Play when it asks
    you to.
    """
    from tau_trainer.cli.resolving import learn_request, learn_settings

    prepare(flags.output)
    return train("learn", learn_settings(learn_request(config, flags)), flags.output)

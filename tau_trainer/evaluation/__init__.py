"""What a policy is worth, asked where nobody learns: episodes of an environment, and which policy is the best.

An environment is played by :class:`.play.Play`, whoever decides (:mod:`.players`); what comes of it are
:class:`.episodes.Episodes`, or a :class:`.recording.Recording`. Nothing here knows a run or a learner: whoever
evaluates hands in policies and where they play.
"""

"""What a policy is worth, asked where nobody learns: episodes, matches, scores; and which policy is the best.

- An environment is played by :class:`.play.Play`, whoever decides (:mod:`.players`); what happens may be kept as a
  :class:`.recording.Recording`. Tensors are played by :class:`.batched.BatchedEvaluation`, one episode in each copy.
  What comes of either are :class:`.episodes.Episodes`.
- Two players of one game meet in :mod:`.matches`.
- A task scores policies on rows (:class:`.candidates.Evaluating`).
- Policies are compared as :class:`.candidates.ScoredPolicy`; :class:`.candidates.Candidate` says which is exported.

Nothing here knows a run or a learner: whoever evaluates hands in policies and where they play.
"""

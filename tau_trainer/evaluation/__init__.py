"""Evaluates policies without learning: episodes, matches, scores; and chooses the best policy.

- :class:`.play.Play` plays an environment with any :mod:`.players`, and may record it as a
  :class:`.recording.Recording`. :class:`.batched.BatchedEvaluation` plays tensors, one episode in each copy. Both
  return :class:`.episodes.EpisodeLog`.
- Two players of one game meet in :mod:`.matches`.
- A task scores policies on rows (:class:`.candidates.Evaluating`).
- Policies are compared as :class:`.candidates.ScoredPolicy`; a :class:`.candidates.Candidate` chooses which to export.

This package does not depend on runs or learners: the caller passes policies and their environment.
"""

"""What learns a behavior from what its agents lived through: one learner a behavior, in a thread or a process."""

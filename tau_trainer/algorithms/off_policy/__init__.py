"""Learning from a replay memory: the ring, minibatches drawn from it, and the algorithms."""

"""What learns from a replay memory: the ring, what is drawn from it, and the algorithms."""

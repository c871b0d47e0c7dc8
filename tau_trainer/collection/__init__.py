"""How experience is gathered: engines that survive, and decisions in batches."""

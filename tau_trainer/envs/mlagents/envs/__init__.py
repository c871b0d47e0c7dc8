"""Games as environments of Gymnasium and PettingZoo."""

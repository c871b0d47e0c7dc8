"""Commands that train or that prepare a settings file for training."""

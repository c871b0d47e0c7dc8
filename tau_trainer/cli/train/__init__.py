"""Commands that train, and that look at a settings file before."""

"""Programs for people who work on this checkout: set-up, benchmarks, data preparation."""

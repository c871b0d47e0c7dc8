"""Programs for developers of this repository: set-up, benchmarks, data preparation."""

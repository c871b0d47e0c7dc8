"""Plain numpy twins of the batched environments: what those are compared with."""

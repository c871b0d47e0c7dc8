"""Plain numpy twins of the batched environments: the references for comparisons."""

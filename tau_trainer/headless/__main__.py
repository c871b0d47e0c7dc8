"""``python -m tau_trainer.headless``: the engine as a process of its own."""

import os
import sys

# One thread is fastest for arrays this small, and leaves the other cores to the trainer. Set it before importing numpy.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # grpc would report a trainer that ends on stderr

from tau_trainer.headless.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())

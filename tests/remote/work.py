"""What processes do in tests of how they are started."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

BEGUN_IN = os.getpid()
"""Where this module was loaded."""


def main() -> int:
    """Say what this process is like, and end as the first argument says."""
    end, *arguments = sys.argv[1:]
    ignored = [name for name in ("SIGINT", "SIGTERM") if signal.getsignal(getattr(signal, name)) == signal.SIG_IGN]
    if end == "torch":
        import torch

        threads = torch.get_num_threads()
    else:
        threads = threading.active_count()
    data = {
        "arguments": arguments,
        "folder": str(Path.cwd()),
        "forked": os.getpid() != BEGUN_IN,
        "variable": os.environ.get("TAU_TEST"),
        "paths": sys.path,
        "ignored": ignored,
        "blocked": sorted(int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "files": sorted(int(name) for name in os.listdir("/proc/self/fd")),
        "threads": threads,
        "heard": sys.stdin.readline(),
    }
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()
    if end == "raise":
        raise ValueError("it went wrong")
    if end == "wait":
        signal.alarm(60)  # however the test ends
        signal.pause()
    return 7


if __name__ == "__main__":
    sys.exit(main())

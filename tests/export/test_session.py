from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tau_trainer.errors import ExportError
from tau_trainer.export.build import build_model
from tau_trainer.export.session import run_feed, session_of
from tests.export.conftest import MakeNetwork
from tests.waiting import HANG_S

ONES = (np.ones((50, 5), np.float32),)


def test_faults_are_told_as_export_errors(network_of: MakeNetwork) -> None:
    with pytest.raises(ExportError, match="cannot load the model"):
        session_of(b"no model")
    network = network_of(continuous=1)
    session = session_of(build_model(network, network.spec).SerializeToString())
    with pytest.raises(ExportError, match="cannot run the model"):
        run_feed(session, {"obs_0": np.zeros((2, 9), np.float32)})


def test_nothing_is_written_down_about_this_machine(tmp_path: Path) -> None:
    """onnxruntime would leave a file that names it, and send that to its makers."""
    places = "HOME", "TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "LOCALAPPDATA"
    others = {name: value for name, value in os.environ.items() if name not in ("CI", "ORT_DISABLE_TELEMETRY")}
    code = "from tau_trainer.export.session import session_of\ntry: session_of(b'')\nexcept Exception: pass"
    environment = others | dict.fromkeys(places, str(tmp_path)) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=HANG_S)
    assert list(tmp_path.rglob("*")) == []

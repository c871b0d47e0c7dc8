"""How to use and resume a run, on its page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.report.pages import page, section


def test_where_the_policy_is_and_how_to_resume(run: Path) -> None:
    told = section(page(run), "use-and-resume")
    where = f"--run-id {run.name} --results-dir {run.parent.as_posix()}"
    assert f"trained policy (ONNX) not exported yet: tau-train export {run.as_posix()} resume " in told
    assert "in Unity" not in told
    assert told.endswith(f"resume tau-train parallel --resume {where} , with a larger --max-steps")
    (run / "TauAgent.onnx").write_bytes(b"")
    assert f"trained policy (ONNX) {run.as_posix()}/TauAgent.onnx in Unity Drag " in section(
        page(run), "use-and-resume"
    )
    record = json.loads((run / "run.json").read_text("utf-8"))
    for command, expected in (
        (["/bin/tau-train", "learn", "a b", "--env", "evil", "--force"], f"tau-train learn --resume {where}"),
        (["tau-train", "batch", "--resume", "--run-id", "x"], f"tau-train batch --resume {where}"),
        (["train.py"], "Start the run as before, with the same run-id, and ask for it to be resumed."),
        ([], "Start the run as before"),
        ("damaged", "Start the run as before"),
        (["tau-train", "find"], "Start the run as before"),
    ):
        (run / "run.json").write_text(json.dumps(record | {"command": command}), "utf-8")
        told = section(page(run), "use-and-resume")
        assert f" resume {expected}" in told
        assert "evil" not in told, "a run from elsewhere says nothing that the user would paste"
    shutil.rmtree(run / "checkpoints")
    assert "resume " not in section(page(run), "use-and-resume").removeprefix("Use and resume ")
    (run / "TauAgent.onnx").unlink()
    assert 'id="use-and-resume"' not in page(run)

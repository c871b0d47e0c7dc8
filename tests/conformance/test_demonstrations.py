"""Demonstrations between us and mlagents 1.1.0's own loader and writer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tau_trainer.bridge.demonstrations import read_demonstration, write_demonstration
from tests.bridge.demos import HYBRID, made_up
from tests.conformance.conftest import PEER_SCRIPTS, printed
from tools.peers import CACHE, MLAGENTS

pytestmark = pytest.mark.conformance


def mlagents_python() -> Path:
    """mlagents itself wants Python 3.10 and several GB: used where a benchmark has made it."""
    made = [path / "bin" / "python" for path in CACHE.glob(f"{MLAGENTS.name}-py*") if (path / "peer.json").is_file()]
    if not made:
        pytest.skip("mlagents 1.1.0 was not installed by tools/bench")
    return made[0]


def test_mlagents_and_we_read_each_other(tmp_path: Path) -> None:
    demo = made_up()
    ours, theirs = tmp_path / "ours.demo", tmp_path / "theirs.demo"
    write_demonstration(ours, demo, "Walk, then run!")
    request = {"read": str(ours), "write": str(theirs)}
    read = printed(mlagents_python(), PEER_SCRIPTS / "demo.py", request, tmp_path)
    mean = float(demo.returns.mean())
    assert read["meta"][:4] == [1, "Walk then run", len(demo), int(demo.ended.sum())]
    assert read["meta"][4] == pytest.approx(mean)
    assert read["count"] == [len(demo), len(demo)]
    assert read["sensors"] == [[sensor.name, list(sensor.shape)] for sensor in HYBRID.observations]
    assert read["actions"] == [2, [3, 200]]
    # Its loader takes every record but the last as a step, with the reward and the end of the record after.
    np.testing.assert_allclose(read["reward"], demo.reward[1:])
    np.testing.assert_array_equal(read["done"], demo.ended[1:])
    np.testing.assert_allclose(read["continuous"], demo.actions.continuous[:-1])
    np.testing.assert_array_equal(read["discrete"], demo.actions.discrete[:-1])
    for values, sensor in zip(read["obs"], demo.obs, strict=True):
        np.testing.assert_allclose(values, sensor[:-1].ravel())
    assert theirs.read_bytes() == (Path(__file__).parents[1] / "bridge" / "data" / "unity_order.demo").read_bytes()
    assert len(read_demonstration(theirs)) == 6

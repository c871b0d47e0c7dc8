"""The same scripts against mlagents-envs 1.1.0 and against our own API, which is a search and replace away.

`test_engine.py` plays whole games that way.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.headless.build import write_build
from tests.bridge.conftest import free_port
from tests.conformance.conftest import Peer, request_of
from tools.peers import ROOT

pytestmark = pytest.mark.conformance

FAULTS = {
    "crash": "UnityEnvironmentException",
    "stall": "UnityTimeOutException",
    "nan-observation": "RuntimeError",
    "exit": "UnityEnvironmentException",
    "wrong-version": "UnityEnvironmentException",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_script_catches_the_same_exceptions(fault: str, peer: Peer, ours: Peer, tmp_path: Path) -> None:
    build = write_build(tmp_path / "build", "faulty", ["--fault", fault, "--fault-after", "3"])
    wishes = {"expected": FAULTS[fault], "stalls_after": 2 if fault == "stall" else None}
    theirs = peer("catch.py", request_of(build, tmp_path, **wishes))
    own = ours("catch.py", request_of(build, tmp_path, **wishes))
    assert own == theirs
    assert own["caught"] == FAULTS[fault]


def test_names_and_meanings(peer: Peer, ours: Peer) -> None:
    theirs, own = peer("surface.py", {"port": free_port()}), ours("surface.py", {"port": free_port()})
    members, known = own["names"].pop("members"), theirs["names"].pop("members")
    for name in known:
        assert set(known[name]) <= set(members[name]), name
    for part in theirs:
        for name in theirs[part]:
            assert own[part][name] == theirs[part][name], f"{part}: {name}"


@pytest.mark.parametrize("scene", ["basic", "tau"])
def test_a_real_object_is_played_as_by_hand(scene: str, peer: Peer, tmp_path: Path) -> None:
    """`--env mlagents:MODULE:FUNCTION` with the real `UnityEnvironment`: what a pair sees is what the API tells."""
    build = write_build(tmp_path / "build", scene, ("--agents", "3"))
    seen = peer("trained.py", {"build": str(build), "port": free_port(2)}, [ROOT])
    assert seen["as_a_pair"] == seen["by_hand"]
    assert any(ended for _, _, ended, *_ in seen["as_a_pair"]["seen"])

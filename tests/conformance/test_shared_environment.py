"""The extra `[mlagents]`: our bridge and mlagents-envs in one process, on protobuf 3.20.3.

`test_engine.py` shows that each reads what the other writes.
"""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Peer
from tools.peers import ROOT

pytestmark = pytest.mark.conformance


def test_the_bridge_writes_and_reads_there_what_it_does_here(peer: Peer, ours: Peer) -> None:
    there, here = peer("share.py", paths=[ROOT]), ours("share.py")
    assert there["protobuf"] == "3.20.3" != here["protobuf"]
    assert there["environment"] == "mlagents_envs.environment"
    assert there["client"] == "tau_trainer.headless.client"
    assert there["loaded"] == [], "the trainer's packages are not needed"
    assert there["written"] == here["written"]
    assert there["read"] == here["read"]
    assert len(there["read"]) == 31

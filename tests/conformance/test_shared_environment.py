"""The extra `[mlagents]`: our bridge and mlagents-envs in one process, on protobuf 3.20.3, reading each other."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Json, Peer
from tools.peers import ROOT

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def shared(peer: Peer) -> Json:
    """What both packages say of each other in one process."""
    return peer("share.py", paths=[ROOT])


def test_both_run_on_protobuf_3_20_3_without_the_trainers_packages(shared: Json) -> None:
    assert shared["protobuf"] == "3.20.3"
    assert shared["client"] == "tau_trainer.headless.client"
    assert shared["loaded"] == []


def test_the_reference_reads_what_our_engine_writes(shared: Json) -> None:
    read = shared["by_reference"]
    assert read["status"] == 200
    assert read["side_channel"] == "0102"
    assert read["name"] == "Hybrid?team=1"
    assert read["actions"] == [2, [3, 2]]
    assert read["sensors"] == [["a", [3]], ["b", [2, 2]]]
    assert read["ids"] == [4, 7, 9]
    assert read["rewards"] == [0.5, -1.0, 0.0]
    assert read["groups"] == [0, 2, 2]
    assert read["group_rewards"] == [0.0, 0.25, 0.25]
    assert read["ended"] == [9, 11]
    assert read["ended_rewards"] == [1.5, -2.0]
    assert read["interrupted"] == [True, False]
    no = [False, False]
    assert read["masks"] == [[[False, True, False], [False, *no], [True, *no]], [no, no, [False, True]]]


def test_we_read_what_the_reference_writes(shared: Json) -> None:
    """The same step, written again by the reference's own classes: both readers agree on every number."""
    ours, theirs = shared["by_us"], shared["by_reference"]
    for key in (
        "ids",
        "rewards",
        "groups",
        "group_rewards",
        "obs",
        "ended",
        "ended_rewards",
        "ended_obs",
        "interrupted",
    ):
        assert ours[key] == theirs[key], key
    flat = [[flag for branch in theirs["masks"] for flag in branch[agent]] for agent in range(3)]
    assert ours["mask"] == flat


def test_actions_travel_both_ways(shared: Json) -> None:
    actions = shared["actions"]
    assert actions["read_by_us"] == actions["sent"]
    assert actions["read_by_reference"] == actions["sent"]
    assert actions["our_side_channel"] == "abc"
    assert actions["their_side_channel"] == "xyz"


def test_first_words_travel_both_ways(shared: Json) -> None:
    first = shared["initializations"]
    assert first["engine"] == ["AcademySingleton", "1.5.0", True]
    assert first["seed"] == 42
    assert first["trainer"]["seed"] == 42
    assert first["trainer"]["num_areas"] == 3
    assert all(first["trainer"]["capabilities"].values())


def test_the_headless_scenes_run_there(shared: Json) -> None:
    assert shared["scene"] == pytest.approx([0.2] * 5)

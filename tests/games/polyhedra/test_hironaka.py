"""The polyhedra trainer: two policies against each other, rho before and after, and games of what was learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from tau_trainer.algorithms.batched import ActorInput
from tau_trainer.errors import SettingsError
from tau_trainer.games.polyhedra.hironaka import Best, HironakaCollector, table
from tau_trainer.games.polyhedra.matches import MatchSettings, rho_matrix
from tau_trainer.games.polyhedra.rules import Rules
from tau_trainer.games.polyhedra.table import player_of
from tau_trainer.metrics import MetricsHub, RunReport
from tau_trainer.runs.checkpoints import Checkpoint, latest_checkpoint
from tau_trainer.runs.folder import RunFolder
from tau_trainer.runs.run import Run
from tau_trainer.settings import load_batched
from tau_trainer.settings.document import find_config
from tau_trainer.training.batched.run import CopiesCollector
from tests.games.polyhedra.hironaka import train, write


def newest(report: RunReport, policy: str) -> Checkpoint:
    checkpoint = latest_checkpoint(report.folder / "checkpoints", policy).checkpoint
    assert checkpoint is not None
    return checkpoint


def test_a_run_says_what_all_pairs_are_worth(values: dict[str, Any], tmp_path: Path) -> None:
    report = train(values, tmp_path, "both")
    assert report.exit_code == 0
    told = json.loads((report.folder / "rho.json").read_text("utf-8"))
    before, after = told["before"], told["after"]
    assert (before["decisions"], after["decisions"]) == (0, 1664)  # the first round of all decisions asked for
    setting = MatchSettings(3, 5, 20, 10, Rules(rescale=True))
    for one in (before, after):
        assert one["hosts"][-1] == one["agents"][-1] == "network"
        hosts, agents = ({name: name for name in one[side][:-1]} for side in ("hosts", "agents"))
        wanted = rho_matrix(hosts, agents, 20, setting, seed=3 + 2**31)
        np.testing.assert_allclose(np.array(one["rho"])[:-1, :-1], wanted.rho, atol=1e-5)
        np.testing.assert_allclose(np.array(one["unfinished"])[:-1, :-1], wanted.unfinished, atol=1e-5)
    # The last figures are those of the policies that were saved.
    host, agent = (player_of(role, str(report.folder)) for role in ("host", "agent"))
    again = rho_matrix({"network": host}, {"network": agent}, 20, setting, seed=3 + 2**31)
    assert after["rho"][-1][-1] == pytest.approx(float(again.rho), abs=1e-5)
    assert before["rho"][-1] != after["rho"][-1]
    assert isinstance(host, Best)
    assert isinstance(agent, Best)
    for one in (host, agent):
        one.counts.zero_()
    rho_matrix({**hosts, "network": host}, {**agents, "network": agent}, 20, setting, seed=3 + 2**31)
    assert after["actions"] == {"host": host.counts.tolist(), "agent": agent.counts.tolist()[:3]}
    assert min(map(sum, after["actions"].values())) > 100
    assert (report.folder / "rho.png").read_bytes()[:4] == b"\x89PNG"
    assert report.verdict is not None
    *lines, of_host, of_agent = report.verdict.splitlines()
    assert "\n".join(lines) == table(before, after)
    assert of_host.startswith("Exported of 'host': the last policy, after ")
    assert of_agent.startswith("Exported of 'agent': the last policy, after ")
    assert lines[0].split() == ["rho", *after["agents"]]
    assert lines[4].split()[1] == f"{after['rho'][3][0]:.3f}"
    assert lines[-2].endswith(f"{before['rho'][-1][-1]:.3f} > {after['rho'][-1][-1]:.3f}")
    assert (report.folder / "log.jsonl").read_text("utf-8").count("Rho/choose_first") >= 2


def game_of(values: dict[str, Any], tmp_path: Path) -> HironakaCollector:
    folder = RunFolder.create(tmp_path / "runs", "one", resume=False, force=True)
    return HironakaCollector(load_batched(write(values, tmp_path)), Run(folder, MetricsHub([]), 0))


def test_each_learns_against_the_other_as_it_is_now(values: dict[str, Any], tmp_path: Path) -> None:
    game = game_of(values, tmp_path).playing
    host, agent = game.policies
    for entry, other in ((host, agent), (agent, host)):
        met = game.env.sides[entry.name].opponent  # type: ignore[index]
        state = game.env.sides[entry.name].view()  # type: ignore[index]
        if entry is host:  # its opponent, an agent, sees what the host named
            coords = torch.tensor([[True, True, False]]).expand(len(state.points), -1)
            state = state._replace(coords=coords, choices=coords)
        else:
            state = state._replace(coords=None, choices=None)
        for factor in (1.0, -1.0):
            with torch.no_grad():
                other.learner.algorithm.parameters.optimizer.parameters.mul_(factor)
            rows, choices = game.env.seen(state)
            wanted = other.actor.act(ActorInput(rows[:, None], choices[:, None]), deterministic=True).actions[:, 0]
            generator = other.learner.algorithm.generator.get_state()
            assert (met(state) == wanted).all()
            assert (other.learner.algorithm.generator.get_state() == generator).all()


@pytest.mark.usefixtures("unmeasured")
def test_a_fixed_player_stands_in_place_of_a_policy(values: dict[str, Any], tmp_path: Path) -> None:
    values["behaviors"]["agent"] = {"player": "choose_first"}
    report = train(values, tmp_path, "host", default_settings__max_steps=400)
    told = json.loads((report.folder / "rho.json").read_text("utf-8"))["after"]
    assert told["hosts"][-1] == "network"
    assert told["agents"] == ["random", "choose_first", "choose_last"]
    assert [one.name for one in report.behaviors] == ["host"]
    assert player_of("agent", str(report.folder)) is player_of("agent", "choose_first")
    values["behaviors"] = {"host": {"player": "zeillinger"}, "agent": load(values)["agent"]}
    told = json.loads(
        (train(values, tmp_path, "agent", default_settings__max_steps=400).folder / "rho.json").read_text("utf-8")
    )["after"]
    assert "network" not in told["hosts"]
    assert told["agents"][-1] == "network"


def load(values: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(find_config("hironaka").read_text("utf-8"))["behaviors"]
    return read


@pytest.mark.usefixtures("unmeasured")
def test_goes_on_exactly(values: dict[str, Any], tmp_path: Path) -> None:
    whole = train(values, tmp_path, "whole")
    advance = CopiesCollector.advance

    def end(copies: CopiesCollector) -> bool:
        went_on = advance(copies)
        if copies.steps >= 960:
            copies.run.asked.set()
        return went_on

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CopiesCollector, "advance", end)
        train(values, tmp_path, "cut")
    resumed = train(values, tmp_path, "cut", checkpoint_settings__resume=True)
    for policy in ("host", "agent"):
        one, other = newest(whole, policy), newest(resumed, policy)
        assert one.tensors.keys() == other.tensors.keys()
        for name, array in one.tensors.items():
            np.testing.assert_array_equal(array, other.tensors[name], name)
    assert (whole.folder / "rho.json").read_text() == (resumed.folder / "rho.json").read_text()


def unsaid(values: dict[str, Any], key: str) -> None:
    here = values["behaviors"]["agent"]
    *sections, last = key.split(".")
    for section in sections:
        here = here[section]
    del here[last]


@pytest.mark.parametrize(
    "key",
    [
        "trainer_type",
        "reward_signals.extrinsic.gamma",
        "hyperparameters.batch_size",
        "hyperparameters.buffer_size",
        "hyperparameters.learning_rate",
        "hyperparameters.exploration",
        "hyperparameters.tau",
        "hyperparameters.double",
        "hyperparameters.max_grad_norm",
        "hyperparameters.weight_decay",
        "network_settings.normalize",
        "network_settings.net_arch",
    ],
)
def test_there_are_no_hidden_defaults(values: dict[str, Any], tmp_path: Path, key: str) -> None:
    unsaid(values, key)
    told = {"trainer_type": "", "network_settings.net_arch": "network_settings.hidden_units"}.get(key, key)
    with pytest.raises(SettingsError, match=rf"behaviors\.agent\.{told}.* (is missing|unknown key)"):
        train(values, tmp_path, "never")
    assert not (tmp_path / "results" / "never").exists()


@pytest.mark.parametrize(
    ("policies", "says"),
    [
        ({"host": None}, r"behaviors\.agent is missing; .*player: choose_first"),
        ({"agent": None}, r"behaviors\.host is missing; .*player: zeillinger"),
        (
            {"host": None, "agent": None, "hots": None},
            r"behaviors\.hots: hironaka has only host and agent",
        ),
        ({"host": None, "agent": {"player": "chose_first"}}, "no agent named 'chose_first'; did you mean choose_first"),
        (
            {"agent": None, "host": {"trainer_type": "ppo", "network_settings": {"memory": {}}}},
            r"behaviors\.host\.network_settings\.memory: a position says all",
        ),
    ],
)
def test_what_is_refused(values: dict[str, Any], tmp_path: Path, policies: dict[str, Any], says: str) -> None:
    given = values["behaviors"]
    values["behaviors"] = {name: one or given.get(name, given["host"]) for name, one in policies.items()}
    with pytest.raises(SettingsError, match=says):
        train(values, tmp_path, "never")


def test_a_collector_checks_its_settings(values: dict[str, Any], tmp_path: Path) -> None:
    del values["behaviors"]["agent"]
    with pytest.raises(SettingsError, match=r"behaviors\.agent is missing"):
        game_of(values, tmp_path)
    with pytest.raises(SettingsError, match="devices 2: hironaka's two sides learn in one process; remove it"):
        HironakaCollector.check(load_batched(find_config("hironaka")).model_copy(update={"devices": 2}))

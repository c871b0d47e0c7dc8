"""Where a cluster is, and who may connect to it. Nothing here imports Ray."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tau_trainer.cluster.address import address_of, answers, environment_of
from tau_trainer.errors import ClusterError
from tau_trainer.settings import ClusterSettings


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_private_one_has_a_token_and_listens_on_loopback_whatever_a_user_has() -> None:
    for address in ("local", "local:3"):
        settings = ClusterSettings(address=address)
        assert address_of(settings) == "local"
        variables = environment_of(settings)
        assert variables["RAY_AUTH_MODE"] == "token"
        assert len(variables["RAY_AUTH_TOKEN"]) == 64
        assert variables["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
        assert variables["RAY_worker_niceness"] == "0"


def test_one_that_runs_is_found_by_its_address_or_rays_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening = f"127.0.0.1:{server.getsockname()[1]}"
        assert address_of(ClusterSettings(address=listening)) == listening
        monkeypatch.setenv("RAY_ADDRESS", listening)
        assert address_of(ClusterSettings(address="RAY_ADDRESS")) == listening
        assert answers(listening, 1.0)
    with pytest.raises(ClusterError, match=rf"^--cluster {listening}: no answer; give HOST:PORT"):
        address_of(ClusterSettings(address=listening))


@pytest.mark.parametrize(
    ("value", "said"), [("", "is not set"), ("auto", "is 'auto'"), ("ray://host:10001", "is 'ray://host:10001'")]
)
def test_a_variable_that_names_no_cluster(value: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", value)
    with pytest.raises(ClusterError, match=rf"^--cluster RAY_ADDRESS: this variable {said}; set it to HOST:PORT"):
        address_of(ClusterSettings(address="RAY_ADDRESS"))


def test_without_a_token_somebody_must_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ClusterSettings(address="head:6379")
    with pytest.raises(ClusterError, match=r"^--cluster head:6379: without a token, .* or add --insecure"):
        environment_of(settings)
    insecure = ClusterSettings(address="head:6379", insecure=True)
    assert environment_of(insecure)["RAY_AUTH_MODE"] == "disabled"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    assert environment_of(settings)["RAY_AUTH_MODE"] == "token"
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("secret")
    assert environment_of(insecure)["RAY_AUTH_MODE"] == "token", "where there is one it is used"

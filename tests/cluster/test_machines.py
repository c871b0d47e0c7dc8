"""A cluster by ssh: what machines are told, with stubs for ssh and Ray; and with both, where there is an sshd."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cluster import machines
from tau_trainer.cluster.inventory import MachinesSettings
from tau_trainer.cluster.machines import down, flags_of, ssh_words, status, token_path, up
from tau_trainer.errors import ClusterError
from tests.waiting import until

SSH = """#!/bin/sh
echo "$*" >>{folder}/ssh-words
while [ "$1" != sh ]; do host=$1; shift; done
[ "$host" = gone ] && {{ echo "ssh: connect to host gone port 22: No route to host" >&2; exit 255; }}
echo "welcome to $host"
HOME={folder}/$host exec "$@"
"""
RAY = """#!/bin/sh
echo "$*" >>$HOME/ray
echo "$RAY_AUTH_MODE $(cat $RAY_AUTH_TOKEN_PATH) loopback=$RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" >>$HOME/ray
temp=$(echo "$*" | sed 's/.*--temp-dir=\\([^ ]*\\).*/\\1/')
mkdir -p "$temp" && chmod 777 "$temp"  # as Ray does
[ -e $HOME/refuses ] && {{ echo "the port is in use"; exit 1; }}
echo "Ray runtime started."
trap 'kill $!; exit' TERM
sleep 50 & wait
"""


LAB = f"lab-{os.getpid()}"


@dataclass
class Lab:
    """Where machines are folders."""

    folder: Path

    def told(self, host: str) -> list[str]:
        """What Ray was told there."""
        return (self.folder / host / "ray").read_text().splitlines()

    def settings(self, **values: Any) -> MachinesSettings:
        given = {"name": LAB, "head": "node1", "workers": ["node2"], "bin": str(self.folder)} | values
        return MachinesSettings.model_validate(given)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    for name, text in (("ssh", SSH), ("ray", RAY)):
        (tmp_path / name).write_text(text.format(folder=tmp_path))
        (tmp_path / name).chmod(0o700)
    for host in ("node1", "node2"):
        (tmp_path / host).mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    yield Lab(tmp_path)
    for path in tmp_path.glob("node*/.tau-train/clusters/*/*/pid"):
        with suppress(ProcessLookupError):
            os.kill(int(path.read_text()), 15)
    for path in Path("/tmp").glob(f"tau-{LAB}-*"):
        shutil.rmtree(path)


def test_a_cluster_begins_is_looked_at_and_ends(lab: Lab) -> None:
    settings = lab.settings()
    assert [answer.state for answer in status(settings)] == ["absent", "absent"]
    assert [answer.state for answer in up(settings, lab.folder)] == ["running", "running"]
    path = lab.folder / f".tau-train/clusters/{LAB}/token"
    token = path.read_text()
    assert (len(token), path.stat().st_mode & 0o777) == (64, 0o600)
    for host in ("node1", "node2"):
        words, seen = lab.told(host)
        assert words.startswith(f"start --block --temp-dir=/tmp/tau-{LAB}-")
        rays = Path(words.split()[2].removeprefix("--temp-dir="))
        assert (rays.stat().st_mode & 0o777, rays.parent.stat().st_mode & 0o777) == (0o777, 0o700)
        assert seen == f"token {token} loopback="
        kept = lab.folder / host / ".tau-train/clusters" / LAB / host
        assert (kept / "token").stat().st_mode & 0o777 == 0o600
        assert (kept / "pid").exists()
    assert token_path(settings) == f"~/.tau-train/clusters/{LAB}/node1/token"
    assert token not in (lab.folder / "ssh-words").read_text(), "others see command lines"
    assert [answer.state for answer in status(settings)] == ["running", "running"]
    assert [answer.state for answer in down(settings, lab.folder)] == ["ended", "ended"]
    asked = (lab.folder / "ssh-words").read_text().splitlines()
    assert [line.split()[-3] for line in asked[-2:]] == ["node2", "node1"], "nobody loses the head"
    assert [answer.state for answer in status(settings)] == ["absent", "absent"]
    assert not list(lab.folder.rglob(".tau-train")), "neither here nor there"
    assert "stop" not in "".join(lab.told("node1")), "which would end every Ray of the machine"


def test_what_died_is_begun_again_with_the_same_token_and_without_one_machine_the_others_are_ended(lab: Lab) -> None:
    settings = lab.settings()
    up(settings, lab.folder)
    pid = int((lab.folder / f"node2/.tau-train/clusters/{LAB}/node2/pid").read_text())
    os.kill(pid, 15)
    until(lambda: [answer.state for answer in status(settings)] == ["running", "died"])
    assert [answer.state for answer in up(settings, lab.folder)] == ["running", "running"]
    assert len(lab.told("node1")) == 2, "what runs is left alone"
    assert len(set(lab.told("node2")[1::2])) == 1
    assert len(lab.told("node2")) == 4
    settings = lab.settings(workers=["gone", "node2"])
    assert [answer.state for answer in status(settings)] == ["running", "unreachable", "running"]
    with pytest.raises(
        ClusterError, match=r"^gone: ssh cannot run a shell there \(.*No route to host\); to check, log in once with"
    ):
        down(settings, lab.folder)
    assert [answer.state for answer in status(settings)] == ["absent", "unreachable", "absent"]


def test_a_machine_where_ray_does_not_begin_says_why(lab: Lab) -> None:
    (lab.folder / "node2" / "refuses").touch()
    with pytest.raises(ClusterError, match=r"^node2: the port is in use$"):
        up(lab.settings(), lab.folder)
    with pytest.raises(ClusterError, match=r"^node1: there is no program /nowhere/ray; set bin to its folder$"):
        up(lab.settings(name=f"{LAB}-2", bin="/nowhere/"), lab.folder)
    (lab.folder / "node1/.tau-train/clusters" / f"{LAB}-3").touch()
    with pytest.raises(
        ClusterError, match=r"^node1: .*/node1 or /tmp/.* is not a folder of this user; move away what is there"
    ):
        up(lab.settings(name=f"{LAB}-3"), lab.folder)


def test_a_folder_for_ray_that_somebody_else_could_change_is_refused(lab: Lab) -> None:
    settings = lab.settings(workers=[])
    up(settings, lab.folder)
    rays = Path(lab.told("node1")[0].split()[2].removeprefix("--temp-dir=")).parent
    down(settings, lab.folder)
    rays.mkdir(mode=0o755)
    assert [answer.state for answer in up(settings, lab.folder)] == ["running"], "one of our own is closed"
    assert rays.stat().st_mode & 0o777 == 0o700
    down(settings, lab.folder)
    (lab.folder / "elsewhere").mkdir()
    rays.symlink_to(lab.folder / "elsewhere")
    try:
        with pytest.raises(
            ClusterError, match=rf"^node1: .* or {rays} is not a folder of this user; move away what is there"
        ):
            up(settings, lab.folder)
    finally:
        rays.unlink()
    assert not list((lab.folder / "elsewhere").iterdir())


def test_the_path_to_rays_sockets_is_short_however_long_the_names_are(lab: Lab) -> None:
    """A socket's name has 107 characters at most."""
    name, host = "a" * 20, "b" * 200
    settings = lab.settings(name=name, head=host, workers=[])
    (lab.folder / "home").mkdir()
    (lab.folder / host).symlink_to(lab.folder / "home")
    answers = up(settings, lab.folder)
    try:
        assert [answer.state for answer in answers] == ["running"]
        rays = lab.told(host)[0].split()[2].removeprefix("--temp-dir=")
    finally:
        down(settings, lab.folder)
    uid = str(os.getuid())
    assert len(rays) - len(uid) + 10 + len("/session_2026-11-26_14-30-23_758114_4194304/sockets/plasma_store.1") <= 107


def test_what_does_not_end_is_told_with_its_process(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    (lab.folder / "ray").write_text(RAY.format(folder=lab.folder).replace("'kill $!; exit'", "''"))
    settings = lab.settings(workers=[])
    up(settings, lab.folder)
    pid = int((lab.folder / f"node1/.tau-train/clusters/{LAB}/node1/pid").read_text())
    monkeypatch.setattr(machines, "_HALVES", 1)
    with pytest.raises(ClusterError, match=rf"^node1: its Ray does not end; check process {pid} there$"):
        down(settings, lab.folder)
    os.kill(pid, 9)


def test_without_ssh(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(lab.folder / "empty"))
    assert [answer.text for answer in status(lab.settings(workers=[]))] == [
        "there is no program ssh on this machine; install OpenSSH's client"
    ]


def test_what_ray_is_told(lab: Lab) -> None:
    worker = {"host": "node2", "address": "10.0.0.2", "cpu": 6, "resources": {"unity": 4}}
    settings = lab.settings(head={"host": "node1", "address": "10.0.0.1"}, workers=[worker, "node3"], port=7000)
    head, second, third = (flags_of(settings, each) for each in (settings.head, *settings.workers))
    assert head == [
        "--head", "--node-ip-address=10.0.0.1", "--port=7000", "--include-dashboard=false",
        "--dashboard-host=127.0.0.1", "--num-cpus=0",
    ]  # fmt: skip
    assert second[:3] == ["--address=10.0.0.1:7000", "--node-ip-address=10.0.0.2", "--num-cpus=6"]
    assert json.loads(second[3].removeprefix("--resources=")) == {"unity": 4}
    assert third == ["--address=10.0.0.1:7000"]
    alone = lab.settings(workers=[], dashboard=True)
    assert "--num-cpus=0" not in flags_of(alone, alone.head), "actors must be somewhere"
    assert {"--include-dashboard=true", "--dashboard-host=127.0.0.1"} < set(flags_of(alone, alone.head))


def test_how_machines_are_reached(lab: Lab) -> None:
    settings = lab.settings(ssh={"user": "me", "port": 2222, "identity": "~/key", "config": "conf"})
    words = ssh_words(settings, settings.head)
    assert words[:2] == ["ssh", "-T"]
    assert "BatchMode=yes" in words
    assert words[-9:] == ["-F", "conf", "-i", "~/key", "-p", "2222", "-l", "me", "node1"]


def test_what_a_login_there_has_set_for_another_cluster_does_not_count_and_all_on_loopback_stays_there(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = RAY.replace('echo "$RAY_AUTH_MODE', 'echo "${{RAY_AUTH_TOKEN-}} ${{RAY_ADDRESS-}} $RAY_AUTH_MODE')
    (lab.folder / "ray").write_text(heard.format(folder=lab.folder))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of another")
    monkeypatch.setenv("RAY_ADDRESS", "another:6379")
    up(lab.settings(head={"host": "node1", "address": "127.0.0.1"}, workers=[]), lab.folder)
    said = lab.told("node1")[1]
    assert (said.startswith("  token "), said.endswith(" loopback=0")) == (True, True)


SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Path]:
    """An sshd of this user's on loopback; the file by which ssh reaches it as ``machine``."""
    if SSHD is None or shutil.which("ssh-keygen") is None:
        pytest.skip("there is no sshd here")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    key = (tmp_path / "host.pub").read_text().split()[:2]
    (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {' '.join(key)}\n")
    (tmp_path / "keys").write_text((tmp_path / "user.pub").read_text())
    for name, lines in {
        "sshd": [
            f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {tmp_path / 'host'}", "UsePAM no",
            f"AuthorizedKeysFile {tmp_path / 'keys'}", "StrictModes no", f"PidFile {tmp_path / 'pid'}",
            "PasswordAuthentication no",
        ],
        "config": [
            "Host machine", "HostName 127.0.0.1", f"Port {port}", f"IdentityFile {tmp_path / 'user'}",
            f"UserKnownHostsFile {tmp_path / 'known'}", "IdentitiesOnly yes",
        ],
    }.items():  # fmt: skip
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    with subprocess.Popen([SSHD, "-D", "-e", "-f", tmp_path / "sshd"], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            if not any("Server listening" in line for line in process.stderr):
                pytest.skip("sshd does not begin here")
            yield tmp_path / "config"
        finally:
            process.kill()


@pytest.mark.slow
def test_a_real_ray_begins_and_ends_by_a_real_ssh(server: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    settings = MachinesSettings.model_validate(
        {
            "name": f"test-{os.getpid()}", "head": {"host": "machine", "address": "127.0.0.1", "cpu": 1}, "port": port,
            "bin": str(Path(sys.executable).parent), "ssh": {"config": str(server)},
        }
    )  # fmt: skip
    try:
        assert [answer.state for answer in up(settings, tmp_path)] == ["running"]
        assert [answer.state for answer in status(settings)] == ["running"]
        with socket.create_connection(("127.0.0.1", port), 5.0):
            pass
    finally:
        assert [answer.state for answer in down(settings, tmp_path)] == ["ended"]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), 5.0)
    assert [answer.state for answer in machines.status(settings)] == ["absent"]

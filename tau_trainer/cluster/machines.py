"""A Ray cluster of machines with ssh access: how to start, check and end it.

Each machine runs ``ray start --block``, one process that ends its own Ray when it is ended. So only this cluster is
ended. Ray's launcher (``ray up``) is not used: its ``down`` always runs ``ray stop`` on every machine, which ends all
of a user's Ray processes there, and it copies the private key to the head.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from tau_trainer.cluster.inventory import Machine, MachinesSettings
from tau_trainer.errors import ClusterError

State = Literal["running", "ended", "died", "absent", "failed", "unreachable"]
_MARK = "tau-train: "
"""Prefix of the answer's line: a login can print other lines."""
_LIMIT_S = 180.0
_NAMED = 12
"""Letters of the cluster's name in its folder's name, which must be short because it contains sockets."""
_HALVES = 180
"""Half seconds for which a machine waits until its Ray has started or ended."""
_COMMON = """\
set -u
umask 077
home="$HOME/{home}"
temp="{temp}-$(id -u)"
ray={ray}
say() {{ echo "{mark}$1 ${{2-$(tail -n 1 "$home/log" 2>/dev/null)}}"; exit 0; }}
runs() {{ pid=$(cat "$home/pid" 2>/dev/null) && ps -ww -p "$pid" -o args= 2>/dev/null | grep -qF "$temp"; }}
"""
_BEGIN = """\
runs && say running
command -v "$ray" >/dev/null || say failed "there is no program $ray; set bin to its folder"
mkdir -p "$home" && {{ mkdir "$temp" 2>/dev/null || {{ [ -O "$temp" ] && [ ! -L "$temp" ]; }}; }} &&
    chmod 700 "$home" "$temp" ||
    say failed "$home or $temp is not a folder of this user; move away what is there"
printf %s {token} >"$home/token"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$home/token" RAY_USAGE_STATS_ENABLED=0 RAY_worker_niceness=0{loopback}
unset RAY_AUTH_TOKEN RAY_ADDRESS
: >"$home/log"  # here, because the process after & can be late, and an earlier log says that Ray started
# In a subfolder: Ray makes its own folder accessible to every user of the machine.
nohup "$ray" start --block --temp-dir="$temp/r" --disable-usage-stats {flags} >>"$home/log" 2>&1 </dev/null &
echo $! >"$home/pid"
count=0
until grep -q "Ray runtime started" "$home/log" 2>/dev/null; do
    count=$((count + 1))
    kill -0 $! 2>/dev/null && [ $count -lt {halves} ] || say failed
    sleep 0.5
done
say running
"""
_STATUS = """\
runs && say running
[ -e "$home/pid" ] && say died
say absent
"""
_END = """\
found=absent
if runs; then
    found=ended
    kill "$pid"
    count=0
    while runs; do
        count=$((count + 1))
        [ $count -lt {halves} ] || say failed "its Ray does not end; check process $pid there"
        sleep 0.5
    done
fi
rm -rf "$home" "$temp"
(cd "$HOME" && rmdir -p "$(dirname "{home}")") 2>/dev/null  # if empty
say $found
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """A machine's answer."""

    machine: Machine
    state: State
    text: str = ""
    """The last line of Ray's log there, or of ssh's error."""


def up(settings: MachinesSettings, home: Path) -> list[Answer]:
    """Start the cluster: the head, then all workers at once. Machines where it already runs are left alone.

    Args:
        settings: the cluster's settings.
        home: the user's folder here; the token is stored below it.

    Raises:
        ClusterError: a machine cannot be reached, or Ray does not start there.
    """
    token = _token(settings, home)
    head = _asked(settings, [settings.head], token)
    _refuse(head)
    workers = _asked(settings, settings.workers, token)
    _refuse(workers)
    return [*head, *workers]


def status(settings: MachinesSettings) -> list[Answer]:
    """The state of every machine. Raises nothing: a machine that cannot be reached has its own state."""
    return _each(settings, (settings.head, *settings.workers), _STATUS)


def down(settings: MachinesSettings, home: Path) -> list[Answer]:
    """End the cluster: the workers, then the head. The token is deleted.

    Raises:
        ClusterError: a machine cannot be reached, or its Ray does not end. The others are still ended.
    """
    answers = [*_each(settings, settings.workers, _END), *_each(settings, [settings.head], _END)]
    _refuse(answers)
    path = _token_file(settings, home)
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the folder is not empty
        for folder in list(path.parents)[:3]:
            folder.rmdir()
    return answers


def token_path(settings: MachinesSettings) -> str:
    """Path of the token on the head, for a shell there."""
    return f"~/{_folder(settings, settings.head)}/token"


def _refuse(answers: Iterable[Answer]) -> None:
    wrong = [f"{answer.machine.host}: {answer.text}" for answer in answers if answer.state in ("failed", "unreachable")]
    if wrong:
        raise ClusterError("; ".join(wrong))


def _token_file(settings: MachinesSettings, home: Path) -> Path:
    return home / ".tau-train" / "clusters" / settings.name / "token"


def _token(settings: MachinesSettings, home: Path) -> str:
    """The token of an earlier ``up``, or a new one."""
    path = _token_file(settings, home)
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(32), encoding="ascii")
        return path.read_text(encoding="ascii")
    except OSError as error:
        raise ClusterError(f"the token cannot be written to {path} ({error.strerror}); make room there") from error


def _folder(settings: MachinesSettings, machine: Machine) -> str:
    """A machine's folder below the user's home folder, which machines can share."""
    return f".tau-train/clusters/{settings.name}/{machine.host}"


def _asked(settings: MachinesSettings, machines: Iterable[Machine], token: str) -> list[Answer]:
    """Start Ray on these machines."""
    loopback = " RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0" if settings.on_loopback else ""  # else it listens everywhere
    return _each(settings, machines, _BEGIN, {"token": shlex.quote(token), "loopback": loopback})


def flags_of(settings: MachinesSettings, machine: Machine) -> list[str]:
    """Flags of ``ray start`` for a machine."""
    head, cores = machine == settings.head, machine.cpu
    if head:
        place = f"--node-ip-address={machine.address or machine.host}"
        dashboard = [f"--include-dashboard={str(settings.dashboard).lower()}", "--dashboard-host=127.0.0.1"]
        flags = ["--head", place, f"--port={settings.port}", *dashboard]
        cores = 0 if cores is None and settings.workers else cores
    else:
        address = [] if machine.address is None else [f"--node-ip-address={machine.address}"]
        flags = [f"--address={settings.address}", *address]
    flags += [] if cores is None else [f"--num-cpus={cores}"]
    return flags + ([f"--resources={json.dumps(machine.resources)}"] if machine.resources else [])


def _each(
    settings: MachinesSettings, machines: Iterable[Machine], script: str, values: Mapping[str, str] | None = None
) -> list[Answer]:
    """Run a script on these machines, all at once."""
    machines = list(machines)
    with ThreadPoolExecutor(max(1, len(machines)), "ssh") as pool:
        return list(pool.map(lambda machine: _ask(settings, machine, script, values or {}), machines))


def _ask(settings: MachinesSettings, machine: Machine, script: str, values: Mapping[str, str]) -> Answer:
    mark = hashlib.sha256(f"{settings.name} {machine.host}".encode()).hexdigest()
    place = f"/tmp/tau-{settings.name[:_NAMED]}-{mark[:6]}"
    ray = "ray" if settings.bin is None else f"{settings.bin.rstrip('/')}/ray"
    filled = (_COMMON + script).format(
        home=_folder(settings, machine),
        temp=place,
        ray=shlex.quote(ray),
        mark=_MARK,
        halves=_HALVES,
        flags=shlex.join(flags_of(settings, machine)),
        **values,
    )
    try:
        # Through the pipe, not as arguments: it has the token, and others can see command lines.
        done = subprocess.run(
            [*ssh_words(settings, machine), "sh", "-s"],
            input=filled,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except FileNotFoundError:
        return Answer(machine, "unreachable", "there is no program ssh on this machine; install OpenSSH's client")
    except subprocess.TimeoutExpired:
        return Answer(machine, "unreachable", f"ssh did not finish within {_LIMIT_S:g} s")
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_MARK):
            state, _, text = line.removeprefix(_MARK).partition(" ")
            return Answer(machine, cast("State", state), text or state)
    said = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}, without a message"
    remedy = f"to check, log in once with `{shlex.join(ssh_words(settings, machine, batch=False))}`"
    return Answer(machine, "unreachable", f"ssh cannot run a shell there ({said}); {remedy}")


def ssh_words(settings: MachinesSettings, machine: Machine, *, batch: bool = True) -> list[str]:
    """The ssh command for a machine. ``batch``: it does not ask for a password or about an unknown host key."""
    ssh = settings.ssh
    options = {"-F": ssh.config, "-i": ssh.identity, "-p": ssh.port, "-l": ssh.user}
    words = [str(word) for name, value in options.items() if value is not None for word in (name, value)]
    return ["ssh", *(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"] if batch else []), *words, machine.host]

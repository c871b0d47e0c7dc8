"""A Ray cluster of machines that ssh reaches: how it is begun, looked at and ended.

What runs there is ``ray start --block``, one process a machine that ends its Ray when it is asked to: so only this
cluster's own is ended. Ray's launcher (``ray up``) is not used: its ``down`` is ``ray stop`` on every machine, whatever
one overrides, which ends all that a user runs there, and it copies the private key to the head.
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
"""How the line of an answer begins: a login may print others."""
_LIMIT_S = 180.0
_NAMED = 12
"""Letters of the cluster's name in that of its folder, which is short: sockets lie in it."""
_HALVES = 180
"""Half seconds that a machine waits for its Ray to begin or to end."""
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
command -v "$ray" >/dev/null || say failed "there is no program $ray; say in bin where it is"
mkdir -p "$home" && {{ mkdir "$temp" 2>/dev/null || {{ [ -O "$temp" ] && [ ! -L "$temp" ]; }}; }} &&
    chmod 700 "$home" "$temp" ||
    say failed "$home or $temp is no folder of its own; look what is there, and make room"
printf %s {token} >"$home/token"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$home/token" RAY_USAGE_STATS_ENABLED=0 RAY_worker_niceness=0{loopback}
unset RAY_AUTH_TOKEN RAY_ADDRESS
: >"$home/log"  # here: what is behind the & may be late, and an earlier one has said that it began
# In a folder in it: Ray opens its own folder to every user of the machine.
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
        [ $count -lt {halves} ] || say failed "its Ray does not end; look at process $pid there"
        sleep 0.5
    done
fi
rm -rf "$home" "$temp"
(cd "$HOME" && rmdir -p "$(dirname "{home}")") 2>/dev/null  # where nothing else is kept
say $found
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a machine says."""

    machine: Machine
    state: State
    text: str = ""
    """The last line of Ray's log there, or of ssh's complaint."""


def up(settings: MachinesSettings, home: Path) -> list[Answer]:
    """Begin it: the head, then all workers at once. Machines where it runs are left alone.

    Args:
        settings: of the cluster.
        home: the user's folder here; its token is kept below it.

    Raises:
        ClusterError: a machine cannot be reached, or Ray does not begin there.
    """
    token = _token(settings, home)
    head = _asked(settings, [settings.head], token)
    _refuse(head)
    workers = _asked(settings, settings.workers, token)
    _refuse(workers)
    return [*head, *workers]


def status(settings: MachinesSettings) -> list[Answer]:
    """How every machine does. Raises nothing: what cannot be reached says so."""
    return _each(settings, (settings.head, *settings.workers), _STATUS)


def down(settings: MachinesSettings, home: Path) -> list[Answer]:
    """End it: the workers, then the head. The token goes with it.

    Raises:
        ClusterError: a machine cannot be reached, or its Ray does not end. The others are ended all the same.
    """
    answers = [*_each(settings, settings.workers, _END), *_each(settings, [settings.head], _END)]
    _refuse(answers)
    path = _token_file(settings, home)
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # something else is kept there
        for folder in list(path.parents)[:3]:
            folder.rmdir()
    return answers


def token_path(settings: MachinesSettings) -> str:
    """Where the token is on the head, for a shell there."""
    return f"~/{_folder(settings, settings.head)}/token"


def _refuse(answers: Iterable[Answer]) -> None:
    wrong = [f"{answer.machine.host}: {answer.text}" for answer in answers if answer.state in ("failed", "unreachable")]
    if wrong:
        raise ClusterError("; ".join(wrong))


def _token_file(settings: MachinesSettings, home: Path) -> Path:
    return home / ".tau-train" / "clusters" / settings.name / "token"


def _token(settings: MachinesSettings, home: Path) -> str:
    """That of an earlier ``up``, or a new one."""
    path = _token_file(settings, home)
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(32), encoding="ascii")
        return path.read_text(encoding="ascii")
    except OSError as error:
        raise ClusterError(f"the token cannot be kept in {path} ({error.strerror}); make room there") from error


def _folder(settings: MachinesSettings, machine: Machine) -> str:
    """Of a machine, below its user's: machines may share that."""
    return f".tau-train/clusters/{settings.name}/{machine.host}"


def _asked(settings: MachinesSettings, machines: Iterable[Machine], token: str) -> list[Answer]:
    """Begin Ray on these."""
    loopback = " RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0" if settings.on_loopback else ""  # else it listens everywhere
    return _each(settings, machines, _BEGIN, {"token": shlex.quote(token), "loopback": loopback})


def flags_of(settings: MachinesSettings, machine: Machine) -> list[str]:
    """Of ``ray start``, for that machine."""
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
    """Run a script on these, all at once."""
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
        # By the pipe, not as words: others see command lines, and the token is in it.
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
        return Answer(machine, "unreachable", f"ssh was not done after {_LIMIT_S:g} s")
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_MARK):
            state, _, text = line.removeprefix(_MARK).partition(" ")
            return Answer(machine, cast("State", state), text or state)
    said = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}, without a word"
    remedy = f"log in once by `{shlex.join(ssh_words(settings, machine, batch=False))}` to see"
    return Answer(machine, "unreachable", f"ssh cannot run a shell there ({said}); {remedy}")


def ssh_words(settings: MachinesSettings, machine: Machine, *, batch: bool = True) -> list[str]:
    """The program that reaches a machine. ``batch``: nobody is asked for a password or about a stranger's key."""
    ssh = settings.ssh
    options = {"-F": ssh.config, "-i": ssh.identity, "-p": ssh.port, "-l": ssh.user}
    words = [str(word) for name, value in options.items() if value is not None for word in (name, value)]
    return ["ssh", *(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"] if batch else []), *words, machine.host]

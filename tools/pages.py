"""Run the code blocks of README and docs, as a newcomer would: `python -m tools.pages [PAGE ...]`.

Each page gets an empty folder, in which its blocks run in order. Shell blocks (fenced as ``bash``, or indented and
starting with one of :data:`PROGRAMS`) run in bash; Python blocks run as scripts. A block whose first line is a comment
with a file name (``# my_agents.py``), or whose fence names one (``python my_agents.py``), is written to that file; so
later blocks find it. All other blocks are output or pieces of files, and stay unread.

Training commands are cut short (:func:`shortened`). The code cells of a notebook are one script. Two comments, which no
reader sees, go right above a block: `<!-- needs: unity -->` if it cannot run here (:data:`NEEDS` lists the kinds), and
`<!-- first: COMMAND -->` to make what the reader has already. Exit code 1 if a block fails; each failure has its page
and line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tools._bootstrap.environment import child_environment

ROOT = Path(__file__).resolve().parents[1]

NEEDS = {
    "unity": "a Unity build, project or editor",
    "unreal": "an Unreal build, project or editor",
    "godot": "a Godot build, project or editor",
    "gpu": "a GPU",
    "network": "the package index, a hub or a service",
    "machines": "several machines, or a cluster's programs",
    "windows": "Windows",
    "person": "someone who looks, types, or ends it",
    "checkout": "the repository as the current folder",
    "files": "files or modules of the reader's own",
    "time": "minutes or hours",
    "context": "names that the reader has from elsewhere",
}
"""The kinds of marks."""

PROGRAMS = (
    *("tau-train", "python", "python3", "pip", "uv", "mlagents-learn", "minari", "hf", "ray", "docker", "kubectl"),
    *("sbatch", "ssh", "sed", "cp", "mkdir"),
)
"""Indented blocks that start with one of them, after assignments such as ``NAME=value``, are shell commands."""

SHELL = ("bash", "sh", "shell", "powershell")
SHORT, LONGEST = 2_000, 20_000
"""Decisions of a training command that names no ``--max-steps``, and the most that one may name."""

SERVED_S = 15
"""How long a server runs before it hears Ctrl-C."""

_MARK = re.compile(r"<!-- needs: ([\w, ]+) -->$")
_FIRST = re.compile(r"<!-- first: (.*) -->$")
_FENCE = re.compile(r"```(\S*) ?(.*)$")
_FILE = re.compile(r"# ([\w-]+\.\w+)$")
_COMMAND = re.compile(rf"(\w+=\S* )*({'|'.join(map(re.escape, PROGRAMS))})( |$)")


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    line: int
    """Of its first line of code, from 1."""
    kind: str
    """``shell``, ``python``, ``file`` (written, not run) or ``text`` (neither)."""
    code: str
    file: str = ""
    """The name under which the code is written; empty if it has none."""
    needs: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """True if something happens with it here."""
        return self.kind != "text" and not self.needs


def blocks_of(page: Path) -> list[Block]:
    """The code blocks of a Markdown page or a notebook. Raises ValueError as :func:`blocks`."""
    text = page.read_text("utf-8")
    if page.suffix != ".ipynb":
        return blocks(text)
    cells = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return [Block(1, "python", "\n\n".join("".join(lines) for lines in cells) + "\n")]


def blocks(text: str) -> list[Block]:
    """The code blocks of a page, in order. Raises ValueError for a mark that is unknown or has no code block."""
    found: list[Block] = []
    needs: tuple[str, ...] = ()
    for line, language, name, code in _pieces(text):
        if language == "mark":
            needs = tuple(word.strip() for word in code.split(","))
            if unknown := [word for word in needs if word not in NEEDS]:
                raise ValueError(f"line {line}: the mark {unknown[0]!r} is unknown; there are {', '.join(NEEDS)}")
        elif language == "prose":
            if needs:
                raise ValueError(f"line {line}: a mark is followed by text; put it right above a code block")
        else:
            block = _block(line, language, name, code, needs)
            if needs and block.kind == "text":
                raise ValueError(f"line {line}: a mark above a block that never runs; remove it")
            found.append(block)
            needs = ()
    if needs:
        raise ValueError("the last mark has no code block below it")
    return found


def _block(line: int, language: str, name: str, code: str, needs: tuple[str, ...]) -> Block:
    named = _FILE.match(code.partition("\n")[0])
    file = name if "." in name else named[1] if named else ""
    shell = language in SHELL or (not language and _COMMAND.match(code))
    kind = "shell" if shell else "python" if language == "python" else "file" if file else "text"
    return Block(line, kind, code, file, needs)


def _pieces(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Line, language (``mark`` and ``prose`` count as some; none if indented), name and text of each piece."""
    lines, at, paragraph = text.splitlines(), 0, False
    while at < len(lines):
        start, line = at, lines[at]
        at += 1
        if mark := _MARK.match(line):
            yield start + 1, "mark", "", mark[1]
        elif first := _FIRST.match(line):
            yield start + 1, "bash", "", first[1] + "\n"
        elif fence := _FENCE.match(line):
            while at < len(lines) and lines[at] != "```":
                at += 1
            yield start + 2, fence[1] or "text", fence[2], "\n".join(lines[start + 1 : at]) + "\n"
            at += 1
        elif line.startswith("    ") and not paragraph:
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            yield start + 1, "", "", "\n".join(row[4:] for row in lines[start:at]).rstrip("\n") + "\n"
        elif line.strip():
            yield start + 1, "prose", "", line
        paragraph = bool(line.strip()) and at == start + 1 and not line.startswith("<!--")


def shortened(arguments: Sequence[str]) -> list[str]:
    """The arguments of `tau-train`, with few decisions if they train: see :data:`SHORT` and :data:`LONGEST`."""
    at = arguments.index("--env-args") if "--env-args" in arguments else len(arguments)
    ours, engines = list(arguments[:at]), list(arguments[at:])
    if ours[:1] not in (["learn"], ["parallel"], ["batch"]) or "--inference" in ours or "--help" in ours:
        return [*ours, *engines]
    if "--max-steps" not in ours:
        keeps = "--resume" in ours and ours[1].startswith("-")  # what it began with, which was short
        return [*ours, *([] if keeps else ["--max-steps", str(SHORT)]), *engines]
    value = ours.index("--max-steps") + 1
    ours[value] = str(min(int(ours[value]), LONGEST))
    return [*ours, *engines]


def tau_train(arguments: Sequence[str]) -> NoReturn:
    """Become `tau-train`, cut short; a server (TensorBoard) hears Ctrl-C after some seconds, and must take it well."""
    command = [str(Path(sys.executable).with_name("tau-train")), *shortened(arguments)]
    if arguments[:1] == ["tensorboard"]:
        command = ["timeout", "--preserve-status", "--signal=INT", str(SERVED_S), *command]
    os.execvp(command[0], command)


@dataclass(frozen=True)
class Failure:
    """A block that failed, and how."""

    page: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.reason}"


def run(page: Path, programs: Path, seconds: float) -> Iterator[Failure]:
    """Run the blocks of a page in an empty folder of its own.

    Args:
        page: the Markdown file.
        programs: a folder that comes first on the path.
        seconds: the most that one block may take.
    """
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        for block in blocks_of(page):
            if not block.runs:
                continue
            name = block.file or f"block_{block.line}.py"
            if block.kind != "shell":
                Path(folder, name).write_text(block.code, "utf-8")
            shell = ["bash", "-e", "-o", "pipefail", "-c", block.code]
            command = [sys.executable, name] if block.kind == "python" else shell
            if block.kind != "file" and (reason := _failed(command, Path(folder), programs, seconds)):
                yield Failure(shown(page), block.line, reason)


def shown(page: Path) -> str:
    """The page's path in the repository, or its name if it is elsewhere."""
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


def _failed(command: list[str], folder: Path, programs: Path, seconds: float) -> str:
    """Run a command; how it failed, with its last lines, or nothing."""
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=child_environment() | {"PATH": path, "MPLBACKEND": "Agg"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            how = f"exit code {code}" if (code := process.wait(seconds)) else ""
        except subprocess.TimeoutExpired:
            how = f"still running after {seconds:g} seconds"
        finally:
            _end(process)
        output.seek(0)
        return how and f"{how}; it ends with: {' | '.join(output.read().split(chr(10))[-6:]).strip(' |')}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def write_programs(folder: Path) -> None:
    """Write a `tau-train` that calls the real one with :func:`shortened` arguments."""
    script = folder / "tau-train"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tools.pages import tau_train\n"
        f"tau_train(sys.argv[1:])\n",
        "utf-8",
    )
    script.chmod(0o755)


def pages(names: Iterable[str] = ()) -> list[Path]:
    """The pages that are named; all of README and docs if none is."""
    named = [Path(name).resolve() for name in names]
    return named or [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "docs").glob("*.ipynb")),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the pages, print each failure, and count the marks by kind; the exit code."""
    parser = argparse.ArgumentParser(description="Run the code blocks of README and docs.")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="a Markdown file [default: README and all of docs]")
    parser.add_argument("--seconds", type=float, default=300.0, help="the most that one block may take [default: 300]")
    parser.add_argument("--list", action="store_true", help="list the blocks that would run, and run none")
    given = parser.parse_args(arguments)
    marks: Counter[str] = Counter()
    ran = failed = 0
    with tempfile.TemporaryDirectory(prefix="programs-") as programs:
        write_programs(Path(programs))
        for page in pages(given.pages):
            try:
                found = blocks_of(page)
            except (OSError, ValueError) as error:
                parser.error(f"{page}: {error}")
            marks.update(need for block in found for need in block.needs)
            count = sum(block.runs for block in found)
            ran += count
            if given.list:
                for block in filter(lambda block: block.runs, found):
                    print(f"{shown(page)}:{block.line}: {block.kind}: {shlex.quote(block.code.partition(chr(10))[0])}")
            elif count:
                began = time.monotonic()
                for failure in run(page, Path(programs), given.seconds):
                    failed += 1
                    print(failure, flush=True)
                print(f"{shown(page)}: {count} blocks in {time.monotonic() - began:.0f} s", flush=True)
    print(f"{ran} blocks, {failed} failed; marked: {', '.join(f'{kind} {n}' for kind, n in sorted(marks.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""A headless Chromium that is spoken to over a pipe, with its own DevTools protocol: no port, no package."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.waiting import HANG_S

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
_LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
_ABOVE = 16
"""Handles of ours get numbers from here on, so that 3 and 4 are free for the browser's."""


def installed() -> str | None:
    """The browser on the PATH."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """One tab."""

    def __init__(self, reading: int, writing: int) -> None:
        self.complaints: list[str] = []
        """Errors and warnings on the console, scripts that raise, what the page's own policy forbids."""
        self.requests: list[str] = []
        """Every address that was asked for."""
        self._reading, self._writing = reading, writing
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        self._events: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask, and wait for the answer. Raises AssertionError where the browser refuses."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def open(self, address: str, width: int = 1280, height: int = 900) -> None:
        """Load a page in a window of that size and wait until it has loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._events.clear()
        self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self._events:
            self._next()

    def value(self, script: str) -> Any:
        """What a script evaluates to."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self) -> bytes:
        """The whole page as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._reading, 1 << 20)
            assert data, "the browser has gone"
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._notice(message.get("method", ""), message.get("params", {}))
        return message

    def _notice(self, method: str, told: dict[str, Any]) -> None:
        self._events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])


@contextlib.contextmanager
def browser(program: str, folder: Path) -> Iterator[Page]:
    """A page of a fresh browser whose files lie in ``folder``."""
    theirs_in, ours_out = _pipe()
    ours_in, theirs_out = _pipe()
    flags = [
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe",
        f"--user-data-dir={folder}", "about:blank",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", _LAUNCH, str(theirs_in), str(theirs_out), program, *flags],
        pass_fds=(theirs_in, theirs_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Page(ours_in, ours_out)
    finally:
        os.close(ours_out)  # a browser ends when nobody can speak to it any more
        try:
            process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(ours_in)


def _pipe() -> tuple[int, int]:
    """Both ends of a pipe, with numbers that are free in the browser."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]

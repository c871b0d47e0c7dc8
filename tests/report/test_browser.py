"""The report in a real browser: it is laid out, drawn, read and hovered over, and asks the world for nothing."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray

from tau_trainer.report import RunRecord, render
from tau_trainer.settings import dump_settings, load_settings
from tests.report.conftest import append, write_run

if os.name == "nt":
    pytest.skip("the browser's pipe is made as POSIX has it", allow_module_level=True)

from tests.report.browser import PROGRAMS, Page, browser, installed

PROGRAM = installed()
pytestmark = pytest.mark.skipif(
    PROGRAM is None,
    reason=f"no Chromium on the PATH (looked for {', '.join(PROGRAMS)}); install one to see the report in it",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    assert PROGRAM is not None
    with browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = write_run(tmp_path_factory.mktemp("results") / "one").rename(tmp_path_factory.mktemp("odd") / "run-<i>one")
    (folder / "report.html").write_text(render([RunRecord.load(folder)]), "utf-8")
    return (folder / "report.html").as_uri()


def picture(page: Page) -> NDArray[np.float32]:
    """float32 [height, width, 3], 0 to 1."""
    return np.asarray(imread(io.BytesIO(page.picture())))[..., :3]


@pytest.mark.parametrize("width", [1280, 820, 390, 320])
def test_it_fits_the_window_and_nothing_complains(page: Page, address: str, width: int) -> None:
    page.complaints.clear()
    page.requests.clear()
    page.open(address, width)
    assert page.value("document.documentElement.scrollWidth") <= width, "nothing is cut off or to be scrolled to"
    assert page.complaints == []
    assert page.requests == [address], "it is one file"
    narrow = "[...document.querySelectorAll('.plot')].filter(one => one.getBoundingClientRect().width < 120).length"
    assert page.value(narrow) == 0
    ends = "Math.max(...[...document.querySelectorAll('.plot text')].map(one => one.getBoundingClientRect().right))"
    assert page.value(ends) <= width
    bars = page.value("[...document.querySelectorAll('.bar')].map(one => one.getBoundingClientRect().width)")
    assert min(bars) > 110, "bars are no stubs"


def test_runs_that_are_not_one_thing_fit_a_telephone(page: Page, tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name) for name in ("a", "b")]
    (folders[1] / "configuration.yaml").write_text(dump_settings(load_settings("Pendulum")), "utf-8")
    (tmp_path / "report.html").write_text(render([RunRecord.load(folder) for folder in folders]), "utf-8")
    page.open((tmp_path / "report.html").as_uri(), 390)
    height = "document.querySelector('#runs').getBoundingClientRect().height"
    assert page.value(height) < 500, "what differs is folded"
    page.value("document.querySelector('#runs details').open = true")
    assert page.value("document.documentElement.scrollWidth") <= 390
    page.call("Emulation.setEmulatedMedia", media="print")
    try:
        page.value("document.querySelector('#runs details').open = false")
        assert page.value(height) > 2000, "on paper it is told"
    finally:
        page.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("width", [1280, 320])
def test_long_names_break_the_lines_and_not_the_page(page: Page, tmp_path: Path, width: int) -> None:
    long = "x" * 300
    folder = write_run(tmp_path / "run")
    values = {f"Game/{long}": 1.0, "Environment/Cumulative Reward": 1.0}
    append(
        folder,
        *({"type": "summary", "behavior": f"{long}{i}", "step": 9, "elapsed": 1.0, "values": values} for i in range(2)),
        {"type": "event", "kind": "baselines", "fields": {"values": {long: {"accuracy": 0.5, "reward": 0.5}}}},
        {"type": "event", "kind": "warning", "fields": {"message": long}},
        {"type": "result", "outcome": "completed", "verdict": long},
    )
    told = json.loads((folder / "run.json").read_text("utf-8"))
    (folder / "run.json").write_text(json.dumps(told | {"command": [long]}), "utf-8")
    longer = folder.rename(tmp_path / ("y" * 200))
    (tmp_path / "report.html").write_text(render([RunRecord.load(longer)]), "utf-8")
    page.open((tmp_path / "report.html").as_uri(), width)
    assert page.value("document.documentElement.scrollWidth") <= width
    ends = "Math.max(...[...document.querySelectorAll('.plot text')].map(one => one.getBoundingClientRect().right))"
    assert page.value(ends) <= width


def test_what_it_says(page: Page, address: str) -> None:
    page.open(address)
    assert page.value("document.title") == "run-<i>one"
    assert page.value("document.querySelector('h1').firstChild.textContent") == "run-<i>one"
    assert page.value("document.querySelectorAll('h1 i').length") == 0
    assert page.value("document.querySelectorAll('figure').length") == 12
    assert page.value("document.querySelectorAll('#reward .large .thick').length") == 1
    assert page.value("document.querySelectorAll('#accuracy .large .thick').length") == 2
    assert page.value("document.querySelectorAll('#reward .large .level').length") == 2
    text = page.value("document.body.innerText")
    for told in ("It beats zeros.", "strongest baseline", "Nothing went wrong.", "A processor", "TauAgent-4000"):
        assert told in text
    lines = "[...document.querySelectorAll('.thick')].map(one => one.getBoundingClientRect())"
    assert page.value(f"{lines}.every(box => box.width > 50)"), "lines are drawn over the width of their chart"
    inside = (
        "[...document.querySelectorAll('.plot')].every(plot => { const all = plot.getBoundingClientRect();"
        " return [...plot.querySelectorAll('path')].every(one => { const box = one.getBoundingClientRect();"
        " return box.top >= all.top - 2 && box.bottom <= all.bottom + 2 && box.right <= all.right + 2; }) })"
    )
    assert page.value(inside)


def test_the_picture_shows_lines_bands_and_bars(page: Page, address: str) -> None:
    page.open(address)
    seen = picture(page)
    red, green, blue = np.moveaxis(np.round(seen * 255).astype(np.int64), -1, 0)
    colors, counts = np.unique((red << 16) + (green << 8) + blue, return_counts=True)
    found = dict(zip(colors.tolist(), counts.tolist(), strict=True))
    assert found[0x0072B2] > 2000, "blue lines and the policy's bar"
    assert found[0xD55E00] > 500, "orange: validation, and the time of training"
    assert found[0xFFFFFF] > 100_000
    assert seen.shape[1] > 1200


def test_it_is_dark_where_the_reader_wants_it(page: Page, address: str) -> None:
    page.open(address)
    light = picture(page).mean()
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = picture(page).mean()
    page.call("Emulation.setEmulatedMedia", features=[])
    assert light > 0.85
    assert dark < 0.25


def middle_of(page: Page, selector: str) -> dict[str, float]:
    """Where an element is after it was scrolled to."""
    script = (
        f"(() => {{ const one = document.querySelector('{selector}');"
        " one.scrollIntoView({block: 'center', behavior: 'instant'});"
        " const box = one.getBoundingClientRect(); return {x: box.x + box.width / 2, y: box.y + box.height / 2}; })()"
    )
    place: dict[str, float] = page.value(script)
    return place


def test_a_pointer_over_a_chart_is_told_its_values(page: Page, address: str) -> None:
    page.open(address)
    assert page.value("document.querySelector('.tip').hidden") is True
    page.call(
        "Input.dispatchMouseEvent", type="mouseMoved", **middle_of(page, "#accuracy .large .stop:nth-last-of-type(1)")
    )
    assert page.value("document.querySelector('.tip').hidden") is False
    told = page.value("document.querySelector('.tip').textContent").splitlines()
    assert told[0] == "5,000 decisions"
    assert "validation accuracy: 75.0 %" in told
    assert "test accuracy, exported policy: 90.0 %" in told
    box = page.value(
        "(() => { const b = document.querySelector('.tip').getBoundingClientRect(); return [b.left, b.right] })()"
    )
    assert box[0] >= 0
    assert box[1] <= 1280, "it stays in the window at the right edge"
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=5, y=5)
    assert page.value("document.querySelector('.tip').hidden") is True


def test_it_needs_no_script(page: Page, address: str) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(address)
        titles = page.value(
            "[...document.querySelectorAll('#accuracy .large .stop title')].map(one => one.textContent)"
        )
        assert page.value("document.querySelectorAll('.tip').length") == 0
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert len(titles) == 5
    assert titles[-1].startswith("5,000 decisions\n")


def test_on_paper_everything_is_open_and_light(page: Page, address: str) -> None:
    page.open(address)
    page.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert page.value("getComputedStyle(document.querySelector('nav')).display") == "none"
        assert page.value("document.querySelectorAll('details:not([open])').length") == 0
        assert page.value("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    finally:
        page.call("Emulation.setEmulatedMedia", media="")
    assert len(page.call("Page.printToPDF")["data"]) > 20_000

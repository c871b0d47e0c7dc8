"""The code blocks of README and docs: how they are found, cut short and run, and that all marks are right."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tools import pages

posix = pytest.mark.skipif(os.name == "nt", reason="shell blocks need bash")

PAGE = """# A page

Text with `code`, and

    tau-train learn my.yaml

    and more of it

    TensorBoard: an output

Text that ends
    tau-train in a paragraph

<!-- needs: unity, gpu -->

    NAME=value tau-train learn other.yaml
<!-- first: tau-train parallel -->
```bash
false
```

```python
# my_agents.py
print(1)
```

```python a2c.py
print(2)
```

```yaml
# dqn.yaml
a: 1
```

```yaml
b: 1
```
"""


def test_blocks_are_found_in_order_with_their_lines_names_and_marks() -> None:
    found = pages.blocks(PAGE)
    assert [(block.line, block.kind, block.file, block.needs) for block in found] == [
        (5, "shell", "", ()),
        (16, "shell", "", ("unity", "gpu")),
        (17, "shell", "", ()),
        (19, "shell", "", ()),
        (23, "python", "my_agents.py", ()),
        (28, "python", "a2c.py", ()),
        (32, "file", "dqn.yaml", ()),
        (37, "text", "", ()),
    ]
    assert found[0].code == "tau-train learn my.yaml\n\nand more of it\n\nTensorBoard: an output\n"
    assert found[3].code == "false\n"
    assert [block.line for block in found if block.runs] == [5, 17, 19, 23, 28, 32]
    (block,) = pages.blocks("<!-- needs: gpu -->\n    tau-train learn\n")
    assert (block.line, block.needs) == (2, ("gpu",)), "a comment may be right above indented code"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- needs: luck -->\n\n    tau-train learn\n", "line 1: the mark 'luck' is unknown; there are unity, "),
        ("<!-- needs: gpu -->\n\nWords.\n", "line 3: a mark is followed by text"),
        ("<!-- needs: gpu -->\n\n```yaml\na: 1\n```\n", "line 4: a mark above a block that never runs"),
        ("<!-- needs: gpu -->\n", "the last mark has no code block"),
    ],
)
def test_a_wrong_mark_is_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pages.blocks(text)


@pytest.mark.parametrize("page", pages.pages(), ids=pages.shown)
def test_every_page_has_marks_that_are_known_and_python_that_compiles(page: Path) -> None:
    for block in pages.blocks_of(page):
        assert not (block.runs and "path/to/" in block.code), (
            f"line {block.line} needs a mark: no machine has such a path"
        )
        if block.kind == "python":
            compile(block.code, f"{page.name}:{block.line}", "exec")


@pytest.mark.parametrize(
    ("given", "cut"),
    [
        ("learn a.yaml", "learn a.yaml --max-steps 2000"),
        ("learn a.yaml --max-steps 60000 --seed 1", "learn a.yaml --max-steps 20000 --seed 1"),
        ("batch a --max-steps 500", "batch a --max-steps 500"),
        ("parallel --env-args --max-steps 7", "parallel --max-steps 2000 --env-args --max-steps 7"),
        ("learn a.yaml --resume", "learn a.yaml --resume --max-steps 2000"),
        ("learn --resume --run-id a", "learn --resume --run-id a"),
        ("learn --inference --run-id a", "learn --inference --run-id a"),
        ("report a", "report a"),
        ("", ""),
    ],
)
def test_training_is_cut_short(given: str, cut: str) -> None:
    assert pages.shortened(given.split()) == cut.split()


@posix
def test_blocks_share_a_folder_and_a_failure_has_its_page_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```yaml\n# a.yaml\na: 1\n```\n\n```python\nopen('b', 'w').write(open('a.yaml').read())\n```\n\n"
        "```bash\ntest -f b\nls\n```\n\n```bash\necho why; false | cat\necho not here\n```\n\n"
        "<!-- needs: gpu -->\n\n```bash\nfalse\n```\n"
    )
    assert pages.main([str(page)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "page.md:16: exit code 1; it ends with: why"
    assert lines[-1] == "4 blocks, 1 failed; marked: gpu 1"


@posix
def test_a_block_that_never_ends_is_ended_with_all_that_it_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, pipe = tmp_path / "page.md", tmp_path / "pipe"
    page.write_text(f"```bash\nsleep 600 > {pipe} &\nwait\n```\n")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert pages.main([str(page), "--seconds", "1"]) == 1
        os.set_blocking(reader, True)
        assert os.read(reader, 1) == b"", "no one is left who could write"
    finally:
        os.close(reader)
    assert capsys.readouterr().out.startswith("page.md:2: still running after 1 seconds")


@posix
def test_the_cells_of_a_notebook_are_one_script(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": ["import os\n", "x = 1"]},
        {"cell_type": "markdown", "source": ["not code"]},
        {
            "cell_type": "code",
            "source": ["assert os.environ['MPLBACKEND'] == 'Agg', 'no window opens'\n", "assert x == 1"],
        },
    ]
    page = tmp_path / "page.ipynb"
    page.write_text(json.dumps({"cells": cells}))
    assert pages.main([str(page)]) == 0
    page.write_text(json.dumps({"cells": [*cells, {"cell_type": "code", "source": ["assert x == 2"]}]}))
    assert pages.main([str(page)]) == 1


@posix
def test_pages_call_the_tau_train_that_is_cut_short_and_see_no_other_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    page = tmp_path / "page.md"
    page.write_text('```bash\ntau-train --version\ncommand -v tau-train | grep programs-\ntest -z "$PYTHONPATH"\n```\n')
    assert pages.main([str(page)]) == 0


@pytest.mark.parametrize(
    ("given", "called"),
    [("learn a", ["tau-train", "learn", "a", "--max-steps", "2000"]), ("tensorboard --port 0", ["timeout"])],
)
def test_a_server_hears_ctrl_c(given: str, called: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []

    def become(_: str, command: list[str]) -> None:
        became.append([Path(command[0]).name, *command[1:]])
        raise SystemExit

    monkeypatch.setattr("os.execvp", become)
    with pytest.raises(SystemExit):
        pages.tau_train(given.split())
    assert became[0][: len(called)] == called
    assert ("--signal=INT" in became[0]) == (called == ["timeout"])


@pytest.mark.parametrize("text", [None, "<!-- needs: luck -->\n"])
def test_a_page_that_cannot_be_read_is_a_sentence(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)
    with pytest.raises(SystemExit, match="2"):
        pages.main([str(page)])
    assert f"error: {page}: " in capsys.readouterr().err

"""The tool that writes the shared test vectors."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path

import pytest

from tools import tau_vectors
from tools._vectors import projection, rewards, streams

SOURCES = (Path(tau_vectors.__file__), *sorted(Path(projection.__file__).parent.glob("*.py")))


def test_the_file_in_the_repository_is_what_the_tool_writes(capsys: pytest.CaptureFixture[str]) -> None:
    assert tau_vectors.main(["--check"]) == 0
    assert "up to date" in capsys.readouterr().out


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vectors.json"
    assert tau_vectors.main(["--check"], path) == 2
    assert "run `python -m tools.tau_vectors`" in capsys.readouterr().err
    assert tau_vectors.main([], path) == 0
    assert tau_vectors.main(["--check"], path) == 0
    path.write_text(path.read_text(encoding="ascii").replace('"index":0', '"index":1', 1), encoding="ascii")
    assert tau_vectors.main(["--check"], path) == 2


def test_small_enough_and_complete() -> None:
    content = tau_vectors.VECTORS.read_bytes()
    assert len(content) < 200_000
    sections = json.loads(content)
    assert set(sections) == set(tau_vectors.build())
    assert all(sections.values())


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_shares_no_code_with_what_it_tests(path: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert not imported & {"tau_trainer", "numpy", "torch"}


def test_the_hand_made_rewards_are_literals() -> None:
    tree = ast.parse(Path(rewards.__file__).read_text(encoding="utf-8"))
    literal = next(
        node for node in tree.body if isinstance(node, ast.AnnAssign) and "HAND_MADE" in ast.dump(node.target)
    )
    assert literal.value is not None
    assert not [node for node in ast.walk(literal.value) if isinstance(node, ast.Call)]
    assert [case["rewards"]["incremental"] for case in rewards.HAND_MADE] == [1.0, 0.9, -3.0, 0.6]


def test_splitmix_gives_the_published_numbers() -> None:
    """First outputs for the state 1234567, as listed with the generator's reference code."""
    state, outputs = 1234567, []
    for _ in range(3):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        outputs.append(streams.mix(state))
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_projection_of_a_known_shape() -> None:
    """Points along one line and across it: the first component is the line, the second what is left."""
    points = [[3.0 * step + side, 3.0 * step - side] for step, side in ((-1, 0), (0, 0.5), (0, -0.5), (1, 0))]
    targets = projection.project(points, points, components=2)
    assert [row[0] for row in targets] == pytest.approx([-1.0, 0.0, 0.0, 1.0])
    assert [row[1] for row in targets] in ([0.0, 1.0, -1.0, 0.0], [0.0, -1.0, 1.0, 0.0])


def test_single_precision() -> None:
    assert projection.single(0.1) == 0.10000000149011612
    assert math.isclose(sum(value * value for value in projection.unit([3.0, 4.0])), 1.0, rel_tol=1e-6)

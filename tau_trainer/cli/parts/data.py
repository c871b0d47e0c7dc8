"""``tau-train data``: embed, audit, join and export the user's own Tau data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from tau_trainer.cli.flags import valued
from tau_trainer.cli.messages import set_up_logging, show_json, show_lines, show_status
from tau_trainer.cli.options import Debug, Force, Json, Output, commands
from tau_trainer.cli.progress import ProgressBar
from tau_trainer.cli.running import writable
from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from tau_trainer.tau.data import DataReport

app = commands("data")

File = Annotated[Path, Parameter(help="Tau data set (JSON).")]
Packaged = Annotated[Path | None, Parameter(help="Tau data set (JSON) with its vectors. [default: the included one]")]

_LARGE = 10_000_000
"""Size in bytes above which reading a file takes a moment."""
NOT_CLEAN = 2
"""Exit code of an audit that found unusable rows."""


@app.command(name="embed")
def embed_command(
    file: File,
    /,
    *,
    encoder: Annotated[
        Literal["minilm", "hashing"],
        Parameter(help="minilm needs an extra package; hashing sees only spelling, for tests. [default: minilm]"),
    ] = "minilm",
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Write the vectors of all texts next to the file.

    Encodes only texts without a vector.
    """
    set_up_logging(debug=debug)
    from tau_trainer.tau.data import embed
    from tau_trainer.tau.encoder import get_encoder

    source = _existing(file)
    show_status(f"embedding the texts of {source} with {encoder}")
    model = get_encoder(encoder)
    with ProgressBar(silent=json) as progress:
        report = embed(source, model, on_progress=lambda done, of: progress.count("embedding", done, of, "texts"))
    return _show(report, json)


@app.command(name="audit")
def audit_command(file: File, /, *, json: Json = False, debug: Debug = False) -> int:
    """Report every row that training would skip, by its number, and prompts with several answers.

    Similar rows share a line; --json lists every row. Changes nothing. Exit code: 0 if every row can be used, 2
    otherwise.
    """
    set_up_logging(debug=debug)
    from tau_trainer.tau.data import audit

    report = audit(_existing(file))
    _show(report, json)
    return 0 if report.clean else NOT_CLEAN


@app.command(name="concat")
def concat_command(
    files: Annotated[list[Path], Parameter(help="Tau data sets (JSON).")],
    /,
    *,
    output: Output,
    seed: Annotated[int, valued("Random seed of the order of rows. [default: 0]", "N")] = 0,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Join data sets into one, without repeated prompts, in shuffled order, and report skipped rows.

    Vectors are copied if the same encoder embedded all files.
    """
    set_up_logging(debug=debug)
    from tau_trainer.tau.data import concat

    sources = [_existing(file) for file in files]
    return _show(concat(sources, writable(output, force), seed=seed), json)


@app.command(name="targets")
def targets_command(
    file: Packaged = None,
    /,
    *,
    output: Output,
    profile: Annotated[
        Literal["tau3", "tau384"],
        Parameter(help="Three principal components, or all 384 numbers. [default: tau3]"),
    ] = "tau3",
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Write every answer's target vector, in the format of Tau's tokens.json."""
    set_up_logging(debug=debug)
    from tau_trainer.tau.data import build_targets
    from tau_trainer.tau.profiles import PROFILES

    source = None if file is None else _existing(file)
    return _show(build_targets(source, PROFILES[profile], writable(output, force)), json)


@app.command(name="export-unity")
def export_unity_command(
    file: Packaged = None,
    /,
    *,
    output: Output,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Write a data set as the single file that the Unity project reads.

    Give it the name of the data set with the ending .tau, such as set.tau for set.json.
    """
    set_up_logging(debug=debug)
    from tau_trainer.tau.unity_file import export_unity

    source = None if file is None else _existing(file)
    return _show(export_unity(source, writable(output, force)), json)


def _show(report: DataReport, json: bool) -> int:
    if json:
        show_json(report.to_dict())
    else:
        show_lines([*report.lines(), report.sentence()])
    return 0


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise SettingsError(f"{path}: this is a folder; name a Tau data set (JSON)")
    if not path.is_file():
        raise SettingsError(f"{path}: no such file; check the path")
    if path.stat().st_size > _LARGE:
        show_status(f"reading {path} ({path.stat().st_size / 1e6:,.0f} MB)")
    return path

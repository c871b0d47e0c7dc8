"""``tau-train upgrade``: convert a settings file of older ML-Agents to the current format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tau_trainer.cli.messages import set_up_logging, show_lines
from tau_trainer.cli.options import Debug, Force, Output
from tau_trainer.cli.running import writable
from tau_trainer.errors import SettingsError
from tau_trainer.files import atomic_write_bytes, atomic_write_text


def upgrade_command(
    files: Annotated[list[Path], Parameter(help="The trainer's file, then its curriculum and sampler files.")],
    /,
    *,
    output: Output | None = None,
    in_place: Annotated[bool, Parameter(help="Replace the first file, and keep the original as FILE.bak.")] = False,
    force: Force = False,
    debug: Debug = False,
) -> int:
    """Convert a settings file of older ML-Agents (before 0.19).

    List its curriculum and sampler files after it. The result is NAME-upgraded.yaml, next to the first file, unless you
    choose another place.
    """
    set_up_logging(debug=debug)
    from tau_trainer.settings.document import read_document
    from tau_trainer.settings.upgrading import dumped, upgrade

    first = files[0]
    if in_place and output is not None:
        raise SettingsError("--in-place and --output contradict each other; give one of them")
    if output is not None and any(output.resolve() == file.resolve() for file in files):
        raise SettingsError(f"--output {output}: this is an input file; use --in-place, which keeps a copy as .bak")
    upgraded = upgrade([read_document(file) for file in files])
    if not upgraded.changed:
        show_lines([f"{first} is already up to date; nothing was written. See what it does: tau-train check {first}"])
        return 0
    text = dumped(upgraded.data, f"Converted by tau-train upgrade from {', '.join(file.name for file in files)}.")
    backup = first.with_name(f"{first.name}.bak")
    if in_place:
        atomic_write_bytes(writable(backup, force), first.read_bytes())
    target = first if in_place else writable(output or first.with_name(f"{first.stem}-upgraded.yaml"), force)
    atomic_write_text(target, text)
    kept = ", ".join(map(str, (backup if in_place else first, *files[1:])))
    show_lines([*upgraded.notes, f"written: {target}, without comments, which stay in {kept}"])
    return 0

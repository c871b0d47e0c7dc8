"""The ready-to-run settings files that come with Tau Trainer.

Their home is ``configs/`` at the top of the source tree; installing puts the same files into
``share/tau-trainer/configs/`` of the environment.
"""

from __future__ import annotations

import difflib
import sysconfig
from pathlib import Path

from tau_trainer.errors import SettingsError

_PACKAGE = Path(__file__).resolve().parents[1]


def configs_folder() -> Path:
    """The folder of shipped settings files.

    Raises:
        SettingsError: neither the source tree nor the environment has one.
    """
    installed = Path("share", "tau-trainer", "configs")
    homes = (sysconfig.get_path("data"), sysconfig.get_path("data", sysconfig.get_preferred_scheme("user")))
    for folder in (_PACKAGE.parent / "configs", *(Path(home) / installed for home in homes)):
        if (folder / "tau3.yaml").is_file():
            return folder
    raise SettingsError(f"{homes[0]}: the folder {installed.as_posix()} is missing there; install Tau Trainer again")


def shipped_names() -> list[str]:
    """Names of the shipped settings files without ``.yaml``, sorted."""
    return sorted((path.stem for path in configs_folder().glob("*.yaml")), key=str.lower)


def find_config(name: str | Path) -> Path:
    """The file at ``name``, or the shipped one that is called so (``tau3``, ``tau3.yaml``, ``configs/tau3.yaml``).

    Raises:
        SettingsError: there is neither.
    """
    path = Path(name)
    if path.is_file():
        return path
    if path.is_dir():
        raise SettingsError(f"{path}: is a folder; name a YAML file in it")
    if path.parent in (Path(), Path("configs")) and path.suffix in ("", ".yaml", ".yml"):
        shipped = configs_folder() / f"{path.stem if path.suffix else path.name}.yaml"
        if shipped.is_file():
            return shipped
    names = shipped_names()
    near = difflib.get_close_matches(path.stem.lower(), [shipped.lower() for shipped in names], 1)
    hint = next((f"did you mean {shipped}?" for shipped in names if [shipped.lower()] == near), None)
    raise SettingsError(f"{path}: no such file; {hint or 'check the path, or take a shipped one: ' + ', '.join(names)}")

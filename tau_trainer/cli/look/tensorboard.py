"""``tau-train tensorboard``: TensorBoard on the results folder, or on some of its runs."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from cyclopts import Parameter

from tau_trainer.cli.flags import number, valued
from tau_trainer.cli.messages import set_up_logging, show_lines, show_status
from tau_trainer.cli.options import Debug, ResultsDir
from tau_trainer.cli.running import run_folders
from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_HIGHEST_PORT = 65535
_ANOTHER_PORT = "choose another with --port, or let --port 0 find a free one"
_WAIT_S = 1.0


def tensorboard_command(
    runs: Annotated[
        tuple[str, ...], Parameter(help="A run's id, or the path of its folder. [default: all runs]", negative="")
    ] = (),
    /,
    *,
    host: Annotated[
        str, valued("Address to serve on; 0.0.0.0 lets other machines in. [default: localhost]", "ADDRESS")
    ] = "localhost",
    port: Annotated[int, number("Port to serve on; 0 finds a free one. [default: 6006]")] = 6006,
    results_dir: ResultsDir = "results",
    debug: Debug = False,
) -> int:
    """Start TensorBoard on your runs.

    It shows the results folder, or the runs that you name, and prints its address. Reward, episode length, losses and
    the age of the policy are pinned to the top. It runs until you press Ctrl-C, and changes nothing.
    """
    set_up_logging(debug=debug)
    home = Path(results_dir)
    if not runs and not home.is_dir():
        raise SettingsError(f"{results_dir}: no such folder; train a run first, or name another --results-dir")
    folders = run_folders(runs, results_dir)
    flags = {"logdir_spec": _specification(folders)} if folders else {"logdir": str(home.resolve())}
    if not 0 <= port <= _HIGHEST_PORT:
        raise SettingsError(f"--port {port}: must be between 0 and {_HIGHEST_PORT}")
    from tau_trainer.bridge.ports import check_address

    host = host.strip("[]")
    check_address(host, port, "--host", _ANOTHER_PORT)
    show_status(f"starting TensorBoard on {', '.join(map(str, folders)) or home}; Ctrl-C ends it")
    address = _launch({**flags, "host": host, "port": port})
    with contextlib.suppress(KeyboardInterrupt):
        show_lines([f"TensorBoard: {address}"])
        while True:
            time.sleep(_WAIT_S)
    return 0


def _specification(folders: Sequence[Path]) -> str:
    """The folders and their names in the format of TensorBoard's ``--logdir_spec``. Raises SettingsError."""
    count = Counter(folder.resolve().name for folder in folders)
    parts = []
    for folder in map(Path.resolve, folders):
        # On Windows, one letter before a colon would be a drive.
        plain = count[folder.name] == 1 and len(folder.name) > 1
        name = folder.name if plain else folder.relative_to(folder.anchor).as_posix()
        if "," in str(folder) or ":" in name:
            raise SettingsError(
                f"{folder}: TensorBoard cannot show a single run with a comma or colon in its path; leave RUN out to "
                "show all runs"
            )
        parts.append(f"{name}:{folder}")
    return ",".join(parts)


def _launch(flags: dict[str, Any]) -> str:
    """Start the server in its own thread; returns its address. Raises TauError."""
    from tensorboard import program

    from tau_trainer.bridge.ports import port_taken

    def server(app: WSGIApplication, flags: Any) -> Any:
        return program.WerkzeugServer(with_layout(app), flags)

    board = program.TensorBoard(server_class=server)
    board.configure(**flags, load_fast="false")  # the fast loader is a separate process; our files are small
    try:
        return str(board.launch())
    except program.TensorBoardPortInUseError:
        raise port_taken(flags["port"], _ANOTHER_PORT) from None
    except program.TensorBoardServerException as error:
        raise SettingsError(f"{error.msg}; check --host and --port") from None


def with_layout(app: WSGIApplication) -> WSGIApplication:
    """Return ``app`` with the most important scalars pinned to the top of its first page.

    Pins are part of TensorBoard's addresses (``pinnedCards``), so nothing is written to a run. TensorBoard does not
    show a pin if no run has its scalar.
    """
    from tau_trainer.metrics import keys
    from tau_trainer.tau.task import TauTask

    first = (
        keys.CUMULATIVE_REWARD,
        keys.GROUP_CUMULATIVE_REWARD,
        TauTask.keys.reward,
        keys.VALIDATION_ACCURACY,
        keys.ELO,
        keys.EPISODE_LENGTH,
        keys.POLICY_LOSS,
        keys.VALUE_LOSS,
        keys.Q1_LOSS,
        keys.POLICY_AGE,
    )
    place = "/?pinnedCards=" + quote(json.dumps([{"plugin": "scalars", "tag": tag} for tag in first]))

    def paged(environ: dict[str, Any], start_response: Any) -> Any:
        if environ.get("PATH_INFO") in ("", "/") and not environ.get("QUERY_STRING"):
            start_response("302 Found", [("Location", place), ("Content-Length", "0")])
            return []
        return app(environ, start_response)

    return paged

"""``tau-train cluster``: start, inspect and stop a Ray cluster on machines that you reach by ssh."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tau_trainer.cli.messages import set_up_logging, show_json, show_lines, show_status
from tau_trainer.cli.options import Debug, Json, commands

if TYPE_CHECKING:
    from tau_trainer.cluster.machines import Answer

app = commands("cluster")

File = Annotated[Path, Parameter(help="YAML file with name, head and workers.")]


@app.command(name="up")
def up_command(file: File, /, *, debug: Debug = False) -> int:
    """Start the cluster on every machine, with its own token.

    Machines where it already runs are left alone, so this also restarts failed ones. Other Ray clusters are not
    touched.
    """
    set_up_logging(debug=debug)
    from tau_trainer.cluster.inventory import load_machines
    from tau_trainer.cluster.machines import token_path, up

    settings = load_machines(file)
    show_status(f"starting {settings.name} on {1 + len(settings.workers)} machines")
    lines = lines_of(up(settings, Path.home()))
    variables = f"RAY_AUTH_TOKEN_PATH={token_path(settings)} RAY_ADDRESS={settings.address}"
    show_lines([*lines, f"on {settings.head.host}: {variables} tau-train learn ... --cluster RAY_ADDRESS"])
    return 0


@app.command(name="status")
def status_command(file: File, /, *, json: Json = False, debug: Debug = False) -> int:
    """Show the state of every machine. Exit code 1 if one does not run."""
    set_up_logging(debug=debug)
    from tau_trainer.cluster.inventory import load_machines
    from tau_trainer.cluster.machines import status

    answers = status(load_machines(file))
    if json:
        machines = [{"host": each.machine.host, "state": each.state, "text": each.text} for each in answers]
        show_json({"machines": machines})
    else:
        show_lines(lines_of(answers))
    return int(any(answer.state != "running" for answer in answers))


@app.command(name="down")
def down_command(file: File, /, *, debug: Debug = False) -> int:
    """Stop the cluster on every machine, and delete its token. Other Ray clusters are not touched."""
    set_up_logging(debug=debug)
    from tau_trainer.cluster.inventory import load_machines
    from tau_trainer.cluster.machines import down

    show_lines(lines_of(down(load_machines(file), Path.home())))
    return 0


def lines_of(answers: Iterable[Answer]) -> Iterable[str]:
    """One line for each machine, with the reason if something is wrong."""
    for answer in answers:
        wrong = answer.state in ("died", "unreachable")
        yield f"{answer.machine.host}: {answer.state}" + (f": {answer.text}" if wrong else "")

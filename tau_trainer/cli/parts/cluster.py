"""``tau-train cluster``: a Ray cluster of machines that ssh reaches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tau_trainer.cli.messages import set_up_logging, show_json, show_lines, show_status
from tau_trainer.cli.options import Debug, Json, commands

if TYPE_CHECKING:
    from tau_trainer.cluster.machines import Answer

app = commands("cluster", "Begin, look at and end a Ray cluster of machines that ssh reaches.")

File = Annotated[Path, Parameter(help="YAML: name, head and workers.")]


@app.command(name="up")
def up_command(file: File, /, *, debug: Debug = False) -> int:
    """Begin it on every machine, with a token of its own.

    Machines where it runs already are left alone, so this also brings back what has died. No other Ray is touched.
    """
    set_up_logging(debug=debug)
    from tau_trainer.cluster.inventory import load_machines
    from tau_trainer.cluster.machines import token_path, up

    settings = load_machines(file)
    show_status(f"beginning {settings.name} on {1 + len(settings.workers)} machines")
    lines = lines_of(up(settings, Path.home()))
    variables = f"RAY_AUTH_TOKEN_PATH={token_path(settings)} RAY_ADDRESS={settings.address}"
    show_lines([*lines, f"on {settings.head.host}: {variables} tau-train learn ... --cluster RAY_ADDRESS"])
    return 0


@app.command(name="status")
def status_command(file: File, /, *, json: Json = False, debug: Debug = False) -> int:
    """Say how every machine does. Exit code 1 where one does not run."""
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
    """End it on every machine, and forget its token. No other Ray is touched."""
    set_up_logging(debug=debug)
    from tau_trainer.cluster.inventory import load_machines
    from tau_trainer.cluster.machines import down

    show_lines(lines_of(down(load_machines(file), Path.home())))
    return 0


def lines_of(answers: Iterable[Answer]) -> Iterable[str]:
    """One for each machine; a word more where something is wrong."""
    for answer in answers:
        wrong = answer.state in ("died", "unreachable")
        yield f"{answer.machine.host}: {answer.state}" + (f": {answer.text}" if wrong else "")

"""``tau-train hub``: push a run to the Hugging Face Hub, or pull one from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tau_trainer.cli.flags import valued
from tau_trainer.cli.messages import set_up_logging, show_lines, show_status
from tau_trainer.cli.options import Debug, ResultsDir, Run, commands
from tau_trainer.cli.running import run_folder

app = commands("hub")

Repo = Annotated[str, Parameter(help="A model repository on the Hub: OWNER/NAME.")]


@app.command(name="push")
def push_command(
    run: Run,
    repo: Repo,
    /,
    *,
    public: Annotated[bool, Parameter(help="Make a new repository public. [default: private]")] = False,
    message: Annotated[str | None, valued("Commit message. [default: names the run]", "TEXT")] = None,
    dry_run: Annotated[
        Path | None, valued("Write the files to this empty folder instead of pushing them.", "DIR")
    ] = None,
    force: Annotated[bool, Parameter(help="Push even if the repository holds something else.")] = False,
    results_dir: ResultsDir = "results",
    debug: Debug = False,
) -> int:
    """Push a run to the Hub, with a model card.

    Pushes the newest checkpoint as safetensors, ONNX models, settings, log, curve and report, but no engine logs. Log
    in with hf auth login, or set HF_TOKEN.
    """
    set_up_logging(debug=debug)
    folder = run_folder(run, results_dir, "log.jsonl")
    from tau_trainer.sharing import Repository, contents_of, write_contents
    from tau_trainer.sharing.remote import check_name

    check_name(repo)
    show_status(f"reading {folder}")
    repository = Repository(repo) if dry_run is None else None
    contents = contents_of(folder, repo)
    for place in contents.revealing:
        show_status(f"note: configuration.yaml names a path of this machine: {place}")
    what = f"{len(contents.files)} files, {contents.size / 1e6:,.1f} MB"
    if repository is None or dry_run is not None:
        assert dry_run is not None
        write_contents(contents, dry_run)
        show_lines([*contents.files, f"written to {dry_run}, nothing pushed: {what}"])
        return 0
    show_status(f"pushing {what} to {repo}")
    address, private = repository.push(contents, message or f"Run {folder.name}", private=not public, force=force)
    show_lines([f"pushed: {address} ({'private' if private else 'public'})"])
    return 0


@app.command(name="pull")
def pull_command(
    repo: Repo,
    /,
    *,
    run_id: Annotated[str | None, valued("Name of the run's folder. [default: the repository's]", "ID")] = None,
    revision: Annotated[str | None, valued("A branch, tag or commit. [default: the newest]", "REV")] = None,
    results_dir: ResultsDir = "results",
    debug: Debug = False,
) -> int:
    """Pull a run from the Hub.

    You can resume, evaluate and export it, and start other runs from it with --initialize-from. Nothing is unpickled,
    and no existing folder is overwritten.
    """
    set_up_logging(debug=debug)
    from tau_trainer.sharing import Repository, pull
    from tau_trainer.sharing.remote import check_name

    check_name(repo)
    show_status(f"pulling {repo} from the Hub")
    pulled = pull(Repository(repo), Path(results_dir), run_id, revision, show_status)
    for note in pulled.notes:
        show_status(f"note: {note}")
    show_lines([f"pulled: {pulled.folder} (commit {pulled.commit})"])
    return 0

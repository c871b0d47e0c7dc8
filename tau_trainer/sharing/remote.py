"""Access to the Hugging Face Hub with ``huggingface_hub`` (extra ``[hub]``); no other module uses the Hub.

The library logs in by itself, with ``HF_TOKEN`` or the login of ``hf auth login``. This module never handles a token.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tau_trainer import __version__
from tau_trainer.errors import HubError, SettingsError
from tau_trainer.sharing.contents import Contents, is_of_a_run

_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_THEIRS = (".gitattributes",)
"""Files that the Hub adds to a new repository."""
_NOT_ALLOWED = {401: "needs a login", 403: "does not let you in"}


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a repository at one commit."""

    commit: str
    """Hash of the commit, so that fetched files cannot change in the meantime."""
    sizes: Mapping[str, int]
    """Bytes by path; 0 if the Hub does not report them."""


class Repository:
    """A model repository, ``owner/name``. All methods raise HubError with one sentence."""

    def __init__(self, name: str) -> None:
        """Raises SettingsError if the name is invalid, or the extra is not installed."""
        check_name(name)
        try:
            import huggingface_hub
            from huggingface_hub.utils.tqdm import disable_progress_bars
        except ImportError as error:
            raise SettingsError(
                f"this needs huggingface_hub, which is not installed: pip install 'tau-trainer[hub]' ({error})"
            ) from None
        if not sys.stderr.isatty():
            disable_progress_bars()
        self.name = name
        self._hub = huggingface_hub
        self._api: Any = huggingface_hub.HfApi(library_name="tau-trainer", library_version=__version__)

    def push(self, contents: Contents, message: str, *, private: bool, force: bool) -> tuple[str, bool]:
        """Create the repository if it does not exist, and push ``contents`` in one commit.

        Files of an earlier push that are not in this one are deleted; the history keeps them. Other files stay.
        ``private``: for a new repository. ``force``: push even if the repository holds something else.

        Returns:
            The repository's address, and whether it is private.
        """
        with self._sentences("push to"):
            self._api.create_repo(self.name, private=private, exist_ok=True)
            info = self._api.model_info(self.name)
            there = [file.rfilename for file in info.siblings or ()]
            others = [name for name in there if name not in _THEIRS]
            if others and not any(name.startswith("checkpoints/") for name in others) and not force:
                raise HubError(
                    f"{self.name} has files that are not from a run of Tau Trainer ({', '.join(sorted(others)[:3])}); "
                    "choose another name, or add --force to add this run and overwrite files"
                )
            gone = [name for name in others if is_of_a_run(name) and name not in contents.files]
            operations: list[Any] = [self._hub.CommitOperationDelete(path_in_repo=name) for name in gone]
            for name, content in contents.files.items():
                source = content if isinstance(content, bytes) else str(content)
                operations.append(self._hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=source))
            self._api.create_commit(self.name, operations, commit_message=message)
        return f"{self._api.endpoint}/{self.name}", bool(info.private)

    def listing(self, revision: str | None = None) -> Listing:
        """The files at ``revision`` (a branch, tag or commit); None: the newest."""
        with self._sentences("read"):
            info = self._api.model_info(self.name, revision=revision, files_metadata=True)
            return Listing(str(info.sha), {file.rfilename: int(file.size or 0) for file in info.siblings or ()})

    def fetch(self, path: str, commit: str, folder: Path) -> None:
        """Download the file ``path`` of a commit to ``folder``. The caller must check that the path stays inside."""
        with self._sentences("pull from"):
            self._api.hf_hub_download(self.name, path, revision=commit, local_dir=folder)

    @contextlib.contextmanager
    def _sentences(self, doing: str) -> Iterator[None]:
        """Convert every error of the library to one sentence with a remedy."""
        errors = self._hub.errors
        try:
            yield
        except HubError:
            raise
        except errors.RevisionNotFoundError as error:
            raise HubError(f"{self.name} has no such revision; leave --revision out for the newest") from error
        except errors.RepositoryNotFoundError as error:
            raise HubError(
                f"there is no repository {self.name}, or you have no access; check the name, and if it is private, log "
                "in with hf auth login, or set HF_TOKEN"
            ) from error
        except (errors.LocalTokenNotFoundError, errors.HfHubHTTPError) as error:
            status = getattr(getattr(error, "response", None), "status_code", None)
            if isinstance(error, errors.LocalTokenNotFoundError) or status in _NOT_ALLOWED:
                why = _NOT_ALLOWED.get(status or 401, "")
                raise HubError(
                    f"cannot {doing} {self.name}: the Hub {why}; log in with hf auth login, or set HF_TOKEN to a token "
                    "with write access"
                ) from error
            raise HubError(f"cannot {doing} {self.name}: {_first_line(error)}; try again later") from error
        except Exception as error:  # its transport's errors have no common base
            raise HubError(
                f"cannot {doing} {self.name}: {_first_line(error)}; check the network, and HF_ENDPOINT if it is set"
            ) from error


def check_name(name: str) -> None:
    """Raises SettingsError if the name is not valid for a repository."""
    if not _NAME.fullmatch(name) or ".." in name or "--" in name:
        raise SettingsError(f"{name}: is not a repository of the Hub; use OWNER/NAME, such as your-name/{_plain(name)}")


def _plain(name: str) -> str:
    """A suggestion for a name: the last part, without invalid characters."""
    return re.sub(r"[^\w.-]|\.\.|--", "", name.rpartition("/")[2]) or "run"


def _first_line(error: BaseException) -> str:
    """First line of the original error; the library's errors in between say only that something failed."""
    while error.__cause__ is not None:
        error = error.__cause__
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {line}".rstrip(": .")

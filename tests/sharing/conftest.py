"""A Hub on this machine that the library is pointed at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from tests.sharing.fake_hub import TOKEN, Hub, hub


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Version 2.4.0 uploads in a way that its transport wants otherwise, which is none of ours."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"))


@contextmanager
def hub_of(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Hub]:
    """A Hub that the library is pointed at, and where ``somebody`` is logged in; ``folder``: for what it keeps."""
    with hub() as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.address)
        where = running.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", where)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(folder / "no-token"))
        monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", str(folder / "no-tokens"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
        try:
            yield running
        finally:
            huggingface_hub.close_session()


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub where ``somebody`` is logged in."""
    with hub_of(monkeypatch, tmp_path) as running:
        yield running

"""Runs on the Hugging Face Hub: pushing and pulling them. Does not import torch."""

from __future__ import annotations

from tau_trainer.sharing.contents import Contents, contents_of, write_contents
from tau_trainer.sharing.pulling import Pulled, pull
from tau_trainer.sharing.remote import Repository

__all__ = ["Contents", "Pulled", "Repository", "contents_of", "pull", "write_contents"]

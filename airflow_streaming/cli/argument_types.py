"""What texts of a command line become, for several commands; argparse shows the names in errors."""

from __future__ import annotations

import os
from typing import Any


def place(text: str) -> str:
    """Return a URI as it is, and a path as an absolute one: people work in a folder."""
    if "://" in text or not text.strip():
        return text
    return os.path.abspath(text)  # noqa: PTH100 - pathlib would follow links


def pair(text: str) -> tuple[str, Any]:
    """Return ``key=value`` as a pair."""
    key, found, value = text.partition("=")
    if not found or not key:
        raise ValueError(text)
    return key, value

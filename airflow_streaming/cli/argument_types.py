"""What texts of a command line become, for several commands; argparse shows the names in errors."""

from __future__ import annotations

import argparse
import os
from typing import Any

from airflow_streaming.core.uris import in_full, lacks_slashes


def place(text: str) -> str:
    """
    Return a URI in full, and a path as an absolute one: people work in a folder.

    What only looks like a URI, e.g. ``s3:/bucket``, is left for whoever opens it to refuse: a folder
    called ``s3:`` would be made else. ``./s3:/bucket`` is that folder.
    """
    uri = in_full(text)
    if "://" in uri or lacks_slashes(uri) or not uri.strip():
        return uri
    return os.path.abspath(text)  # noqa: PTH100 - pathlib would follow links


def pair(text: str) -> tuple[str, Any]:
    """Return ``key=value`` as a pair."""
    key, found, value = text.partition("=")
    if not key:
        raise argparse.ArgumentTypeError(f"{text!r} has no key. Write KEY=VALUE.")
    if not found:
        raise argparse.ArgumentTypeError(f"{key!r} has no value. Write {key}=VALUE.")
    return key, value

"""Values of records as the page gets them: texts cut to a length, times, and damaged records left out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.codec import format_time
from airflow_streaming.model.spark.failures import mask_secrets

T = TypeVar("T")
MAX_TEXT: Final = 4_000
"""Characters of a text that a page gets; a driver's whole error is in its log."""


def cut(text: str | None, most: int = MAX_TEXT) -> str:
    """Return a text of a record, no longer than a page can take."""
    found = text or ""
    return found if len(found) <= most else f"{found[:most]} ... ({len(found)} characters)"


def quoted(text: str | None, most: int = MAX_TEXT) -> str:
    """Return a text that quotes errors, scripts or users: its secrets marked, then cut."""
    whole = text or ""
    # Half a secret is not recognized, so the cut comes last; the text to mask is bounded too.
    found = mask_secrets(whole[: 2 * most])
    is_whole = len(found) <= most and len(whole) <= 2 * most
    return found if is_whole else f"{found[:most]} ... ({len(whole)} characters)"


def told(moment: datetime | None) -> str | None:
    """Return a time as the page reads it."""
    return None if moment is None else format_time(moment)


def tried(read: Callable[[], T]) -> T | None:
    """Return the value that was read, ``None`` where its record is damaged."""
    try:
        return read()
    except RecordError:
        return None

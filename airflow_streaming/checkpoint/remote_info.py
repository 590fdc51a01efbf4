"""What the file systems of fsspec tell of a file, each in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

TAGS: Final = ("ETag", "etag", "md5Hash", "content_md5", "generation", "VersionId")
"""What stores call a tag that differs whenever an object was written anew."""

TIMES: Final = ("mtime", "LastModified", "last_modified", "updated", "modificationTime", "created")
"""What the file systems call the time of a file, the usual one first."""


def last_name(info: Mapping[str, Any]) -> str:
    """Return the last part of a file's name."""
    return str(info.get("name", "")).rstrip("/").rsplit("/", 1)[-1]


def is_itself(info: Mapping[str, Any], folder: str) -> bool:
    """Tell whether an entry of a folder is the folder: a marker, or a file taken for a folder."""
    return str(info.get("name", "")).strip("/") == folder.strip("/")


def size_in(info: Mapping[str, Any]) -> int:
    """Return the bytes of a file; 0 when the file system does not tell."""
    size = info.get("size")
    return size if type(size) is int and size >= 0 else 0


def stamp_in(info: Mapping[str, Any]) -> str:
    """Return what differs whenever the file was written anew; empty when nothing of it is told."""
    return "|".join(str(info[key]) for key in (*TAGS, *TIMES) if info.get(key) is not None)


def time_in(info: Mapping[str, Any]) -> datetime | None:
    """Return the time of a file; ``None`` when the file system does not tell."""
    told = next((info[key] for key in TIMES if info.get(key) is not None), None)
    try:
        if isinstance(told, str):
            told = datetime.fromisoformat(told)
        if isinstance(told, datetime):
            return told.astimezone(UTC) if told.tzinfo else told.replace(tzinfo=UTC)
        if isinstance(told, int | float) and not isinstance(told, bool):
            # WebHDFS counts in milliseconds, everybody else in seconds.
            return datetime.fromtimestamp(told / 1000 if told > 1e11 else told, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None

"""Reading ahead: the files that a report will read from an object store, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.core.checkpoint.likely import LARGEST
from airflow_streaming.core.checkpoint.listing import Read
from airflow_streaming.exceptions import RecordError

AT_ONCE: Final = 16
"""Requests under way; the connection pool of most clients has ten to fifty."""


def read_ahead(folders: Folders, paths: Sequence[str]) -> Read:
    """
    Fetch files and return a reader that has them.

    :param paths: Files to fetch; others are read when they are asked for.
    :raises HomeUnavailable: the store cannot be reached.
    """

    def fetch(path: str) -> bytes | None:
        try:
            return folders.read(path, LARGEST)
        except RecordError:
            # It has grown, or is no file: whoever asks for it is told.
            return None

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="checkpoint-read") as pool:
        fetched = dict(zip(paths, pool.map(fetch, paths), strict=True))

    def read(path: str, limit: int) -> bytes | None:
        data = fetched.get(path)
        if data is None or len(data) > limit:
            return folders.read(path, limit)
        return data

    return read

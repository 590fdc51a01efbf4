"""The port through which a live copy hands over its files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from airflow_streaming.checkpoint.blobs import Elsewhere
from airflow_streaming.core.checkpoint.backup import Member
from airflow_streaming.core.checkpoint.listing import FileStat


class Taker(Protocol):
    """
    Where a copy goes: a ``BundleWriter``, or whoever writes the files to a place of their own.

    A copy that begins anew goes on with the same taker. What was taken for nothing is not among
    the members that ``copy_live`` returns in the end.
    """

    def expect(self, files: Iterable[tuple[str, FileStat]]) -> None:
        """Be told what there will be, before the first file; again for every new pin."""

    def known(self, path: str, size: int, stamp: str) -> Member | None:
        """Return the member when the file need not be read."""

    def add(self, path: str, data: bytes, stamp: str = "") -> Member:
        """Take a small file."""

    def add_large(
        self,
        path: str,
        chunks: Iterable[bytes],
        stamp: str = "",
        *,
        elsewhere: Elsewhere | None = None,
    ) -> Member:
        """Take a large file; when its chunks raise, nothing was taken."""

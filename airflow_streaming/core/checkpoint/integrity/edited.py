"""Files that differ from the hidden checksum that Hadoop put beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.checkpoint.finding import Finding, FindingCode
from airflow_streaming.core.checkpoint.listing import Listing, Read
from airflow_streaming.core.checkpoint.state.crc import agrees_with_hadoop
from airflow_streaming.exceptions import RecordError

_MOST: Final = 1024 * 1024
"""Four bytes of checksum for each 512 bytes of a file."""


def edited(listing: Listing, read: Read, path: str, data: bytes) -> Iterator[Finding]:
    """Return a finding when a log file is not what its checksum file was made of."""
    folder, _, name = path.rpartition("/")
    hidden = f"{folder}/.{name}.crc" if folder else f".{name}.crc"
    stat = listing.stat(hidden)
    if stat is None or stat.size > _MOST:
        return
    try:
        checksums = read(hidden, _MOST)
    except RecordError:
        return
    if checksums is not None and not agrees_with_hadoop(data, checksums):
        yield Finding(
            code=FindingCode.LOG_EDITED,
            path=path,
            message=f"{path} is not what Spark wrote: it differs from its checksum in {hidden}. It "
            "was edited, copied over or damaged. Spark does not look at the checksum and goes on "
            f"from whatever the file says. If it was edited on purpose, delete {hidden}; else "
            "restore a verified backup into a new place.",
        )

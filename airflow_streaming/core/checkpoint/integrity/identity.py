"""The query's id: ``metadata``, a file that Spark writes once and never again."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_streaming.core.checkpoint.finding import Finding, FindingCode
from airflow_streaming.core.checkpoint.integrity.logs import RESTORE
from airflow_streaming.core.checkpoint.journal import Journal
from airflow_streaming.core.checkpoint.listing import Listing, Read
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES
from airflow_streaming.core.foreign.tail import parse_query_id
from airflow_streaming.exceptions import RecordError

METADATA = "metadata"


def read_query_id(listing: Listing, read: Read) -> str | None:
    """Return Spark's id of the query, ``None`` when the checkpoint does not tell."""
    if listing.stat(METADATA) is None:
        return None
    try:
        data = read(METADATA, MAX_LOG_BYTES)
    except RecordError:
        return None
    return parse_query_id(data) if data is not None else None


def identity_problems(
    listing: Listing, query_id: str | None, journal: Journal
) -> Iterator[Finding]:
    """Return what is wrong with the query's id."""
    # Spark makes the folders of a new query before it writes the id.
    is_new = not journal.planned and not journal.committed and listing.stat(METADATA) is None
    if query_id is not None or is_new:
        return
    if listing.stat(METADATA) is None:
        yield Finding(
            code=FindingCode.METADATA_MISSING,
            path=METADATA,
            message="The file with the query's id is missing. Spark 4.2 and newer refuse to start "
            "(STREAMING_CHECKPOINT_MISSING_METADATA_FILE); an older one gives the query a new id "
            f"without a word. {RESTORE}",
        )
    else:
        yield Finding(
            code=FindingCode.METADATA_UNREADABLE,
            path=METADATA,
            message="The file with the query's id is empty or not what Spark writes. Spark fails "
            f"to start. {RESTORE} Or write the id back if it is known, e.g. from a progress "
            'report: {"id":"..."}; delete .metadata.crc with it.',
        )

"""The query's id: ``metadata``, a file that Spark writes once and never again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from airflow_streaming.core.checkpoint.finding import Finding, FindingCode
from airflow_streaming.core.checkpoint.integrity.edited import edited
from airflow_streaming.core.checkpoint.integrity.logs import RESTORE
from airflow_streaming.core.checkpoint.journal import Journal
from airflow_streaming.core.checkpoint.listing import Listing, Read
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES
from airflow_streaming.core.foreign.tail import parse_query_id
from airflow_streaming.exceptions import RecordError

METADATA = "metadata"


class Identity(NamedTuple):
    """
    What ``metadata`` says.

    :param query_id: Spark's id of the query; ``None`` when the checkpoint does not tell.
    :param findings: The file differs from the checksum beside it.
    """

    query_id: str | None
    findings: tuple[Finding, ...] = ()


def read_identity(listing: Listing, read: Read) -> Identity:
    """Return the query's id."""
    if listing.stat(METADATA) is None:
        return Identity(None)
    try:
        data = read(METADATA, MAX_LOG_BYTES)
    except RecordError:
        return Identity(None)
    query_id = parse_query_id(data) if data is not None else None
    if data is None or query_id is None:
        return Identity(None)
    return Identity(query_id, tuple(edited(listing, read, METADATA, data)))


def identity_problems(listing: Listing, identity: Identity, journal: Journal) -> Iterator[Finding]:
    """Return what is wrong with the query's id."""
    # Spark makes the folders of a new query before it writes the id.
    is_new = not journal.planned and not journal.committed and listing.stat(METADATA) is None
    yield from identity.findings
    if identity.query_id is not None or is_new:
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
            message="The file with the query's id is empty or not what Spark writes: it has no id "
            f"that is a UUID. Spark fails to start. {RESTORE} Or write the id back if it is known, e.g. from a progress "
            'report: {"id":"..."}; delete .metadata.crc with it.',
        )

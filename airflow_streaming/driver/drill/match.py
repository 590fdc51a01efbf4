"""Matching: which query of the checkpoints a script means by the one that it starts."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from airflow_streaming.core.checkpoint.drill import DrilledQuery
from airflow_streaming.core.uris import to_hadoop
from airflow_streaming.driver.drill.patch import Asked


def find_query(
    queries: Sequence[DrilledQuery], asked: Asked, ran: Collection[str]
) -> DrilledQuery | None:
    """
    Return the query that the script wants to start, ``None`` when the checkpoints do not have it.

    :param ran: Folders of the queries that were started before.
    """
    place = None if asked.location is None else place_of(asked.location)
    for query in queries:
        if place is not None and place == place_of(query.checkpoint):
            return query
    names = {asked.name, None if place is None else place.rpartition("/")[2]} - {None, ""}
    for query in queries:
        if query.folder in names:
            return query
    # A single checkpoint, and a script that has been moved to another place since.
    alone = len(queries) == 1 and not queries[0].folder and not ran
    return queries[0] if alone else None


def place_of(uri: str) -> str:
    """Return a location in one spelling: Hadoop writes ``file:/x``, people ``/x`` or ``s3://x``."""
    local = re.sub(r"^file:/+", "/", uri)
    return to_hadoop(local.rstrip("/"))

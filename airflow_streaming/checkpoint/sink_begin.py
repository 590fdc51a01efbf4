"""
Beginning a file sink with a batch other than the first.

Every so many batches Spark makes one entry of its log out of those before it, and fails when one of
them is missing. A query that goes on with another one's batch numbers in an output of its own is
therefore given a log in which the batches before it have written nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from airflow_streaming.checkpoint.sources import SINK_LOG
from airflow_streaming.core.uris import join
from airflow_streaming.exceptions import AlreadyExists
from airflow_streaming.home.opening import open_store

_NOTHING = b"v1"


def begin_sink_log(output: str, batch: int, compact_interval: int, **access: Any) -> None:
    """
    Have the log of an output say that every batch up to one has written nothing; again does nothing.

    :param output: Where the sink is going to write; nobody does yet.
    :param batch: The last batch before its first one.
    :param compact_interval: How many batches Spark makes one entry of; from an entry that there is
        Spark finds one that fits, whatever it is set to.
    :param access: ``storage_options`` and ``filesystem``, as for a checkpoint.
    :raises HomeUnavailable: the output cannot be reached.
    """
    store = open_store(join(output, SINK_LOG), **access)
    *names, last = _entries(batch, compact_interval)
    # The last one is written last: once it is there the sink may have begun, and nobody who is late
    # may write beside it.
    if {str(batch), f"{batch}.compact"}.isdisjoint(store.names("")):
        for name in (*names, last):
            with contextlib.suppress(AlreadyExists):
                store.create(name, _NOTHING)


def _entries(batch: int, interval: int) -> Iterator[str]:
    """Return the names of what Spark would read of a log up to a batch."""
    compacted = (batch + 1) // interval * interval - 1
    if compacted >= 0:
        yield f"{compacted}.compact"
    yield from map(str, range(compacted + 1, batch + 1))

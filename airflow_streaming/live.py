"""
What a stream's consumers read: ``live("orders", home="s3://bucket/streams").output``.

Airflow and Spark are not needed for it, only this package, so that a consumer can ask wherever it
runs. The answer is whole: while a cutover moves the pointer, it is that of before or that of after.
A consumer that runs for long asks again before each of its reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_streaming.home.home import open_home
from airflow_streaming.home.lanes import Live, Reign
from airflow_streaming.home.lanes import live as _live
from airflow_streaming.home.lanes import live_together as _live_together

__all__ = ["Live", "Reign", "live", "live_together"]


def live(
    stream: str,
    *,
    home: str,
    storage_options: Mapping[str, Any] | None = None,
    history: bool = False,
) -> Live:
    """
    Return which lane of a stream is live, and what it writes.

    :param stream: Name of the stream.
    :param home: URI of the home.
    :param storage_options: Passed to fsspec for a home that is not a local folder.
    :param history: Also what was live before. A cutover whose green began with a copy of blue's
        checkpoint leaves blue's output where it is: those who want all rows read both.
    :raises SpecError: there is no such stream in the home.
    :raises HomeUnavailable: the home cannot be read.
    """
    return _live(open_home(home, storage_options, probe=False), stream, history=history)


def live_together(
    streams: Sequence[str], *, home: str, storage_options: Mapping[str, Any] | None = None
) -> Mapping[str, Live]:
    """
    Return what is live of several streams at one and the same moment.

    Streams that are cut over together are switched by one record; two calls of ``live`` could fall
    before and after it, this one does not.

    :raises SpecError: one of them is not in the home.
    :raises HomeUnavailable: the home cannot be read.
    """
    return _live_together(open_home(home, storage_options, probe=False), streams)

"""
The output that a stream's consumers read: ``live("orders", home="s3://bucket/streams").output``.

A consumer needs this package, without Airflow and Spark. While a cutover moves the pointer, the answer is
the lane before the move or the lane after it. A consumer that runs for long calls it before each of its reads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.products.live_output import LiveOutput, LivePeriod

if TYPE_CHECKING:
    from airflow_streaming.home.home import Home

__all__ = ["LiveOutput", "LivePeriod", "live", "live_together"]
HOME_VARIABLE: Final = "AIRFLOW_STREAMING_HOME"
"""Where the home is read from when none is named, here as on the command line."""


@checked
def live(
    stream: str,
    *,
    home: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    history: bool = False,
) -> LiveOutput:
    """
    Return the live lane of a stream, with its outputs.

    :param stream: Name of the stream.
    :param home: URI of the home; by default the value of ``AIRFLOW_STREAMING_HOME``.
    :param storage_options: Passed to fsspec for a home that is not a local folder.
    :param history: Also the earlier live lanes. A cutover whose green began with a copy of blue's
        checkpoint leaves blue's output where it is: all rows are in both outputs.
    :raises SpecError: the home has no such stream, or no home was named.
    :raises RecordError: the stream was moved, and the records of the move are lost or damaged.
    :raises HomeUnavailable: the home cannot be read.
    """
    from airflow_streaming.home import consumers

    return consumers.live(_open(home, storage_options), stream, history=history)


@checked
def live_together(
    streams: Sequence[str],
    *,
    home: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Mapping[str, LiveOutput]:
    """
    Return the live lanes of several streams at one moment.

    Streams that are cut over together are switched by one record; two calls of ``live`` could fall
    before and after it, this one does not.

    :param streams: Their names.
    :param home: URI of the home; by default that in ``AIRFLOW_STREAMING_HOME``.
    :param storage_options: Passed to fsspec for a home that is not a local folder.
    :raises SpecError: one of them is not in the home, or no home was named.
    :raises RecordError: one was moved, and the records of that are lost or damaged.
    :raises HomeUnavailable: the home cannot be read.
    """
    from airflow_streaming.home import consumers

    return consumers.live_together(_open(home, storage_options), streams)


def _open(home: str | None, storage_options: Mapping[str, Any] | None) -> Home:
    from airflow_streaming.home.home import open_home

    where = os.environ.get(HOME_VARIABLE) if home is None else home
    if not where:
        raise SpecError(f"Which home? Give home=, or set {HOME_VARIABLE}.")
    return open_home(where, storage_options)

"""
Streams as assets, so that the progress or the state of a stream can schedule a dag.

Airflow's triggerer writes the events: it watches the stream while the asset schedules some dag. Airflow
keeps one set of watchers for each asset and rewrites it at every parse, so an asset must look the same in
every dag file that names it; ``stream_asset`` makes it for all of them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final
from urllib.parse import urlencode

from airflow.sdk import Asset, AssetWatcher

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import Range, checked, is_template
from airflow_streaming.model.names import check_stream_name
from airflow_streaming.model.uris import check_uri, is_local, local_path
from airflow_streaming.supervision.external.address import parse_address
from airflow_streaming.supervision.readiness.subject import EventType, Subject
from airflow_streaming.triggers.asset import StreamEventTrigger

__all__ = ["stream_asset", "window_asset"]

POLL: Final = timedelta(seconds=15)
_Least = Annotated[timedelta, Range(least=timedelta(seconds=1))]


@checked
def stream_asset(
    stream: str | None = None,
    home: str | None = None,
    *,
    on: str = "watermark",
    every: _Least = timedelta(hours=1),
    query: str | None = None,
    name: str | None = None,
    home_conn_id: str | None = None,
    checkpoint: str | None = None,
    endpoint: str | None = None,
    conn_id: str | None = None,
    poll: _Least = POLL,
    watch: bool = True,
) -> Asset:
    """
    Return a stream as an asset with an event for each step of its progress, or change of its state.

    An event's ``extra["payload"]`` holds ``topic``, ``stream``, ``epoch``, ``state``, ``reason``
    and ``sequence``, a number that rises by one with each event; an event that comes twice, because
    a triggerer died while it sent it, has the same. Events of progress add ``query``,
    ``batch_id``, ``committed_at`` and ``watermark``. Events of a watermark add ``complete_from`` and
    ``complete_until``, between which everything is complete; events of a state ``previous``,
    ``rule`` and ``query``; events of a cutover ``lane``, ``color``, ``output``,
    ``previous_lane`` and ``previous_output``.

    :param stream: Name of a stream of this provider.
    :param home: The home's URI.
    :param on: ``watermark``: the stream's watermark has passed the end of another interval.
        ``batch``: it has committed; for streams without a watermark. ``state``: it has become
        well, or unwell in another way. ``live``: consumers are led to another output, by a cutover
        or a deployment. The first event of these two tells where the stream stands.
    :param every: Length of the intervals, counted from 1970 in UTC; of batches, the least time
        between two that are sent. States and lanes are sent at once.
    :param query: The query that counts; default: the query furthest behind.
    :param name: Name of the asset; default: the stream's name and ``on``, or the checkpoint's URI.
    :param home_conn_id: Connection with credentials for the home.
    :param checkpoint: Checkpoint of any Spark query, instead of ``stream`` and ``home``.
    :param endpoint: Web page of that query's application; see ``StreamGateSensor``.
    :param conn_id: Connection with credentials for the checkpoint's store.
    :param poll: Time between two looks.
    :param watch: False for the bare asset. A dag file that names the asset so takes the watcher
        away from all others; to refer to an asset use ``Asset.ref(name=...)`` instead.
    :raises SpecError: no such stream, or no such events of it.
    """
    subject = Subject(
        stream=stream if stream is None else check_stream_name(stream),
        home=home if home is None else check_uri(home, "home"),
        home_conn_id=home_conn_id,
        checkpoint=checkpoint if checkpoint is None else check_uri(checkpoint, "checkpoint"),
        endpoint=endpoint,
        conn_id=conn_id,
    )
    if endpoint is not None:
        parse_address(endpoint)
    topic = _topic(on)
    if topic is EventType.LIVE and subject.is_external:
        raise SpecError("Only a stream of this provider has lanes. Give stream and home.")
    called = name or _default_name(subject, topic, query)
    trigger = StreamEventTrigger(
        **subject.to_dict(),
        asset=called,
        topic=topic.value,
        every_seconds=every.total_seconds(),
        query=query,
        poll_seconds=poll.total_seconds(),
    )
    return Asset(
        name=called,
        uri=_uri(subject, topic, query),
        group="stream",
        watchers=[AssetWatcher(name=called, trigger=trigger)] if watch else [],
    )


@checked
def window_asset(
    stream: str,
    home: str,
    *,
    every: _Least = timedelta(hours=1),
    query: str | None = None,
    name: str | None = None,
) -> Asset:
    """
    Return the complete windows of a stream as an asset with partitions.

    ``ClosedWindowsOperator`` announces them. A partition's key is the begin of its window in UTC, such as
    ``2026-11-27T14:00:00``, which Airflow's temporal partition mappers read.

    :param stream: The stream's name.
    :param home: The home's URI, or a template, which leaves the home out of the asset's URI.
    :param every: Length of the windows.
    :param query: The query that counts; default: the one furthest behind.
    :param name: Name of the asset; default: the stream's name, the series and ``windows``.
    :raises SpecError: the stream cannot have that name.
    """
    from airflow_streaming.model.products.windows import series_name  # other assets do without

    series = series_name(every, query)
    if is_template(home):
        # A URI is made when the file is parsed, so it cannot have the home.
        folder = f"stream+template:/{check_stream_name(stream)}"
    else:
        folder = _folder(Subject(stream=check_stream_name(stream), home=check_uri(home, "home")))
    return Asset(
        name=name or f"{stream}.{series}.windows",
        uri=f"{folder}?{urlencode({'windows': series})}",
        group="stream",
    )


def _topic(on: str) -> EventType:
    try:
        return EventType(on)
    except ValueError as err:
        known = ", ".join(EventType)
        raise SpecError(f"A stream has no events on {on!r}. Use one of {known}.") from err


def _default_name(subject: Subject, topic: EventType, query: str | None) -> str:
    return ".".join(part for part in (subject.name, query, topic.value) if part)


def _uri(subject: Subject, topic: EventType, query: str | None) -> str:
    # In the spelling that Airflow would make of it: sorted, and without a slash at the end. The
    # scheme is our own: other providers give assets of s3:// another meaning.
    values = {"on": topic.value, **({"query": query} if query is not None else {})}
    return f"{_folder(subject)}?{urlencode(values)}"


def _folder(subject: Subject) -> str:
    place = f"file:{local_path(subject.place)}" if is_local(subject.place) else subject.place
    kind = "checkpoint" if subject.is_external else "stream"
    return f"{kind}+{place if subject.is_external else f'{place}/{subject.stream}'}"

"""
Comparing the topics of two lanes, with ``confluent-kafka`` in the process that asks.

A comparison starts no Spark and needs no connector. It reads the records between two offsets of each topic once,
and searches newer records for a record that the other lane lacks. It commits no offsets and joins no consumer
group of the stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow_streaming.changes.judging.topic_records import (
    TopicFindings,
    TopicRecord,
    TopicSide,
    check_keys,
    judge_topics,
)
from airflow_streaming.changes.topic_connection import (
    SERVERS,
    NoConnection,
    client_settings,
    secrets_in,
)
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import (
    CompareReport,
    ComparisonRequest,
    LaterLooks,
    is_one_output,
    not_made,
)
from airflow_streaming.model.spark.failures import presentable
from airflow_streaming.model.spark.secrets import REDACTED

LOOKS: Final = 6
"""Least number of later looks for records that one lane lacks."""
MOST_RECORDS: Final = 2_000_000
"""Records of one topic that are read; each takes some 300 bytes, and librdkafka buffers up to 64 MiB for each topic."""
_SILENCE: Final = 30.0
"""Seconds without a record, before the end of the range, after which the broker counts as silent."""
_OVERLAP: Final = timedelta(hours=1)
"""Each topic is read from this long before the range: two producers give one record two times."""


class Unreadable(Exception):
    """A topic cannot be read; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRange:
    """
    A topic, and the time from which its records are compared.

    :param since: Records that were produced from this time on must be in the other lane too; ``None`` for all.
    :param read_since: The other lane may have records from this time on, e.g. after a replay. Default: ``since``.
    :param lacks_history: The topic can begin later than the other lane's results, because its lane continued the
        position of an earlier deployment.
    """

    topic: str
    since: datetime | None = None
    read_since: datetime | None = None
    lacks_history: bool = False


def compare_topics(
    terms: CompareTerms,
    blue: TopicRange,
    green: TopicRange,
    *,
    options: Mapping[str, str] | None = None,
    complete_from: datetime | None = None,
    in_flight: timedelta = timedelta(0),
    timeout: timedelta = timedelta(minutes=30),
    sleep: Callable[[float], None] = time.sleep,
) -> CompareReport:
    """
    Compare the records that two topics have when the comparison begins.

    :param options: The connection by the names of Spark's Kafka source, with its secrets; default: those of the
        terms.
    :param complete_from: Green's results of earlier times can lack rows, e.g. windows that began before a replay;
        records of such times, by ``CompareTerms.time``, are left out.
    :param in_flight: How long a lane may take to write a record that the other lane has written.
    :param timeout: A longer comparison ends and is inconclusive.
    :return: A report in every case. It is inconclusive, with the reason, where a topic cannot be read.
    """
    at, begun = datetime.now(UTC), time.monotonic()
    asked = ComparisonRequest(terms=terms, blue=blue.topic, green=green.topic)
    if wrong := check_keys(terms) or is_one_output(asked):
        return not_made(asked, wrong, at=at, refused=True)
    task = _Task(
        terms=terms,
        options=terms.options if options is None else options,
        complete_from=complete_from,
        later=LaterLooks.within(in_flight, least=LOOKS),
        deadline=begun + (timeout + in_flight).total_seconds(),
    )
    try:
        found = _compared(task, blue, green, sleep)
    except Unreadable as err:
        return not_made(asked, str(err), at=at)
    return replace(judge_topics(found, terms, at), seconds=round(time.monotonic() - begun, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    terms: CompareTerms
    options: Mapping[str, str] = field(repr=False)
    complete_from: datetime | None
    later: LaterLooks
    deadline: float

    def shown(self, text: str) -> str:
        """Return an error of the library without the secrets of the connection."""
        for secret in secrets_in(self.options):
            text = text.replace(secret, REDACTED)
        return presentable(text)


def _compared(
    task: _Task, blue: TopicRange, green: TopicRange, sleep: Callable[[float], None]
) -> TopicFindings:
    with closing(_Reader(task, blue)) as one, closing(_Reader(task, green)) as other:
        one.read(required=True)
        other.read(required=True)
        looks = 0
        while looks < task.later.number and (
            other.side.lacks(one.side) or one.side.lacks(other.side)
        ):
            looks += 1
            sleep(task.later.pause)
            one.read(required=False)
            other.read(required=False)
        return TopicFindings(
            blue=one.side,
            green=other.side,
            looks=looks,
            offsets=(one.offsets("Blue"), other.offsets("Green")),
            complete_from=task.complete_from,
            blue_lacks_history=blue.lacks_history,
        )


@dataclass(slots=True)
class _Partition:
    """Offsets of a partition: the first compared record, the end, and the next record to read."""

    first: int
    end: int
    next: int


class _Reader:
    """Reads one topic from its range on, to the present end at each call."""

    def __init__(self, task: _Task, asked: TopicRange) -> None:
        self.side = TopicSide(topic=asked.topic)
        self._task = task
        self._library = _library()
        codes = self._library.KafkaError
        self._partition_events = {codes._PARTITION_EOF, codes._AUTO_OFFSET_RESET}
        self._cause = ""
        self._consumer = self._connected()
        try:
            self._partitions = self._positions(asked)
        except self._library.KafkaException as err:
            # The library reports why it has no connection only to a consumer that polls.
            self._consumer.poll(0)
            self._consumer.close()
            raise Unreadable(self._says(err)) from None
        except Unreadable:
            self._consumer.close()
            raise
        self._ranges = dict[int, tuple[int, int]]()
        self._counted = 0

    def _connected(self) -> Any:
        try:
            settings = {**_settings(self._task.options), "error_cb": self._keep_cause}
            return self._library.Consumer(settings)
        except NoConnection as err:
            raise Unreadable(self._task.shown(str(err))) from None
        except (self._library.KafkaException, TypeError, ValueError) as err:
            # From None: the library's own text can have a setting with its value.
            raise Unreadable(self._says(err)) from None

    def close(self) -> None:
        self._consumer.close()

    def offsets(self, lane: str) -> str:
        """Return the compared range as a sentence."""
        told = ", ".join(
            f"{n}: {first} to {end}" for n, (first, end) in sorted(self._ranges.items())
        )
        return f"{lane}: topic {self.side.topic}, offsets by partition {told or 'none'}."

    def read(self, *, required: bool) -> None:
        """
        Read to the present end of the topic.

        :param required: The records must be in the other lane too.
        :raises Unreadable: the broker cannot be reached, or the topic has too many records.
        """
        try:
            self._refresh()
            if required:
                self._ranges = {n: (p.first, p.end) for n, p in self._partitions.items()}
            self._read(required)
        except self._library.KafkaException as err:
            raise Unreadable(self._says(err)) from None

    def _refresh(self) -> None:
        for number, one in self._partitions.items():
            where = self._library.TopicPartition(self.side.topic, number)
            _, one.end = self._consumer.get_watermark_offsets(where, timeout=_SILENCE)
        left = sum(max(0, one.end - one.next) for one in self._partitions.values())
        if self._counted + left > MOST_RECORDS:
            raise Unreadable(
                f"Topic {self.side.topic!r} has {self._counted + left:,} records in the range, and "
                f"{MOST_RECORDS:,} are compared at most. Start green from a clone, or compare a shorter range."
            )

    def _read(self, required: bool) -> None:
        open_ones = {n for n, one in self._partitions.items() if one.next < one.end}
        if not open_ones:
            return
        partition = self._library.TopicPartition
        self._consumer.assign(
            [partition(self.side.topic, n, self._partitions[n].next) for n in sorted(open_ones)]
        )
        heard = time.monotonic()
        while open_ones:
            messages = self._consumer.consume(1000, timeout=1.0)
            now = time.monotonic()
            if not messages and (now - heard > _SILENCE or now > self._task.deadline):
                raise Unreadable(
                    f"Topic {self.side.topic!r} gave no record for {now - heard:.0f} s before the end of "
                    "the range. See that the broker answers, and compare again."
                )
            if now > self._task.deadline:
                raise Unreadable("The comparison took too long. Compare a shorter range.")
            heard = now if messages else heard
            for message in messages:
                self._take(message, required, open_ones)

    def _take(self, consumed: Any, required: bool, open_ones: set[int]) -> None:
        number, error = consumed.partition(), consumed.error()
        if error is not None and error.code() not in self._partition_events:
            raise self._library.KafkaException(error)
        if number not in open_ones:
            # This event belongs to the next look, which reads on from the partition's ``next``.
            return
        one = self._partitions[number]
        if error is not None:
            self._end(number, error.code(), consumed.offset())
            open_ones.discard(number)
            return
        if consumed.offset() >= one.end:
            open_ones.discard(number)
            return
        record = TopicRecord(
            key=consumed.key(), value=consumed.value(), headers=tuple(consumed.headers() or ())
        )
        self.side.take(
            record,
            self._task.terms,
            required=required and consumed.offset() >= one.first,
            complete_from=self._task.complete_from,
        )
        self._counted += 1
        one.next = consumed.offset() + 1
        if one.next >= one.end:
            open_ones.discard(number)

    def _end(self, number: int, code: int, offset: int) -> None:
        """
        Read on behind the last record of a partition.

        :raises Unreadable: the next record has expired.
        """
        one = self._partitions[number]
        if code == self._library.KafkaError._AUTO_OFFSET_RESET:
            raise Unreadable(
                f"Partition {number} of topic {self.side.topic!r} no longer has the record at offset "
                f"{one.next}: it has expired since the comparison began. Compare again."
            )
        # Markers of transactions and a compacted tail have offsets and no record.
        one.next = max(one.next, offset)

    def _positions(self, asked: TopicRange) -> dict[int, _Partition]:
        known = self._consumer.list_topics(asked.topic, timeout=_SILENCE).topics.get(asked.topic)
        if known is None or known.error is not None or not known.partitions:
            raise Unreadable(
                f"Topic {asked.topic!r} is not on {self._task.options.get(SERVERS, 'the broker')}. See "
                "that the lane has written to it, and that its name is right."
            )
        found = {}
        for number in known.partitions:
            where = self._library.TopicPartition(asked.topic, number)
            low, high = self._consumer.get_watermark_offsets(where, timeout=_SILENCE)
            found[number] = _Partition(first=low, end=high, next=low)
        if asked.since is not None:
            first = self._at(asked.topic, found, asked.since)
            begin = (asked.read_since or asked.since) - _OVERLAP
            overlap = self._at(asked.topic, found, begin)
            for number, one in found.items():
                one.first, one.next = first[number], overlap[number]
        return found

    def _at(
        self, topic: str, partitions: Mapping[int, _Partition], since: datetime
    ) -> dict[int, int]:
        """Return the first offset of each partition from a time on; the end where no record is that new."""
        moment = int(since.timestamp() * 1000)
        asked = [self._library.TopicPartition(topic, n, moment) for n in partitions]
        found = self._consumer.offsets_for_times(asked, timeout=_SILENCE)
        return {
            one.partition: partitions[one.partition].end if one.offset < 0 else one.offset
            for one in found
        }

    def _keep_cause(self, error: Any) -> None:
        """Keep why a connection fails, e.g. a wrong password: a later error does not name it."""
        if error.code() != self._library.KafkaError._ALL_BROKERS_DOWN:
            self._cause = error.str()

    def _says(self, err: Exception) -> str:
        servers = self._task.options.get(SERVERS, "")
        told = "; ".join(filter(None, (_text_of(err), self._cause)))
        return f"Topic {self.side.topic!r} on {servers} cannot be read: {self._task.shown(told)}"


def _settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the librdkafka settings for Spark's ``kafka.`` options."""
    return {
        **client_settings(options),
        "group.id": "airflow-streaming-comparison",
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "auto.offset.reset": "error",
        # A failed connection is in the report, once; the library repeats it on stderr several times a second.
        "log_level": "2",
    }


def _text_of(err: Exception) -> str:
    """Return an error without the code and the value that the library prints beside it."""
    first = err.args[0] if err.args else err
    return first.str() if hasattr(first, "str") else str(err)


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError as err:
        raise Unreadable(
            "A comparison of topics needs the package confluent-kafka, which is not installed here. Install it "
            "beside Airflow: pip install 'airflow-streaming[kafka]'."
        ) from err
    return confluent_kafka

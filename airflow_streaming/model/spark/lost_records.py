"""
Records that a topic no longer holds, and the remedy.

Spark's Kafka source says "some data may have been lost" for five situations and advises
``failOnDataLoss=false`` in each. The advice loses data where a topic was recreated: Spark then
waits for the old position and skips all records before it. The sentences come from
``kafka-error-conditions.json`` and, in Spark 3.5, from ``KafkaOffsetReaderAdmin``; each was
provoked with Spark 4.3 and a real broker.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_SKIP: Final = (
    "Find out which records were lost, and bring them back by another way where they matter. Then "
    "failOnDataLoss=false continues with the oldest record that the topic holds. If the topic was created "
    "anew, give the query a new checkpoint instead."
)
_NEW_POSITION: Final = (
    "Do not set failOnDataLoss=false: Spark would never read the records of {partition} before offset {end}. "
    "Give the query a new checkpoint. startingOffsets, or startingTimestamp for a position by time, says "
    "where it begins."
)
_DROP: Final = (
    "If the query shall leave {topics}, set failOnDataLoss=false until one batch is committed: no record of the "
    "remaining topics is lost. If not, subscribe to it again."
)
_ASKED: Final = "Correct startingOffsets: it names an offset that the topic does not hold."
_MOST: Final = 200_000
"""Characters of a message that are read."""
_SUBSCRIPTION: Final = re.compile(r"KafkaV2\[Subscribe\[([^\]]*)\]\]")


@dataclass(frozen=True, slots=True)
class LostRecords:
    """
    The lost records of a source.

    :param reason: Which records, of which partition.
    """

    reason: str
    remedy: str


def lost_records(text: str) -> LostRecords | None:
    """
    Return the loss in a message of Spark's Kafka source; ``None`` for any other text.

    :param text: Spark's whole message; its dump of the query names the subscription.
    """
    text = text[:_MOST]
    for pattern, read in _SENTENCES:
        found = pattern.search(text)
        if found is not None:
            return read(found, text)
    return None


def _moved_back(found: re.Match[str], _: str) -> LostRecords:
    partition, stood, end = found[1], int(found[2]), int(found[3])
    if end >= stood:
        return LostRecords(f"The position in {partition} moved from {stood} to {end}.", _SKIP)
    return LostRecords(
        f"Partition {partition} ends at offset {end}, and the checkpoint stands at {stood}: the topic was "
        "created anew, or its log was cut.",
        _NEW_POSITION.format(partition=partition, end=stood),
    )


def _expired(found: re.Match[str], _: str) -> LostRecords:
    start, end, partition = int(found[1]), int(found[2]), found[3]
    return LostRecords(
        f"Offsets {start} to {end - 1} of partition {partition} are planned, and the topic no longer holds all "
        "of them.",
        _SKIP,
    )


def _out_of_range(found: re.Match[str], _: str) -> LostRecords:
    return LostRecords(
        f"The topic no longer holds offset {found[2]} of partition {found[1]}.", _SKIP
    )


def _gone(found: re.Match[str], text: str) -> LostRecords:
    partitions = sorted(name.strip() for name in found[1].split(","))
    topics = sorted({name.rpartition("-")[0] for name in partitions})
    subscribed = _SUBSCRIPTION.search(text)
    names = ", ".join(partitions)
    if subscribed is not None:
        read = {name.strip() for name in subscribed[1].split(",")}
        if read.isdisjoint(topics):
            return LostRecords(
                f"The query no longer subscribes to {', '.join(topics)}, of which the checkpoint has positions "
                f"({names}).",
                _DROP.format(topics=", ".join(topics)),
            )
    return LostRecords(f"The partitions {names} of the checkpoint no longer exist.", _SKIP)


def _began_late(found: re.Match[str], _: str) -> LostRecords:
    partition, start = found[1], int(found[2])
    return LostRecords(
        f"Partition {partition} is new to the query and begins at offset {start}: offsets 0 to {start - 1} "
        "expired unread.",
        _SKIP,
    )


def _reset(found: re.Match[str], _: str) -> LostRecords:
    return LostRecords(
        f"The query shall begin at offset {found[2]} of partition {found[1]}, and the topic gives {found[3]}.",
        _ASKED,
    )


_SENTENCES: Final[
    tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], LostRecords]], ...]
] = (
    (
        re.compile(r"Partition ([\w.-]+?)(?:'s)? offset was changed from (\d+) to (\d+)"),
        _moved_back,
    ),
    (
        re.compile(r"in offset \[(\d+), (\d+)\) for topic partition ([\w.-]*[\w-])"),
        _expired,
    ),
    (re.compile(r"Set\(([^()]*)\) (?:have been deleted|are gone)"), _gone),
    (
        re.compile(r"Cannot find \w+ offsets (?:for partitions|of) \w*Set\(([^()]*)\)"),
        _gone,
    ),
    (re.compile(r"Added partition ([\w.-]+) starts from (\d+) instead of 0"), _began_late),
    (
        re.compile(r"Starting offset for ([\w.-]+) was (\d+) but consumer reset to (\d+)"),
        _reset,
    ),
    (re.compile(r"OffsetOutOfRangeException: [^{\n]*\{([\w.-]+-\d+)=(\d+)"), _out_of_range),
)
"""Sentences with their parsers, the most specific first."""

"""
Sources that can send the rows of a planned batch again, and sources that cannot.

Spark plans a batch by offsets, records them, and reads. After a kill the next driver reads the same
offsets again, so a source must be able to return to them. Of Spark's own sources only the socket and
the memory of a dead driver cannot.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from airflow_streaming.model.spark.plan import SourcePlan


class SourceReplay(StrEnum):
    """Whether a source can send the rows of a planned batch again."""

    REPLAYS = "replays"
    CANNOT = "cannot"
    UNKNOWN = "unknown"
    """The source is not part of Spark, and neither its plan nor its class says so."""


_REPLAYS: Final = frozenset(
    {"file", "kafka", "rate", "rate-micro-batch", "statestore", "delta", "iceberg", "hudi"}
    | {"kinesis", "aws-kinesis", "pulsar", "eventhubs"}
)
_CANNOT: Final = frozenset({"socket", "textsocket", "memory"})


def replay_of(source: SourcePlan) -> SourceReplay:
    """Return whether a source can send the rows of a planned batch again."""
    if source.source in _REPLAYS:
        return SourceReplay.REPLAYS
    return SourceReplay.CANNOT if source.source in _CANNOT else SourceReplay.UNKNOWN

"""Edits of sinks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.unit.gates.change import builders as b
from tests.unit.gates.change.edit import (
    BROKERS,
    NO,
    STATELESS,
    TO_CONSOLE,
    TO_CUSTOM,
    TO_FUNCTION,
    TO_KAFKA,
    TOLD,
    UNKNOWN,
    YES,
    edit_of,
)

SINKS: Final = (
    edit_of("file to Kafka", STATELESS, TO_KAFKA, "sink.file_to_kafka", TOLD),
    edit_of("Kafka to file", TO_KAFKA, STATELESS, "sink.to_file", NO),
    edit_of("Kafka to foreachBatch", TO_KAFKA, TO_FUNCTION, "sink.kafka_and_foreach", TOLD),
    edit_of("foreachBatch to Kafka", TO_FUNCTION, TO_KAFKA, "sink.kafka_and_foreach", TOLD),
    edit_of("file to foreachBatch", STATELESS, TO_FUNCTION, "sink.without_memory", TOLD),
    edit_of(
        "console to memory",
        TO_CONSOLE,
        replace(TO_CONSOLE, sink=b.a_sink("memory", target="a")),
        "sink.to_memory",
        NO,
    ),
    edit_of("file to a table format", STATELESS, TO_CUSTOM, "sink.type", UNKNOWN),
    edit_of(
        "another path of files", STATELESS, b.with_sink(STATELESS, target="/x"), "sink.path", NO
    ),
    edit_of(
        "another format of files",
        STATELESS,
        b.with_sink(STATELESS, format="json"),
        "sink.format",
        NO,
    ),
    edit_of(
        "partition columns",
        STATELESS,
        b.with_sink(STATELESS, partitioned_by=("k",)),
        "sink.partitioning",
        NO,
    ),
    edit_of("another topic", TO_KAFKA, b.with_sink(TO_KAFKA, target="u"), "sink.topic", TOLD),
    edit_of(
        "another table", TO_CUSTOM, b.with_sink(TO_CUSTOM, target="/y"), "sink.target", UNKNOWN
    ),
    edit_of(
        "the function's body",
        TO_FUNCTION,
        b.with_sink(TO_FUNCTION, code="other"),
        "sink.function_body",
        TOLD,
    ),
    edit_of(
        "other columns that may be null",
        STATELESS,
        b.with_sink(
            STATELESS, schema=tuple(replace(c, nullable=False) for c in STATELESS.sink.schema)
        ),
        "projection.nullability",
        YES,
    ),
    edit_of(
        "another function",
        TO_FUNCTION,
        b.with_sink(TO_FUNCTION, options={"function": "w2"}),
        "sink.function",
        TOLD,
    ),
    edit_of(
        "another memory table",
        replace(TO_CONSOLE, sink=b.a_sink("memory", target="a")),
        replace(TO_CONSOLE, sink=b.a_sink("memory", target="b")),
        "sink.view",
        YES,
    ),
    edit_of(
        "a producer's setting",
        TO_KAFKA,
        b.with_sink(TO_KAFKA, options={**BROKERS, "kafka.acks": "1"}),
        "sink.connection",
        YES,
    ),
    edit_of(
        "a producer's default",
        TO_KAFKA,
        b.with_sink(TO_KAFKA, options={**BROKERS, "kafka.acks": "all"}),
        "sink.default",
        YES,
    ),
    edit_of(
        "other brokers to write to",
        TO_KAFKA,
        b.with_sink(TO_KAFKA, options={"kafka.bootstrap.servers": "x"}),
        "sink.cluster",
        TOLD,
    ),
    edit_of(
        "compression",
        STATELESS,
        b.with_sink(STATELESS, options={"compression": "zstd"}),
        "sink.writing",
        TOLD,
    ),
    edit_of(
        "retention of the log",
        STATELESS,
        b.with_sink(STATELESS, options={"retention": "7d"}),
        "sink.retention",
        TOLD,
    ),
    edit_of(
        "asynchronous progress",
        TO_KAFKA,
        b.with_sink(TO_KAFKA, options={**BROKERS, "asyncprogresstrackingenabled": "true"}),
        "sink.async_progress",
        TOLD,
    ),
    edit_of(
        "rows shown",
        TO_CONSOLE,
        b.with_sink(TO_CONSOLE, options={"numrows": "5"}),
        "sink.view_option",
        YES,
    ),
    edit_of(
        "an option of a strange sink",
        TO_CUSTOM,
        b.with_sink(TO_CUSTOM, options={"a": "1"}),
        "sink.option",
        UNKNOWN,
    ),
)

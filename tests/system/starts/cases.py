"""
Starts of queries that Spark may refuse: the options, columns, partitions and modes of built-in sources and sinks.

A case names what differs from a start that works: `Start()` as it is starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """
    A query to be started.

    :param name: Unique.
    :param source: Format of the source; without one the rows come from a file of JSON.
    :param source_options: ``{servers}``, ``{in}`` and ``{new}`` stand for the broker, the folder of the
        input and an unused folder.
    :param columns: SQL expressions of what arrives at the sink; ``*`` for all columns of the source.
    :param schema: Given to the reader; ``-`` for none.
    :param group: Rows are counted by ``k`` before the sink.
    :param sink: Format, or ``foreach`` or ``foreachBatch``.
    :param sink_options: As ``source_options``.
    :param query_name: ``-`` for none.
    :param trigger: Keyword and value of ``trigger``.
    """

    name: str
    source: str = "json"
    source_options: Mapping[str, str] = field(default_factory=dict)
    schema: str = "k string, v long, t timestamp"
    columns: tuple[str, ...] = ("*",)
    group: bool = False
    sink: str = "noop"
    sink_options: Mapping[str, str] = field(default_factory=dict)
    partitioned_by: tuple[str, ...] = ()
    mode: str = "append"
    query_name: str = "q"
    trigger: tuple[str, object] = ("availableNow", True)

    @property
    def needs_kafka(self) -> bool:
        """Tell whether the connector is needed."""
        return "kafka" in (self.source, self.sink)


TYPES: Final = {
    "tinyint": "CAST(1 AS TINYINT)",
    "smallint": "CAST(1 AS SMALLINT)",
    "int": "1",
    "bigint": "v",
    "float": "CAST(1 AS FLOAT)",
    "double": "CAST(1 AS DOUBLE)",
    "decimal": "CAST(1 AS DECIMAL(10, 2))",
    "boolean": "true",
    "string": "k",
    "collated": "collate(k, 'UTF8_LCASE')",
    "char": "CAST(k AS CHAR(3))",
    "binary": "CAST(k AS BINARY)",
    "date": "DATE'2026-01-01'",
    "time": "TIME'12:00:00'",
    "timestamp": "t",
    "timestamp_ntz": "CAST(t AS TIMESTAMP_NTZ)",
    "day_time_interval": "INTERVAL '1' DAY",
    "year_month_interval": "INTERVAL '1' YEAR",
    "calendar_interval": "make_interval(1, 1, 1, 1)",
    "void": "NULL",
    "array": "array(v)",
    "array_of_void": "array()",
    "array_of_interval": "array(INTERVAL '1' DAY)",
    "map": "map(k, v)",
    "map_by_number": "map(v, k)",
    "struct": "struct(k, v)",
    "struct_of_calendar_interval": "struct(make_interval(1))",
    "empty_struct": "struct()",
    "variant": "parse_json('1')",
    "array_of_variant": "array(parse_json('1'))",
}
"""A column of every type of Spark SQL that SQL can make."""
FORMATS: Final = ("parquet", "orc", "json", "csv", "text", "xml")
SPECIAL: Final = {"xml": {"rowTag": "row"}}
"""Options that a format needs."""
NAMES: Final = {"space": "a b", "comma": "a,b", "dot": "a.b", "tab": "a\tb", "colon": "a:b"}
_READ_AS: Final = ("array<int>", "map<string, int>", "struct<a: int>", "variant", "interval")
_KAFKA_ROWS: Final = ("k AS key", "CAST(v AS STRING) AS value")
_TO_KAFKA: Final = {"kafka.bootstrap.servers": "{servers}", "topic": "out"}
_FROM_KAFKA: Final = {
    "kafka.bootstrap.servers": "{servers}",
    "subscribe": "in",
    "startingOffsets": "earliest",
}
_HEADERS: Final = "array(struct('h' AS key, CAST(k AS BINARY) AS value)) AS headers"


def starts() -> list[Start]:
    """Return all cases."""
    return [
        *_files(),
        *_partitions(),
        *_modes(),
        *_options_of_files(),
        *_file_sources(),
        *_small_sources(),
        *_kafka_sinks(),
        *_kafka_sources(),
    ]


def _path(**more: str) -> dict[str, str]:
    return {"path": "{new}", **more}


def _files() -> Iterator[Start]:
    for form in FORMATS:
        needed = SPECIAL.get(form, {})
        for kind, expression in TYPES.items():
            yield Start(
                name=f"{form} of {kind}",
                columns=(f"{expression} AS c",),
                sink=form,
                sink_options=_path(**needed),
            )
        for kind, name in NAMES.items():
            yield Start(
                name=f"{form} with {kind} in a name",
                columns=(f"k AS `{name}`",),
                sink=form,
                sink_options=_path(**needed),
            )
        yield Start(
            name=f"{form} of two texts",
            columns=("k", "k AS j"),
            sink=form,
            sink_options=_path(**needed),
        )
        yield Start(
            name=f"{form} with a column twice",
            columns=("k", "k AS K"),
            sink=form,
            sink_options=_path(**needed),
        )
        yield Start(name=f"{form} without path", columns=("k",), sink=form)


def _partitions() -> Iterator[Start]:
    for kind, expression in TYPES.items():
        yield Start(
            name=f"partitioned by {kind}",
            columns=(f"{expression} AS p", "v AS other"),
            sink="json",
            sink_options=_path(),
            partitioned_by=("p",),
        )
    for name, columns, by in (
        ("partitioned by every column", ("k", "v"), ("k", "v")),
        ("partitioned by a missing column", ("k", "v"), ("nosuch",)),
        ("partitioned by a column in capitals", ("k", "v"), ("K",)),
        ("partitioned by one column twice", ("k", "v"), ("k", "k")),
        ("partitioned by a field", ("struct(k) AS s", "v"), ("s.k",)),
    ):
        yield Start(
            name=name, columns=columns, sink="json", sink_options=_path(), partitioned_by=by
        )
    yield Start(
        name="text partitioned by the number",
        columns=("k", "v"),
        sink="text",
        sink_options=_path(),
        partitioned_by=("v",),
    )
    for sink in ("console", "memory", "noop", "foreach", "foreachBatch"):
        yield Start(name=f"{sink} partitioned", sink=sink, partitioned_by=("k",))


def _modes() -> Iterator[Start]:
    for sink in ("json", "console", "memory", "noop", "foreach", "foreachBatch"):
        options = _path() if sink == "json" else {}
        for mode in ("update", "complete"):
            yield Start(
                name=f"{sink} in {mode} mode, counted",
                sink=sink,
                sink_options=options,
                group=True,
                mode=mode,
            )
        yield Start(name=f"{sink} in update mode", sink=sink, sink_options=options, mode="update")
        yield Start(name=f"{sink} without a name", sink=sink, sink_options=options, query_name="-")
    for sink in ("rate", "rate-micro-batch", "socket", "jdbc", "nosuch", "binaryFile"):
        yield Start(name=f"{sink} as a sink", sink=sink, sink_options=_path())
    for sink in ("json", "foreachBatch"):
        options = _path() if sink == "json" else {}
        yield Start(
            name=f"{sink} continuously",
            source="rate",
            source_options={"rowsPerSecond": "1"},
            schema="-",
            sink=sink,
            sink_options=options,
            trigger=("continuous", "1 second"),
        )


def _options_of_files() -> Iterator[Start]:
    for form, options in (
        ("parquet", {"compression": "nosuch"}),
        ("orc", {"compression": "nosuch"}),
        ("json", {"compression": "nosuch"}),
        ("csv", {"compression": "nosuch"}),
        ("text", {"compression": "nosuch"}),
        ("parquet", {"compression": "gzip"}),
        ("json", {"retention": "7 days"}),
        ("json", {"retention": "often"}),
        ("json", {"retention": "7"}),
        ("csv", {"sep": ""}),
        ("csv", {"sep": "||"}),
        ("csv", {"quote": "ab"}),
        ("csv", {"escape": "ab"}),
        ("csv", {"header": "perhaps"}),
        ("csv", {"lineSep": "abc"}),
        ("csv", {"encoding": "nosuch"}),
        ("json", {"encoding": "nosuch"}),
        ("json", {"dateFormat": "invalid-pattern-b"}),
        ("json", {"timestampFormat": "bbb"}),
        ("json", {"ignoreNullFields": "perhaps"}),
        ("text", {"lineSep": ""}),
        ("xml", {"rowTag": "row"}),
        ("json", {"nosuch": "1"}),
        ("json", {"asyncProgressTrackingEnabled": "true"}),
    ):
        [(key, value)] = options.items()
        yield Start(
            name=f"{form} written with {key} {value!r}",
            columns=("k",),
            sink=form,
            sink_options=_path(**options),
        )
    for sink, options in (
        ("console", {"numRows": "many"}),
        ("console", {"numRows": "-1"}),
        ("console", {"truncate": "perhaps"}),
        ("console", {"truncate": "10"}),
        ("console", {"nosuch": "1"}),
        ("console", {"asyncProgressTrackingEnabled": "true"}),
        ("noop", {"asyncProgressTrackingEnabled": "true"}),
        ("memory", {"asyncProgressTrackingEnabled": "true"}),
    ):
        [(key, value)] = options.items()
        yield Start(
            name=f"{sink} written with {key} {value!r}",
            sink=sink,
            sink_options=options,
            trigger=("processingTime", "1 second")
            if key.startswith("async")
            else ("availableNow", True),
        )


def _file_sources() -> Iterator[Start]:
    for options in (
        {"maxFilesPerTrigger": "0"},
        {"maxFilesPerTrigger": "-1"},
        {"maxFilesPerTrigger": "many"},
        {"maxFilesPerTrigger": "5"},
        {"maxBytesPerTrigger": "0"},
        {"maxBytesPerTrigger": "many"},
        {"maxBytesPerTrigger": "10m"},
        {"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "10"},
        {"latestFirst": "perhaps"},
        {"latestFirst": "true"},
        {"maxFileAge": "often"},
        {"maxFileAge": "1d"},
        {"fileNameOnly": "perhaps"},
        {"cleanSource": "sometimes"},
        {"cleanSource": "delete"},
        {"cleanSource": "archive"},
        {"cleanSource": "archive", "sourceArchiveDir": "{new}"},
        {"cleanSource": "archive", "sourceArchiveDir": "{in}"},
        {"maxCachedFiles": "-1"},
        {"maxCachedFiles": "many"},
        {"discardCachedInputRatio": "2"},
        {"discardCachedInputRatio": "half"},
        {"recursiveFileLookup": "perhaps"},
        {"ignoreMissingFiles": "perhaps"},
        {"ignoreCorruptFiles": "perhaps"},
        {"modifiedAfter": "yesterday"},
        {"modifiedAfter": "2020-01-01T00:00:00"},
        {"modifiedBefore": "tomorrow"},
        {"pathGlobFilter": "["},
        {"mode": "SOMETIMES"},
        {"multiLine": "perhaps"},
        {"encoding": "nosuch"},
        {"nosuch": "1"},
    ):
        shown = ", ".join(f"{key} {value!r}" for key, value in options.items())
        yield Start(name=f"json read with {shown}", source_options={"path": "{in}", **options})
    yield Start(name="json without schema", schema="-")
    yield Start(name="json read without path", source_options={"path": ""})
    yield Start(name="json of a missing folder", source_options={"path": "{new}"})
    for form in FORMATS:
        needed = SPECIAL.get(form, {})
        # The input is JSON: of ORC and Parquet only a type that Spark refuses before it reads says anything.
        for kind in ("interval",) if form in ("parquet", "orc") else _READ_AS:
            yield Start(
                name=f"{form} read with {kind}",
                source=form,
                source_options=needed,
                schema=f"c {kind}",
            )
        if form in ("parquet", "orc"):
            continue
        yield Start(
            name=f"{form} read with two columns",
            source=form,
            source_options=needed,
            schema="a string, b int",
        )
    yield Start(name="xml read without a row tag", source="xml", schema="a string")


def _small_sources() -> Iterator[Start]:
    for form, options in (
        ("rate", {}),
        ("rate", {"rowsPerSecond": "0"}),
        ("rate", {"rowsPerSecond": "-1"}),
        ("rate", {"rowsPerSecond": "many"}),
        ("rate", {"rampUpTime": "-1"}),
        ("rate", {"rampUpTime": "often"}),
        ("rate", {"rampUpTime": "1m"}),
        ("rate", {"numPartitions": "0"}),
        ("rate", {"numPartitions": "many"}),
        ("rate", {"nosuch": "1"}),
        ("rate-micro-batch", {}),
        ("rate-micro-batch", {"rowsPerBatch": "0"}),
        ("rate-micro-batch", {"rowsPerBatch": "5"}),
        ("rate-micro-batch", {"rowsPerBatch": "many"}),
        ("rate-micro-batch", {"rowsPerBatch": "5", "numPartitions": "0"}),
        ("rate-micro-batch", {"rowsPerBatch": "5", "advanceMillisPerBatch": "-1"}),
        ("rate-micro-batch", {"rowsPerBatch": "5", "startTimestamp": "-1"}),
        ("socket", {}),
        ("socket", {"host": "127.0.0.1"}),
        ("socket", {"port": "{port}"}),
        ("socket", {"host": "127.0.0.1", "port": "many"}),
        ("socket", {"host": "127.0.0.1", "port": "{port}"}),
        ("socket", {"host": "127.0.0.1", "port": "{port}", "includeTimestamp": "perhaps"}),
        ("socket", {"host": "127.0.0.1", "port": "{port}", "includeTimestamp": "true"}),
        ("jdbc", {"url": "jdbc:none", "dbtable": "t"}),
        ("console", {}),
        ("memory", {}),
        ("noop", {}),
        ("binaryFile", {"path": "{in}"}),
        ("nosuch", {}),
    ):
        shown = ", ".join(f"{key} {value!r}" for key, value in options.items()) or "no option"
        yield Start(
            name=f"{form} read with {shown}",
            source=form,
            source_options=options,
            schema="-",
            trigger=("processingTime", "1 second"),
        )
    for form, options in (
        ("rate", {}),
        ("rate-micro-batch", {"rowsPerBatch": "5"}),
        ("socket", {"host": "127.0.0.1", "port": "{port}"}),
    ):
        yield Start(
            name=f"{form} read with a schema",
            source=form,
            source_options=options,
            schema="a int",
            trigger=("processingTime", "1 second"),
        )


def _kafka_sinks() -> Iterator[Start]:
    for kind, expression in TYPES.items():
        for column in ("key", "value", "topic", "partition", "headers"):
            base = [row for row in _KAFKA_ROWS if not row.endswith(f" {column}")]
            options = {k: v for k, v in _TO_KAFKA.items() if k != column}
            yield Start(
                name=f"kafka with {kind} as {column}",
                columns=(*base, f"{expression} AS {column}"),
                sink="kafka",
                sink_options=options,
            )
    value = "k AS value"
    for name, columns, options in (
        ("value alone", (value,), _TO_KAFKA),
        ("no value", ("k AS key",), _TO_KAFKA),
        ("VALUE in capitals", ("k AS VALUE",), _TO_KAFKA),
        ("another column beside", (value, "v"), _TO_KAFKA),
        ("no topic", (value,), {"kafka.bootstrap.servers": "{servers}"}),
        ("a topic column", (value, "'out' AS topic"), {"kafka.bootstrap.servers": "{servers}"}),
        ("a topic column and the option", (value, "'other' AS topic"), _TO_KAFKA),
        ("a wrong topic column beside the option", (value, "1 AS topic"), _TO_KAFKA),
        ("an empty topic", (value,), {**_TO_KAFKA, "topic": ""}),
        ("blanks as topic", (value,), {**_TO_KAFKA, "topic": "  "}),
        ("an impossible topic", (value,), {**_TO_KAFKA, "topic": "a b"}),
        ("headers", (value, _HEADERS), _TO_KAFKA),
        (
            "headers with other names",
            (value, "array(struct('h' AS a, CAST(k AS BINARY) AS b)) AS headers"),
            _TO_KAFKA,
        ),
        (
            "headers of text",
            (value, "array(struct('h' AS key, k AS value)) AS headers"),
            _TO_KAFKA,
        ),
        ("a partition", (value, "0 AS partition"), _TO_KAFKA),
        ("no servers", (value,), {"topic": "out"}),
    ):
        yield Start(name=f"kafka with {name}", columns=columns, sink="kafka", sink_options=options)
    for options in (
        {"kafka.key.serializer": "org.apache.kafka.common.serialization.StringSerializer"},
        {"kafka.value.serializer": "org.apache.kafka.common.serialization.StringSerializer"},
        {"kafka.acks": "all"},
        {"kafka.acks": "perhaps"},
        {"kafka.compression.type": "nosuch"},
        {"kafka.compression.type": "gzip"},
        {"kafka.batch.size": "many"},
        {"kafka.linger.ms": "-5"},
        {"kafka.enable.idempotence": "false"},
        {"kafka.enable.idempotence": "true", "kafka.acks": "1"},
        {"kafka.nosuch": "1"},
        {"nosuch": "1"},
        {"includeHeaders": "true"},
        {"asyncProgressTrackingEnabled": "true"},
    ):
        shown = ", ".join(f"{key} {value!r}" for key, value in options.items())
        yield Start(
            name=f"kafka written with {shown}",
            columns=_KAFKA_ROWS,
            sink="kafka",
            sink_options={**_TO_KAFKA, **options},
            trigger=("processingTime", "1 second")
            if "asyncProgressTrackingEnabled" in options
            else ("availableNow", True),
        )
    yield Start(
        name="kafka partitioned",
        columns=_KAFKA_ROWS,
        sink="kafka",
        sink_options=_TO_KAFKA,
        partitioned_by=("key",),
    )
    for mode in ("update", "complete"):
        yield Start(
            name=f"kafka in {mode} mode, counted",
            group=True,
            columns=("k AS key", "CAST(count AS STRING) AS value"),
            sink="kafka",
            sink_options=_TO_KAFKA,
            mode=mode,
        )


def _kafka_sources() -> Iterator[Start]:
    def case(name: str, options: Mapping[str, str | None], **more: object) -> Start:
        told = {k: v for k, v in {**_FROM_KAFKA, **options}.items() if v is not None}
        return Start(
            name=f"kafka read with {name}",
            source="kafka",
            source_options=told,
            **{"schema": "-", **more},  # type: ignore[arg-type]
        )

    yield case("nothing else", {})
    yield case("a schema", {}, schema="a int")
    yield case("no topics", {"subscribe": None})
    yield case("empty topics", {"subscribe": " , "})
    yield case("topic and pattern", {"subscribePattern": "in.*"})
    yield case("a pattern", {"subscribe": None, "subscribePattern": "in.*"})
    yield case("an empty pattern", {"subscribe": None, "subscribePattern": " "})
    yield case("a broken pattern", {"subscribe": None, "subscribePattern": "in("})
    yield case("partitions", {"subscribe": None, "assign": '{"in": [0, 1]}'})
    yield case("a topic as assign", {"subscribe": None, "assign": "in"})
    yield case("broken partitions", {"subscribe": None, "assign": '{"in": "x"}'})
    yield case("no servers", {"kafka.bootstrap.servers": None})
    for key, values in {
        "startingOffsets": (
            "latest",
            "LATEST",
            "first",
            '{"in": {"0": 0, "1": -2}}',
            '{"in": {"0": 0}}',
            '{"other": {"0": 0}}',
            "{}",
            "{",
        ),
        "endingOffsets": ("latest",),
        "endingOffsetsByTimestamp": ('{"in": {"0": 1, "1": 1}}',),
        "endingTimestamp": ("1",),
        "startingTimestamp": ("1", "yesterday"),
        "startingOffsetsByTimestamp": ('{"in": {"0": 1, "1": 1}}', '{"in": {"0": 1}}', "{"),
        "startingOffsetsByTimestampStrategy": ("latest", "error", "perhaps"),
        "minPartitions": ("0", "-1", "many", "4"),
        "maxRecordsPerPartition": ("0", "many", "5"),
        "maxOffsetsPerTrigger": ("0", "-1", "many", "5"),
        "minOffsetsPerTrigger": ("many", "5"),
        "maxTriggerDelay": ("often", "15m", "5"),
        "failOnDataLoss": ("perhaps", "false", "FALSE"),
        "includeHeaders": ("perhaps", "true", "TRUE", "1"),
        "groupIdPrefix": ("mine",),
        "kafkaConsumer.pollTimeoutMs": ("many", "1000"),
        "fetchOffset.numRetries": ("many", "0"),
        "fetchOffset.retryIntervalMs": ("many",),
        "kafka.group.id": ("mine",),
        "kafka.auto.offset.reset": ("earliest",),
        "kafka.key.deserializer": (
            "org.apache.kafka.common.serialization.StringDeserializer",
            "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        ),
        "kafka.value.deserializer": ("org.apache.kafka.common.serialization.StringDeserializer",),
        "kafka.enable.auto.commit": ("false", "true"),
        "kafka.interceptor.classes": ("com.example.Interceptor",),
        "kafka.max.poll.records": ("50", "many"),
        "kafka.isolation.level": ("read_committed", "nosuch"),
        "kafka.nosuch": ("1",),
        "nosuch": ("1",),
    }.items():
        for value in values:
            yield case(f"{key} {value!r}", {key: value})
    yield case(
        "minOffsetsPerTrigger above the most",
        {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
    )

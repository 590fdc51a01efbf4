"""
Edits of streams between Kafka topics, with the answer of a careful colleague to each.

The topics `clicks` (two partitions) and `views` are read; `more` came later, and the first records of `expired` are gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from airflow_streaming.gates.findings import GateDecision
from tests.system.edits.edit import Base, Changes, Edit

ARGUMENTS: Final = ("--servers", "{servers}")
JOBS: Final = Path(__file__).with_name("jobs")
ROUTED: Final = Base(name="routed", script=JOBS / "routed.py", arguments=ARGUMENTS)
COUNTED: Final = Base(name="counted", script=JOBS / "counted.py", arguments=ARGUMENTS)
BASES: Final = (ROUTED, COUNTED)
YES: Final = GateDecision.ALLOWED
TOLD: Final = GateDecision.ALLOWED_WITH_CONSEQUENCE
UNKNOWN: Final = GateDecision.UNKNOWN
NO: Final = GateDecision.NOT_ALLOWED
_SUBSCRIBE: Final = '.option("subscribe", "clicks,views")'
_START: Final = '        .option("startingOffsets", "earliest")\n'
_TOPIC: Final = '        .option("topic", "out")\n'
_KEY: Final = 'f.col("key").cast("string").alias("key"),'
_VALUE: Final = 'f.col("value").cast("string").alias("value"),'
_LOAD: Final = "        .load()\n"
_LOSSY: Final = '.option("failOnDataLoss", "false")'


def _source(**options: str) -> Changes:
    told = "".join(f"        .option({key!r}, {value!r})\n" for key, value in options.items())
    return ((_LOAD, told + _LOAD),)


def _option(key: str, value: str) -> Changes:
    return _source(**{key: value})


def _sink(key: str, value: str) -> Changes:
    return ((_TOPIC, f"{_TOPIC}        .option({key!r}, {value!r})\n"),)


def _headers(value: str) -> str:
    header = f'f.struct(f.lit("h").alias("key"), {value}.alias("value"))'
    return f'{_VALUE}\n        f.array({header}).alias("headers"),'


def _reads(way: str, what: str, *, more: str = "") -> Changes:
    return ((_SUBSCRIBE, f".option({way!r}, {what!r}){more}"),)


def _edit(name: str, changes: Changes, says: GateDecision, why: str, base: Base = ROUTED) -> Edit:
    return Edit(
        name=f"{base.name}.{name}",
        base=base,
        theme="kafka",
        changes=changes,
        says=says,
        why=why,
    )


_TOPICS: Final = (
    _edit("unchanged", ((_START, f"{_START}        # nothing\n"),), YES, "A comment."),
    _edit(
        "topics_in_another_order",
        _reads("subscribe", "views, clicks"),
        YES,
        "The same topics.",
    ),
    _edit(
        "topic_added",
        _reads("subscribe", "clicks,views,more"),
        UNKNOWN,
        "The first records of a topic that was added must be there, and only the broker knows.",
    ),
    _edit(
        "topic_added_lossy",
        _reads("subscribe", "clicks,views,more", more=_LOSSY),
        TOLD,
        "It is read from its oldest record on.",
    ),
    _edit(
        "expired_topic_added",
        _reads("subscribe", "clicks,views,expired"),
        UNKNOWN,
        "As above; this one has lost its first records.",
    ),
    _edit(
        "expired_topic_added_lossy",
        _reads("subscribe", "clicks,views,expired", more=_LOSSY),
        TOLD,
        "It is read from its oldest record on.",
    ),
    _edit("topic_removed", _reads("subscribe", "clicks"), NO, "Its partitions are gone."),
    _edit(
        "topic_removed_lossy",
        _reads("subscribe", "clicks", more=_LOSSY),
        NO,
        "The documentation forbids it.",
    ),
    _edit("topic_exchanged", _reads("subscribe", "clicks,more"), NO, "A topic is gone."),
    _edit("pattern_same", _reads("subscribePattern", "clicks|views"), YES, "The same topics."),
    _edit(
        "pattern_wider",
        _reads("subscribePattern", "clicks|views|more"),
        UNKNOWN,
        "As a topic that was added.",
    ),
    _edit(
        "pattern_wider_lossy",
        _reads("subscribePattern", "clicks|views|m.*", more=_LOSSY),
        TOLD,
        "As a topic that was added.",
    ),
    _edit("pattern_narrower", _reads("subscribePattern", "clicks"), NO, "A topic is gone."),
    _edit(
        "assign_same",
        _reads("assign", '{"clicks": [0, 1], "views": [0]}'),
        TOLD,
        "Partitions that come later are not read.",
    ),
    _edit("assign_fewer", _reads("assign", '{"clicks": [0], "views": [0]}'), NO, "One is gone."),
    _edit(
        "assign_more",
        _reads("assign", '{"clicks": [0, 1], "views": [0], "more": [0]}'),
        UNKNOWN,
        "As a topic that was added.",
    ),
    _edit(
        "assign_more_lossy",
        _reads("assign", '{"clicks": [0, 1], "views": [0], "more": [0]}', more=_LOSSY),
        TOLD,
        "It is read from its oldest record on.",
    ),
)
_REFUSED: Final = tuple(
    _edit(name, changes, NO, "The connector refuses the option.")
    for name, changes in {
        "both_ways": _option("subscribePattern", "clicks|views"),
        "no_way": ((f"        {_SUBSCRIBE}\n", ""),),
        "blank_topics": _reads("subscribe", " , "),
        "assign_is_no_json": _reads("assign", "clicks"),
        "auto_offset_reset": _option("kafka.auto.offset.reset", "earliest"),
        "ending_offsets": _option("endingOffsets", "latest"),
        "ending_offsets_by_time": _option("endingOffsetsByTimestamp", '{"clicks": {"0": 1}}'),
        "auto_commit": _option("kafka.enable.auto.commit", "false"),
        "key_deserializer": _option(
            "kafka.key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer"
        ),
        "value_deserializer": _option(
            "kafka.value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer"
        ),
        "interceptor": _option("kafka.interceptor.classes", "com.example.Interceptor"),
        "no_partitions": _option("minPartitions", "0"),
        "limit_is_no_number": _option("maxOffsetsPerTrigger", "many"),
        "most_below_least": _source(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="5"),
        "loss_is_no_boolean": _option("failOnDataLoss", "perhaps"),
        "key_serializer": _sink(
            "kafka.key.serializer", "org.apache.kafka.common.serialization.StringSerializer"
        ),
        "value_serializer": _sink(
            "kafka.value.serializer", "org.apache.kafka.common.serialization.StringSerializer"
        ),
        "unknown_acks": _sink("kafka.acks", "perhaps"),
        "key_is_a_number": ((_KEY, 'f.col("offset").alias("key"),'),),
        "value_is_a_number": ((_VALUE, 'f.col("offset").alias("value"),'),),
        "value_is_a_struct": ((_VALUE, 'f.struct("key", "value").alias("value"),'),),
        "no_value": ((_VALUE, 'f.col("value").cast("string").alias("text"),'),),
        "no_topic": ((_TOPIC, ""),),
        "topic_is_a_number": (
            (_VALUE, f'{_VALUE}\n        f.col("offset").alias("topic"),'),
            (_TOPIC, ""),
        ),
        "partition_is_a_long": (
            (_VALUE, f'{_VALUE}\n        f.lit(0).cast("long").alias("partition"),'),
        ),
        "headers_of_text": (
            (
                _VALUE,
                _headers('f.lit("x")'),
            ),
        ),
        "complete_mode": (
            ("writeStream.queryName", 'writeStream.outputMode("complete").queryName'),
        ),
    }.items()
)
_OPTIONS: Final = (
    _edit("headers_unread", _option("includeHeaders", "true"), YES, "No step reads them."),
    _edit("headers_default", _option("includeHeaders", "false"), YES, "It is the default."),
    _edit("loss_default", _option("failOnDataLoss", "true"), YES, "It is the default."),
    _edit("loss_allowed", _option("failOnDataLoss", "false"), TOLD, "Lost records are skipped."),
    _edit("start_latest", ((_START, _START.replace("earliest", "latest")),), YES, "Only at first."),
    _edit("start_default", ((_START, ""),), YES, "Only at first."),
    _edit("more_tasks", _option("minPartitions", "4"), YES, "More tasks read the same records."),
    _edit("limit", _option("maxOffsetsPerTrigger", "3"), YES, "Smaller batches."),
    _edit(
        "isolation_default",
        _option("kafka.isolation.level", "read_uncommitted"),
        YES,
        "It is the default.",
    ),
    _edit(
        "isolation",
        _option("kafka.isolation.level", "read_committed"),
        TOLD,
        "Records of aborted transactions are skipped.",
    ),
    _edit("group", _option("kafka.group.id", "mine"), YES, "No offset is kept in the group."),
    _edit("group_prefix", _option("groupIdPrefix", "mine"), YES, "A name."),
    _edit("delay_default", _option("maxTriggerDelay", "15m"), YES, "It is the default."),
    _edit("retries", _option("fetchOffset.numRetries", "5"), YES, "Only failures."),
)
_SINKS: Final = (
    _edit("value_as_bytes", ((_VALUE, 'f.col("value"),'),), TOLD, "The same bytes arrive."),
    _edit("other_topic", ((_TOPIC, _TOPIC.replace("out", "other")),), TOLD, "Readers must follow."),
    _edit(
        "topic_column",
        (
            (_VALUE, f'{_VALUE}\n        f.lit("out").alias("topic"),'),
            (_TOPIC, ""),
        ),
        TOLD,
        "Rows name their topic.",
    ),
    _edit(
        "another_column",
        ((_VALUE, f'{_VALUE}\n        f.col("offset"),'),),
        TOLD,
        "The sink ignores it.",
    ),
    _edit(
        "partition",
        ((_VALUE, f'{_VALUE}\n        f.lit(0).alias("partition"),'),),
        TOLD,
        "Records go to one partition.",
    ),
    _edit(
        "headers",
        (
            (
                _VALUE,
                _headers('f.lit("x").cast("binary")'),
            ),
        ),
        TOLD,
        "Records carry headers.",
    ),
    _edit("acks_default", _sink("kafka.acks", "all"), YES, "It is the default."),
    _edit("compression", _sink("kafka.compression.type", "gzip"), YES, "The same records."),
    _edit("unknown_option", _sink("nosuch", "1"), UNKNOWN, "Its effect is unknown."),
    _edit(
        "update_mode",
        (("writeStream.queryName", 'writeStream.outputMode("update").queryName'),),
        YES,
        "Without state both modes write the same.",
    ),
    _edit(
        "filtered",
        (("    query = (\n        rows.", "    query = (\n        rows.where(\"key <> 'a'\")."),),
        TOLD,
        "Rows that follow.",
    ),
)
_C_SUBSCRIBE: Final = '.option("subscribe", "clicks")'
_COUNTED: Final = tuple(
    _edit(name, changes, says, why, COUNTED)
    for name, changes, says, why in (
        ("headers_unread", _option("includeHeaders", "true"), YES, "No step reads them."),
        ("loss_default", _option("failOnDataLoss", "true"), YES, "It is the default."),
        (
            "topic_added_lossy",
            ((_C_SUBSCRIBE, '.option("subscribe", "clicks,more")' + _LOSSY),),
            TOLD,
            "Its records are counted too.",
        ),
        (
            "pattern_same",
            ((_C_SUBSCRIBE, '.option("subscribePattern", "clicks")'),),
            YES,
            "The same topic.",
        ),
        (
            "assign_same",
            ((_C_SUBSCRIBE, '.option("assign", \'{"clicks": [0, 1]}\')'),),
            TOLD,
            "Partitions that come later are not read.",
        ),
        (
            "count_is_a_number",
            (('f.col("n").cast("string").alias("value")', 'f.col("n").alias("value")'),),
            NO,
            "The sink refuses it.",
        ),
        (
            "key_is_a_count",
            (('counts.select("key", f', 'counts.select(f.col("n").alias("key"), f'),),
            NO,
            "The sink refuses it.",
        ),
        (
            "append_mode",
            (('outputMode("update")', 'outputMode("append")'),),
            NO,
            "Append mode needs a watermark.",
        ),
    )
)
EDITS: Final = (*_TOPICS, *_REFUSED, *_OPTIONS, *_SINKS, *_COUNTED)

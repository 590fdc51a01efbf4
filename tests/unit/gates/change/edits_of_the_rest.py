"""Edits of output mode, watermarks, processing trigger and configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from airflow_streaming.model.plan.tree import ColumnRef
from airflow_streaming.model.spark.plan import OPAQUE, NodePlan, WatermarkPlan
from tests.unit.gates.change import builders as b
from tests.unit.gates.change.edit import (
    AGG,
    ENDLESS,
    JOIN,
    NO,
    REAL_TIME_BEFORE,
    STATELESS,
    TO_FUNCTION,
    TOLD,
    TWS,
    UNKNOWN,
    UPDATE,
    YES,
    delay,
    edit_of,
)

LOCALE: Final = "spark.sql.caseSensitive"
REST: Final = (
    edit_of(
        "a sum that goes on with one added",
        AGG,
        b.with_operator(AGG, results=("k", "(sum(v) + 1) AS total")),
        "aggregation.result",
        TOLD,
    ),
    edit_of(
        "an aggregate more that is not read",
        AGG,
        b.with_operator(
            AGG,
            values=("sum(v)", "count(1)", "max(v)"),
            value_types=("bigint", "bigint", "bigint"),
            outputs=("total", "lines", "most"),
        ),
        "aggregation.unused",
        YES,
    ),
    edit_of(
        "case of names before windows",
        AGG,
        replace(AGG, settings={LOCALE: "true"}),
        "conf.meaning",
        TOLD,
    ),
    edit_of(
        "case of names before totals for ever",
        ENDLESS,
        replace(ENDLESS, settings={LOCALE: "true"}),
        "conf.meaning_before_endless_state",
        NO,
    ),
    edit_of(
        "a setting of the user interface",
        AGG,
        replace(AGG, settings={"spark.sql.ui.retainedExecutions": "5"}),
        "conf.no_meaning",
        YES,
    ),
    edit_of(
        "a setting that is in no table",
        AGG,
        replace(AGG, settings={"spark.sql.vendor.strange": "5"}),
        "conf.other",
        UNKNOWN,
    ),
    edit_of(
        "rows of an unknown table before state",
        b.with_steps(AGG, ("table", "LogicalRDD['rdd=opaque: rows']", 1)),
        b.with_steps(AGG, ("table", "LogicalRDD['rdd=opaque: rows']", 1)),
        "plan.opaque",
        UNKNOWN,
    ),
    edit_of(
        "rows of an unknown table behind state",
        b.with_steps(AGG, ("table", "LogicalRDD['rdd=opaque: rows']", 0)),
        b.with_steps(AGG, ("table", "LogicalRDD['rdd=opaque: rows']", 0)),
        "plan.opaque_behind",
        TOLD,
    ),
    edit_of(
        "something that no rule knows",
        AGG,
        replace(AGG, nodes=(NodePlan(node="Sharpen", digest="1"),)),
        "plan.unexplained",
        UNKNOWN,
    ),
    edit_of(
        "a date format before totals for ever",
        ENDLESS,
        b.with_options(ENDLESS, dateformat="yyyy"),
        "source.reading_before_endless_state",
        NO,
    ),
    edit_of(
        "what Spark refuses",
        AGG,
        replace(AGG, refusal="Sampling is not supported on streaming DataFrames/Datasets"),
        "spark.refuses",
        NO,
    ),
    edit_of(
        "a filter on a grouping key behind windows",
        AGG,
        b.with_operator(AGG, pushed=("(k = 'a')",)),
        "step.filter_pushed_before_state",
        TOLD,
    ),
    edit_of(
        "a filter on a grouping key behind totals for ever",
        ENDLESS,
        b.with_operator(ENDLESS, pushed=("(k = 'a')",)),
        "step.filter_pushed_before_endless_state",
        NO,
    ),
    edit_of(
        "a window over another time",
        AGG,
        b.with_operator(AGG, key_expressions=("window(at, 20 seconds)", "k")),
        "aggregation.keys",
        NO,
    ),
    edit_of(
        "the watermark on the other side",
        JOIN,
        replace(
            JOIN, watermarks=(WatermarkPlan(column="ts", delay_ms=60_000, time=ColumnRef("ts", 1)),)
        ),
        "watermark.column",
        NO,
    ),
    edit_of(
        "an outer join that a filter makes an inner one",
        b.with_operator(JOIN, join_type="left_outer", run_as="left_outer"),
        b.with_operator(JOIN, join_type="left_outer", run_as="inner"),
        "join.type",
        NO,
    ),
    edit_of(
        "to complete mode without state",
        TO_FUNCTION,
        replace(TO_FUNCTION, output_mode="complete"),
        "output_mode.stateful",
        NO,
    ),
    edit_of(
        "append to update with state",
        AGG,
        replace(AGG, output_mode="update"),
        "output_mode.stateful",
        NO,
    ),
    edit_of(
        "append to complete with state",
        AGG,
        replace(AGG, output_mode="complete"),
        "output_mode.stateful",
        NO,
    ),
    edit_of(
        "append to update without state",
        TO_FUNCTION,
        replace(TO_FUNCTION, output_mode="update"),
        "output_mode.stateless",
        YES,
    ),
    edit_of("a longer delay", AGG, delay(AGG, 90), "watermark.longer", TOLD),
    *(
        edit_of(
            f"a longer delay, in a node of Spark's plan {where} the state",
            replace(AGG, nodes=(b.a_node(node="EventTimeWatermark", below=below),)),
            replace(
                delay(AGG, 90),
                nodes=(b.a_node(node="EventTimeWatermark", below=below, digest="2"),),
            ),
            "watermark.longer",
            TOLD,
        )
        for below, where in enumerate(("behind", "in front of"))
    ),
    edit_of("a shorter delay", AGG, delay(AGG, 30), "watermark.shorter", TOLD),
    edit_of("a watermark more", replace(UPDATE, watermarks=()), UPDATE, "watermark.added", TOLD),
    edit_of(
        "the watermark less in update mode",
        UPDATE,
        replace(UPDATE, watermarks=()),
        "watermark.removed",
        NO,
    ),
    edit_of(
        "the watermark less in append mode",
        AGG,
        replace(AGG, watermarks=()),
        "watermark.needed",
        NO,
    ),
    edit_of(
        "another column of the watermark",
        AGG,
        replace(AGG, watermarks=(WatermarkPlan(column="t2", delay_ms=60_000),)),
        "watermark.column",
        NO,
    ),
    edit_of(
        "a watermark without state", STATELESS, delay(STATELESS, 60), "watermark.no_effect", YES
    ),
    edit_of(
        "another interval",
        STATELESS,
        replace(STATELESS, processing_trigger="5 seconds"),
        "trigger.interval",
        YES,
    ),
    edit_of(
        "a query that ends",
        STATELESS,
        replace(STATELESS, processing_trigger="available now"),
        "trigger.ends",
        TOLD,
    ),
    edit_of(
        "an interval of two units",
        STATELESS,
        replace(STATELESS, processing_trigger="INTERVAL 1 minute 30 seconds"),
        "trigger.interval",
        YES,
    ),
    edit_of(
        "a trigger that is none",
        STATELESS,
        replace(STATELESS, processing_trigger="now and then"),
        "trigger.unread",
        UNKNOWN,
    ),
    edit_of(
        "real-time mode",
        STATELESS,
        replace(STATELESS, processing_trigger="real time 5 minutes"),
        "trigger.not_real_time",
        NO,
    ),
    edit_of(
        "real-time mode from Kafka to Kafka",
        REAL_TIME_BEFORE,
        replace(REAL_TIME_BEFORE, processing_trigger="real time 5 minutes"),
        "trigger.execution",
        UNKNOWN,
    ),
    edit_of(
        "another interval of real-time mode",
        replace(REAL_TIME_BEFORE, processing_trigger="real time 5 minutes"),
        replace(REAL_TIME_BEFORE, processing_trigger="real time 30 seconds"),
        "trigger.interval",
        YES,
    ),
    edit_of(
        "shuffle partitions with state",
        AGG,
        b.with_conf(AGG, {b.PARTITIONS: "5"}),
        "conf.shuffle_partitions",
        YES,
    ),
    edit_of(
        "shuffle partitions without state",
        STATELESS,
        b.with_conf(STATELESS, {b.PARTITIONS: "5"}),
        "conf.stateless",
        YES,
    ),
    edit_of(
        "another state store",
        AGG,
        b.with_conf(AGG, {b.PROVIDER: b.ROCKSDB}),
        "conf.state_store_provider",
        TOLD,
    ),
    edit_of(
        "a state store that is not Spark's",
        AGG,
        b.with_conf(AGG, {b.PROVIDER: "com.example.Store"}),
        "conf.state_store_other",
        NO,
    ),
    edit_of(
        "another state store of a processor",
        b.with_conf(TWS, {b.PROVIDER: b.ROCKSDB}),
        b.with_conf(TWS, {b.PROVIDER: b.HDFS}),
        "conf.state_store_other",
        NO,
    ),
    edit_of(
        "another watermark policy",
        b.with_conf(
            replace(JOIN, watermarks=AGG.watermarks * 2),
            {"spark.sql.streaming.multipleWatermarkPolicy": "min"},
        ),
        b.with_conf(
            replace(JOIN, watermarks=AGG.watermarks * 2),
            {"spark.sql.streaming.multipleWatermarkPolicy": "max"},
        ),
        "conf.watermark_policy",
        NO,
    ),
    edit_of(
        "a pinned setting",
        b.with_conf(AGG, {"spark.sql.streaming.stateStore.compression.codec": "lz4"}),
        b.with_conf(AGG, {"spark.sql.streaming.stateStore.compression.codec": "zstd"}),
        "conf.pinned",
        TOLD,
    ),
    edit_of(
        "changelogs",
        b.with_conf(
            AGG, {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false"}
        ),
        b.with_conf(
            AGG, {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
        ),
        "conf.changelog",
        YES,
    ),
    edit_of(
        "the format of state",
        b.with_conf(AGG, {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1"}),
        b.with_conf(AGG, {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}),
        "conf.checkpoint_format",
        TOLD,
    ),
    edit_of(
        "Spark's guard off",
        b.with_conf(AGG, {"spark.sql.streaming.stateStore.stateSchemaCheck": "true"}),
        b.with_conf(AGG, {"spark.sql.streaming.stateStore.stateSchemaCheck": "false"}),
        "conf.state_schema_check",
        TOLD,
    ),
    edit_of(
        "ANSI mode",
        b.with_conf(AGG, {"spark.sql.ansi.enabled": "false"}),
        b.with_conf(AGG, {"spark.sql.ansi.enabled": "true"}),
        "conf.meaning",
        TOLD,
    ),
    edit_of(
        "the time zone under state",
        b.with_conf(AGG, {"spark.sql.session.timeZone": "UTC"}),
        b.with_conf(AGG, {"spark.sql.session.timeZone": "Europe/Berlin"}),
        "conf.time_zone",
        NO,
    ),
    edit_of(
        "a strange setting",
        b.with_conf(AGG, {"spark.x": "1"}),
        b.with_conf(AGG, {"spark.x": "2"}),
        "conf.other",
        UNKNOWN,
    ),
    edit_of(
        "a note in a plan",
        AGG,
        replace(AGG, notes=("Source 0 could not be read.",)),
        "plan.note",
        UNKNOWN,
    ),
    edit_of(
        "another data file of a function",
        replace(STATELESS, reads={"file rates.json": "1"}),
        replace(STATELESS, reads={"file rates.json": "2"}),
        "code.reads",
        TOLD,
    ),
    edit_of(
        "another data file of a function before state",
        replace(AGG, reads={"file rates.json": "1"}),
        replace(AGG, reads={"file rates.json": "2"}),
        "code.reads_before_state",
        UNKNOWN,
    ),
    edit_of(
        "another view of a function behind state",
        b.with_sink(AGG, reads={"view rates": "1"}),
        b.with_sink(AGG, reads={}),
        "code.reads",
        TOLD,
    ),
    edit_of(
        "a file by a computed name",
        replace(STATELESS, reads={"files": f"{OPAQUE} read by a computed name"}),
        replace(STATELESS, reads={"files": f"{OPAQUE} read by a computed name"}),
        "code.reads_unread",
        TOLD,
    ),
    edit_of(
        "a file by a computed name before state",
        replace(AGG, reads={"files": f"{OPAQUE} read by a computed name"}),
        replace(AGG, reads={"files": f"{OPAQUE} read by a computed name"}),
        "code.reads_unread_before_state",
        UNKNOWN,
    ),
)

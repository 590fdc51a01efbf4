"""Edits of output mode, watermarks, processing trigger and configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from airflow_streaming.core.plan.plan import WatermarkPlan
from tests.unit.core.compatibility.change import builders as b
from tests.unit.core.compatibility.change.edit import (
    AGG,
    JOIN,
    NO,
    STATELESS,
    TO_FUNCTION,
    TOLD,
    UNKNOWN,
    UPDATE,
    YES,
    delay,
    edit_of,
)

REST: Final = (
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
        "trigger.execution",
        UNKNOWN,
    ),
    edit_of(
        "shuffle partitions with state",
        AGG,
        b.with_conf(AGG, {b.PARTITIONS: "5"}),
        "conf.shuffle_partitions",
        NO,
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
)

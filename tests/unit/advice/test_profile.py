"""A profile says what it sets and why, gives way to the stream, and never to a checkpoint's harm."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.advice.profile import Profile, StateStore, production
from airflow_streaming.advice.profile_conf import ConfSource, ConfValue, effective, resolve, summary
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.records.upgrade import HABITS, SinkFacts
from airflow_streaming.model.spark.conf import check_conf_key, parse_spark_version
from airflow_streaming.model.spark.secret_conf import redact
from tests.unit.supervision.builders import a_spec

PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
CHECKSUM = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
MODE = "spark.scheduler.mode"
EIGHT = production(cores=8)


def by_key(values: tuple[ConfValue, ...]) -> dict[str, ConfValue]:
    return {value.key: value for value in values}


def given(profile: Profile, spark: str = "4.3.0", **conf: Any) -> dict[str, str]:
    return effective(resolve(profile, spark, conf))


def test_production_sets_what_an_operator_needs_to_see_stop_and_restore_a_stream() -> None:
    assert given(EIGHT) == {
        "spark.sql.streaming.metricsEnabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "500",
        PARTITIONS: "8",
        "spark.dynamicAllocation.enabled": "false",
        MODE: "FAIR",
        "spark.sql.streaming.multipleWatermarkPolicy": "min",
        "spark.sql.streaming.minBatchesToRetain": "100",
        "spark.sql.streaming.stopTimeout": "60s",
        PROVIDER: StateStore.ROCKSDB.provider,
        "spark.sql.streaming.stateStore.maintenanceInterval": "60s",
        CHANGELOG: "true",
        FORMAT: "1",
    }


@pytest.mark.parametrize("spark", ["3.5.9", "4.0.1", "4.1.4", "4.3.0"])
@pytest.mark.parametrize("store", StateStore)
def test_every_setting_is_one_a_stream_may_set_and_says_why(spark: str, store: StateStore) -> None:
    values = resolve(production(cores=2, state_store=store), spark, {})

    for value in values:
        assert check_conf_key(value.key)
        assert len(value.why) > 20
        assert value.why.endswith(".")
        assert value.value is None or redact({value.key: value.value}) == {value.key: value.value}
    assert len(by_key(values)) == len(values), "no key twice"


@pytest.mark.parametrize(
    ("spark", "format_version", "checksum"),
    [
        pytest.param("3.5.9", None, None, id="3.5 has neither"),
        pytest.param("4.0.1", "2", None, id="4.0 has the format"),
        pytest.param("4.1.4", "2", "true", id="4.1 has checksums as well"),
        pytest.param("4.3", "2", "true", id="without a patch number"),
    ],
)
def test_a_runtime_gets_only_what_it_has(
    spark: str, format_version: str | None, checksum: str | None
) -> None:
    conf = given(replace(EIGHT, checkpoint_format=2), spark)

    assert (conf.get(FORMAT), conf.get(CHECKSUM)) == (format_version, checksum)


def a_sink(query: str, sink: str, *, is_stateful: bool = True) -> SinkFacts:
    habit = HABITS.get(sink, SinkReplaySemantics.UNKNOWN)
    return SinkFacts(query=query, sink=sink, habit=habit, is_stateful=is_stateful)


KAFKA_SINK = a_sink("counts", "kafka")
FORMATS: dict[str, tuple[int | None, list[SinkFacts], str, str]] = {
    "nothing is recorded": (None, [], "1", "No driver has recorded"),
    "Kafka takes a batch again": (None, [KAFKA_SINK], "2", "takes a batch again"),
    "a file sink skips it": (None, [a_sink("lake", "file")], "1", "lake (file)"),
    "a table of a lake skips it": (None, [a_sink("lake", "delta")], "1", "lake (delta)"),
    "a function may skip it": (None, [a_sink("f", "foreachbatch")], "1", "f (foreachbatch)"),
    "one of two skips it": (None, [KAFKA_SINK, a_sink("lake", "file")], "1", "lake (file)"),
    "a file sink without state": (
        None,
        [KAFKA_SINK, a_sink("raw", "file", is_stateful=False)],
        "2",
        "takes a batch again",
    ),
    "no query has state": (None, [a_sink("raw", "file", is_stateful=False)], "1", "No driver"),
    "the author's choice": (2, [a_sink("lake", "file")], "2", "The author"),
    "the author's other choice": (1, [KAFKA_SINK], "1", "The author"),
}


@pytest.mark.parametrize(
    ("chosen", "sinks", "value", "words"), FORMATS.values(), ids=FORMATS.keys()
)
def test_the_checkpoint_format_follows_the_sinks_and_says_why(
    chosen: int | None, sinks: list[SinkFacts], value: str, words: str
) -> None:
    profile = replace(EIGHT, checkpoint_format=chosen)

    found = by_key(resolve(profile, "4.3.0", {}, sinks=sinks))[FORMAT]

    assert (found.value, found.pinned) == (value, True)
    assert words in found.why
    is_risky = value == "1" or any(not one.habit.executes_again for one in sinks if one.is_stateful)
    assert ("CheckpointInfo length: 0" in found.why) is is_risky


ROCKS = StateStore.ROCKSDB.provider
FILE, KAFKA = (a_sink("lake", "file"),), (KAFKA_SINK,)


@pytest.mark.parametrize(
    ("carried_on", "conf", "sinks", "checksums"),
    [
        pytest.param({PROVIDER: ROCKS, FORMAT: "2"}, {}, FILE, "true", id="format 2 is kept"),
        pytest.param({PROVIDER: ROCKS, FORMAT: "1"}, {}, KAFKA, None, id="format 1 is kept"),
        pytest.param({PROVIDER: ROCKS}, {}, KAFKA, None, id="Spark's default is kept"),
        pytest.param(
            {PROVIDER: ROCKS, FORMAT: "1"}, {FORMAT: "2"}, KAFKA, None, id="the checkpoint counts"
        ),
        pytest.param(None, {FORMAT: "2"}, FILE, "true", id="the stream's own format 2"),
        pytest.param(None, {FORMAT: "1"}, KAFKA, None, id="the stream's own format 1"),
        pytest.param(None, {}, KAFKA, "true", id="the profile chooses format 2"),
    ],
)
def test_checksums_follow_the_format_that_counts(
    carried_on: dict[str, str] | None,
    conf: dict[str, str],
    sinks: tuple[SinkFacts, ...],
    checksums: str | None,
) -> None:
    values = by_key(resolve(EIGHT, "4.3.0", conf, carried_on=carried_on, sinks=sinks))

    assert values[CHECKSUM].value == checksums


def test_what_is_left_out_is_listed_with_the_reason() -> None:
    left_out = by_key(resolve(EIGHT, "3.5.9", {}))[FORMAT]

    assert (left_out.value, left_out.source) == (None, ConfSource.LEFT_OUT)
    assert left_out.why == "Spark has version 2 from 4.0 on."


@pytest.mark.parametrize(
    ("profile", "conf"),
    [
        pytest.param(production(cores=8, state_store=StateStore.HDFS), {}, id="by the profile"),
        pytest.param(EIGHT, {PROVIDER: StateStore.HDFS.provider}, id="by the stream"),
    ],
)
def test_settings_of_rocksdb_go_with_rocksdb(profile: Profile, conf: dict[str, str]) -> None:
    # Measured on 4.1 and 4.3: format 2 with the HDFS-backed store ends the query at its start.
    resolved = effective(resolve(profile, "4.3.0", conf))

    assert resolved[PROVIDER] == StateStore.HDFS.provider
    assert {CHANGELOG, FORMAT, CHECKSUM}.isdisjoint(resolved)


def test_the_streams_own_conf_wins_key_by_key_and_what_it_replaced_stays_visible() -> None:
    values = by_key(resolve(EIGHT, "4.3.0", {PARTITIONS: 24, "spark.executor.memory": "2g"}))

    assert values[PARTITIONS].value == "24"
    assert values[PARTITIONS].source is ConfSource.OVERRIDE
    assert values[PARTITIONS].replaces == "8"
    assert values["spark.executor.memory"].source is ConfSource.STREAM
    assert values[MODE].source is ConfSource.PROFILE


def test_a_stream_that_says_the_same_as_the_profile_replaces_nothing() -> None:
    value = by_key(resolve(EIGHT, "4.3.0", {PARTITIONS: "8"}))[PARTITIONS]

    assert (value.source, value.replaces) == (ConfSource.OVERRIDE, None)


def test_a_stream_may_set_what_the_profile_leaves_out() -> None:
    assert effective(resolve(EIGHT, "3.5.9", {FORMAT: 1}))[FORMAT] == "1"


@pytest.mark.parametrize(
    ("spark", "words"),
    [
        ("3.5.9", "every streaming query"),
        ("4.0.1", "every streaming query"),
        ("4.3.0", "stateless"),
    ],
)
def test_what_batch_jobs_are_tuned_by_is_left_to_spark_and_says_why(spark: str, words: str) -> None:
    values = by_key(resolve(EIGHT, spark, {}))
    serializer, adaptive, coalesce = (
        values[key]
        for key in (
            "spark.serializer",
            "spark.sql.adaptive.enabled",
            "spark.sql.adaptive.coalescePartitions.enabled",
        )
    )

    assert {one.source for one in (serializer, adaptive, coalesce)} == {ConfSource.LEFT_OUT}
    assert words in adaptive.why
    assert ("stateless" in coalesce.why) is (spark == "4.3.0")
    assert "UnsafeRow" in serializer.why


def test_without_a_profile_the_conf_is_the_streams_alone() -> None:
    values = resolve(None, "whatever", {"spark.b": True, "spark.a": 1})

    assert [(v.key, v.value, v.source) for v in values] == [
        ("spark.a", "1", ConfSource.STREAM),
        ("spark.b", "true", ConfSource.STREAM),
    ]


class TestCheckpointThatGoesOn:
    """Pinned settings stay as the checkpoint was begun with them."""

    def test_a_profile_added_to_an_existing_stream_changes_nothing_pinned(self) -> None:
        # Measured: 4.3 ignores the change, 4.1 refuses the checkpoint (EXACT_MATCH_VERSION).
        before = {PARTITIONS: "2"}

        values = resolve(EIGHT, "4.1.4", {}, carried_on=before)

        conf = effective(values)
        assert conf[PARTITIONS] == "2"
        assert {PROVIDER, FORMAT, CHANGELOG, CHECKSUM}.isdisjoint(conf)
        assert by_key(values)[PARTITIONS].source is ConfSource.KEPT
        assert by_key(values)[PARTITIONS].replaces == "8"
        assert conf["spark.sql.streaming.metricsEnabled"] == "true"

    def test_a_checkpoint_begun_with_the_profile_keeps_it_over_an_edit_of_the_cores(self) -> None:
        before = given(EIGHT)

        after = effective(resolve(production(cores=16), "4.3.0", {}, carried_on=before))

        assert after == before

    def test_an_upgrade_of_spark_does_not_change_the_format_under_a_checkpoint(self) -> None:
        before = given(EIGHT, "3.5.9")

        after = effective(resolve(EIGHT, "4.1.4", {}, carried_on=before))

        assert FORMAT not in after
        assert after[CHANGELOG] == "true", "which may be switched on an existing checkpoint"

    def test_the_streams_own_conf_still_wins(self) -> None:
        after = effective(resolve(EIGHT, "4.3.0", {FORMAT: "2"}, carried_on={}))

        assert after[FORMAT] == "2"

    @pytest.mark.parametrize("profile", [EIGHT, production(cores=3, state_store=StateStore.HDFS)])
    def test_proposing_the_same_again_changes_nothing(self, profile: Profile) -> None:
        first = effective(resolve(profile, "4.3.0", {}, carried_on={PARTITIONS: "5"}))

        assert effective(resolve(profile, "4.3.0", {}, carried_on=first)) == first


def test_a_summary_counts_and_names_what_was_not_taken() -> None:
    values = resolve(EIGHT, "4.3.0", {MODE: "FIFO", "spark.a": 1}, carried_on={PARTITIONS: "2"})

    line = summary(EIGHT, values)

    assert line.startswith("Profile 'production' for 8 cores: 6 values from the profile, 1 kept")
    assert "1 overridden by the stream, 1 of the stream alone." in line
    assert f"Not taken, as the checkpoint continues: {PARTITIONS}=8" in line


def test_a_secret_is_in_the_conf_and_in_nothing_that_is_shown() -> None:
    key = "spark.hadoop.fs.s3a.secret.key"
    values = resolve(EIGHT, "4.3.0", {key: "hunter2"})

    assert effective(values)[key] == "hunter2"
    assert by_key(values)[key].shown == "(redacted)"
    assert "hunter2" not in f"{values!r}{summary(EIGHT, values)}"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"cores": 0}, "cores of profile 'production' is 0; give a number from 1 to 100,000."),
        ({"cores": True}, "cores of profile 'production' is True; give a whole number."),
        ({"cores": 2.5}, "cores of profile 'production' is 2.5; give a whole number."),
        ({"partitions_per_core": 17}, "partitions_per_core of profile 'production' is"),
        ({"batches_to_retain": 1}, "batches_to_retain of profile 'production' is"),
        ({"progress_updates": 0}, "progress_updates of profile 'production' is"),
        ({"stop_timeout": timedelta(0)}, "stop_timeout of profile 'production' is 0 s"),
        ({"maintenance_interval": timedelta(days=2)}, "maintenance_interval of profile 'product"),
    ],
    ids=str,
)
def test_a_knob_out_of_its_range_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=r"production") as refusal:
        replace(EIGHT, **changes)

    assert str(refusal.value).startswith(sentence)


def test_knobs_reach_the_settings() -> None:
    conf = given(
        replace(
            EIGHT,
            partitions_per_core=2,
            batches_to_retain=300,
            progress_updates=1_000,
            stop_timeout=timedelta(minutes=2),
            maintenance_interval=timedelta(seconds=30),
            fair_scheduling=False,
        )
    )

    assert conf[PARTITIONS] == "16"
    assert conf["spark.sql.streaming.minBatchesToRetain"] == "300"
    assert conf["spark.sql.streaming.numRecentProgressUpdates"] == "1000"
    assert conf["spark.sql.streaming.stopTimeout"] == "120s"
    assert conf["spark.sql.streaming.stateStore.maintenanceInterval"] == "30s"
    assert MODE not in conf


@pytest.mark.parametrize(
    ("profile", "asked", "pools"),
    [
        pytest.param(None, None, False, id="by default there are none"),
        pytest.param(EIGHT, None, True, id="fair scheduling needs them"),
        pytest.param(EIGHT, False, False, id="the stream wins"),
        pytest.param(None, True, True, id="the stream alone"),
        pytest.param(production(cores=1, fair_scheduling=False), None, False, id="not asked for"),
    ],
)
def test_a_profile_with_fair_scheduling_gives_each_query_a_pool(
    profile: Profile | None, asked: bool | None, pools: bool
) -> None:
    assert a_spec(profile=profile, fair_pools=asked).has_fair_pools is pools


def test_a_profile_that_is_none_is_refused() -> None:
    with pytest.raises(SpecError, match="profile of stream 'orders' is 'production'"):
        a_spec(profile="production")


@pytest.mark.parametrize(
    ("text", "version"),
    [("4.3", (4, 3, 0)), ("3.5.9", (3, 5, 9)), ("4.4.0-SNAPSHOT", (4, 4, 0))],
)
def test_a_spark_version_is_read(text: str, version: tuple[int, int, int]) -> None:
    assert parse_spark_version(text) == version


@pytest.mark.parametrize("text", ["", "4", "spark-4.3", "4.x", "4.3.", "1.2.3.4", "99999.1"])
def test_what_is_no_spark_version_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="is not a Spark version"):
        parse_spark_version(text)

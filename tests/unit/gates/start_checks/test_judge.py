"""The table of start checks and the truth: what a real Spark said of each start, recorded in the corpus."""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_streaming.gates.start_checks.judge import refusals_of, source_refusals
from airflow_streaming.gates.start_checks.table import all_checks
from airflow_streaming.gates.start_checks.types import types_in
from airflow_streaming.model.spark.plan import SourcePlan
from tests.system.starts.cases import starts
from tests.system.starts.recorded import Started, started

OLD, NEW = "3.5.9", "4.3.0"
_OF_HOST = "It depends on files, classes or topics that only the place of the run has."
_FIRST_START = "Only a query without a checkpoint reads where to start."
_DETAIL = "A detail of one format that no plan of a real stream had."
UNSEEN = {
    **dict.fromkeys(
        (
            "json of a missing folder",
            "json without schema",
            "binaryFile read with path '{in}'",
            "nosuch as a sink",
            "nosuch read with no option",
            "memory read with no option",
            "json read with cleanSource 'archive', sourceArchiveDir '{in}'",
        ),
        _OF_HOST,
    ),
    **dict.fromkeys(
        (
            """kafka read with startingOffsets '{"in": {"0": 0}}'""",
            """kafka read with startingOffsets '{"other": {"0": 0}}'""",
            "kafka read with startingOffsets '{}'",
            """kafka read with startingOffsetsByTimestamp '{"in": {"0": 1, "1": 1}}'""",
            """kafka read with startingOffsetsByTimestamp '{"in": {"0": 1}}'""",
            "kafka read with startingTimestamp '1'",
        ),
        _FIRST_START,
    ),
    **dict.fromkeys(
        (
            "csv written with encoding 'nosuch'",
            "json written with encoding 'nosuch'",
            "json read with encoding 'nosuch'",
            "json written with dateFormat 'invalid-pattern-b'",
            "json written with timestampFormat 'bbb'",
            "json read with pathGlobFilter '['",
            "kafka written with kafka.enable.idempotence 'true', kafka.acks '1'",
            "text read with two columns",
            "xml of map_by_number",
            *(f"xml with {name} in a name" for name in ("colon", "comma", "space", "tab")),
        ),
        _DETAIL,
    ),
}
"""Starts that Spark refuses and no row knows, and why."""
STRICTER = {
    f"{form} with a column twice": "Spark writes what no reader can read by name."
    for form in ("parquet", "orc", "json", "csv", "xml")
}


UNMET = ["avro_sink_types"]
"""Rows without a start: spark-avro is not part of pyspark."""


NOT_IN_3_5 = ("array_of_variant", "collated", "empty_struct", "time", "variant")
"""Types that Spark 3.5 does not have: those starts fail before a source or sink is reached."""


def tried() -> list[Started]:
    return [one for one in started() if one.is_possible]


def checks_of(one: Started) -> list[str]:
    if one.plan is not None:
        return [refusal.check.name for refusal in refusals_of(one.plan)]
    assert one.refused is not None, one.name
    return [refusal.check.name for refusal in source_refusals(one.refused.source, one.spark)]


def is_refused(one: Started) -> bool:
    """Tell whether a row knows it, or Spark's own check in plan mode."""
    return bool(checks_of(one) or (one.plan is not None and one.plan.refusal))


def test_the_table_refuses_nothing_that_spark_started() -> None:
    wrong = {
        (one.spark, one.name): checks_of(one) for one in tried() if not one.when and checks_of(one)
    }

    assert {name for _, name in wrong} == {*STRICTER}, wrong


def test_the_table_refuses_what_spark_refused() -> None:
    lenient = {
        (one.spark, one.name): one.says for one in tried() if one.when and not is_refused(one)
    }

    assert {name for _, name in lenient} == UNSEEN.keys(), lenient


def test_every_start_without_kafka_was_tried_on_spark_3_5_and_every_start_on_4_3() -> None:
    known = {spark: {one.name for one in started() if one.spark == spark} for spark in (OLD, NEW)}

    # The connector of 3.5 is another build; no start of Kafka was tried with it.
    assert known[OLD] >= {case.name for case in starts() if not case.needs_kafka}
    assert known[NEW] >= {case.name for case in starts()}
    impossible = {one.name for one in started() if not one.is_possible}
    assert all(name.endswith(NOT_IN_3_5) for name in impossible), impossible
    assert {one.spark for one in started() if not one.is_possible} == {OLD}


def test_every_row_was_met_on_a_real_spark() -> None:
    met = Counter(name for one in tried() if one.when for name in checks_of(one))

    assert [check.name for check in all_checks() if check.name not in met] == UNMET


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: check.name)
def test_a_row_says_what_spark_requires_and_where_that_is_known_from(check: object) -> None:
    assert str(check.says).endswith(".")  # type: ignore[attr-defined]
    assert check.source  # type: ignore[attr-defined]
    assert all(key == key.lower() for key in check.keys)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("bigint", {"bigint"}),
        ("decimal(10,2)", {"decimal"}),
        ("array<map<string,int>>", {"array", "map", "string", "int"}),
        ("map<decimal(10,2),array<date>>", {"map", "decimal", "array", "date"}),
        ("struct<a:int,b:struct<c:binary,d:void>>", {"struct", "int", "binary", "void"}),
        ("struct<>", {"struct", "struct<>"}),
    ],
)
def test_a_type_is_made_of_the_types_inside_it(text: str, types: set[str]) -> None:
    assert types_in(text) == types


@pytest.mark.parametrize(
    ("least", "most", "refused"),
    [
        ("5", "4", True),
        ("4", "4", False),
        ("4", "5", False),
        ("many", "4", False),
        ("5", "", False),
    ],
)
def test_two_limits_are_refused_where_both_are_numbers_in_the_wrong_order(
    least: str, most: str, refused: bool
) -> None:
    options = {"minoffsetspertrigger": least, "maxoffsetspertrigger": most}
    named = {"kafka.bootstrap.servers": "a:9092", "subscribe": "t"}
    source = SourcePlan(source="kafka", options={**named, **options})

    found = [one.found for one in source_refusals(source, NEW) if one.check.kind == "rising"]

    assert found == [f"minoffsetspertrigger = {least}, maxoffsetspertrigger = {most}"] * refused

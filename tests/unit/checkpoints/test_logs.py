"""Offset logs and commit logs of every format that Spark ever wrote."""

from __future__ import annotations

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.logs import (
    MAX_PLANNED_SOURCES,
    OffsetLog,
    parse_commit_log,
    parse_offset_log,
)

ABOUT = '{"batchWatermarkMs":7,"batchTimestampMs":9,"conf":{"spark.sql.shuffle.partitions":"3"}}'


def parse(text: str) -> OffsetLog:
    return parse_offset_log(text.encode())


def test_a_plan_tells_its_time_its_watermark_and_its_pinned_settings() -> None:
    assert parse(f'v1\n{ABOUT}\n{{"logOffset":5}}') == OffsetLog(
        log_version=1,
        batch_ms=9,
        watermark_ms=7,
        conf={"spark.sql.shuffle.partitions": "3"},
        offsets=(("0", '{"logOffset":5}'),),
    )


def test_a_plan_of_spark_2_1_pins_nothing() -> None:
    plan = parse('v1\n{"batchWatermarkMs":0,"batchTimestampMs":1480981499528}\n0')

    assert (plan.batch_ms, plan.watermark_ms, plan.conf) == (1480981499528, 0, {})


def test_a_plan_may_lack_its_metadata_but_not_its_sources_then() -> None:
    assert parse("v1\n\n5") == OffsetLog(log_version=1, offsets=(("0", "5"),))
    for torn in ("v1", "v1\n", "v1\n\n", "v1\n\n\n", "v2\n\na:5"):
        with pytest.raises(RecordError, match="Not valid JSON"):
            parse(torn)


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        pytest.param(f"v1\n{ABOUT}", (), id="no source"),
        pytest.param(f"v1\n{ABOUT}\n5\n", (("0", "5"),), id="a line break at the end"),
        pytest.param(f"v1\n{ABOUT}\n-\n5", (("0", "-"), ("1", "5")), id="one not yet begun"),
        pytest.param(f"v1\n{ABOUT}\n\n5", (("0", ""), ("1", "5")), id="an offset without text"),
        pytest.param(f"v1\n{ABOUT}\nany words: é", (("0", "any words: é"),), id="text"),
        pytest.param(f"v1\n{ABOUT}\n7\u2028\r8", (("0", "7\u2028\r8"),), id="other breaks"),
        pytest.param(f"v2\n{ABOUT}\n0:7", (("0", "7"),), id="v2 by number"),
        pytest.param(
            f'v2\n{ABOUT}\nnew:{{"logOffset":1}}\nold-1.x:-',
            (("new", '{"logOffset":1}'), ("old-1.x", "-")),
            id="v2 by name",
        ),
        pytest.param(f"v2\n{ABOUT}\na:b:c", (("a", "b:c"),), id="v2 with a colon in an offset"),
    ],
)
def test_offsets_are_told_in_plan_order_as_spark_wrote_them(
    text: str, offsets: tuple[tuple[str, str], ...]
) -> None:
    assert parse(text).offsets == offsets


def test_what_a_later_release_adds_is_passed_over() -> None:
    more = '"sourceMetadataInfo":{"a":{"sourceId":"a"}},"controlBatchInfo":null,"soon":[1]'
    text = f'v2\n{{"batchTimestampMs":9,{more}}}\na:1'

    assert parse(text) == OffsetLog(log_version=2, batch_ms=9, offsets=(("a", "1"),))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(f"v3\n{ABOUT}\n1", "of version v3; this release reads v1 and v2", id="v3"),
        pytest.param(f"v01\n{ABOUT}\n1", "of version v01", id="a version nobody writes"),
        pytest.param(f"v2\n{ABOUT}\n5", "names no source", id="v2 without a name"),
        pytest.param(f"v2\n{ABOUT}\na/b:5", "names no source", id="v2 with a path for a name"),
        pytest.param(f"v2\n{ABOUT}\na:5\na:6", "two lines for the source a", id="v2, one twice"),
        pytest.param('v1\n{"batchTimestampMs":"9"}\n1', "is a str, not a whole", id="time as text"),
        pytest.param('v1\n{"batchWatermarkMs":true}\n1', "is a bool, not a whole", id="true"),
        pytest.param('v1\n{"batchWatermarkMs":1.0}\n1', "is a float, not a whole", id="fraction"),
        pytest.param(f'v1\n{{"batchWatermarkMs":{2**63}}}\n1', "64 bits", id="too large"),
        pytest.param('v1\n{"conf":[]}\n1', "conf is a list", id="settings in a list"),
        pytest.param('v1\n{"conf":{"a":1}}\n1', "conf a is a int, not a text", id="a number"),
        pytest.param('v1\n{"conf":{"a":"\\ud800"}}\n1', "not Unicode", id="half a character"),
        pytest.param(f"v1\n{ABOUT}" + "\n1" * (MAX_PLANNED_SOURCES + 1), "more than", id="many"),
    ],
)
def test_a_plan_that_is_none_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        parse(text)


@pytest.mark.parametrize(
    ("text", "version", "watermark"),
    [
        pytest.param("v1\n{}", 1, None, id="Spark 2.1"),
        pytest.param('v1\n{"nextBatchWatermarkMs":0}', 1, 0, id="no watermark yet"),
        pytest.param('v1\n{"nextBatchWatermarkMs":7}\n', 1, 7, id="a watermark"),
        pytest.param('v2\n{"nextBatchWatermarkMs":7}', 2, 7, id="v2 without state"),
        pytest.param('v2\n{"stateUniqueIds":null}', 2, None, id="v2 with none"),
        pytest.param(
            'v3\n{"nextBatchWatermarkMs":7,"sinkMetadataMap":{"s":{"sinkName":"s","commitOffset":'
            '"-","providerName":"x.Y","apiVersion":"V2","isActive":true}},"later":1}',
            3,
            7,
            id="v3 with sinks",
        ),
    ],
)
def test_a_commit_tells_the_watermark_after_it(
    text: str, version: int, watermark: int | None
) -> None:
    commit = parse_commit_log(text.encode())

    assert (commit.log_version, commit.watermark_ms, commit.state_ids) == (version, watermark, {})


def test_a_commit_names_the_state_that_its_batch_left_behind() -> None:
    text = 'v2\n{"stateUniqueIds":{"0":[["a-1"],["b_2"]],"12":[["c","d"],[]]}}'

    assert parse_commit_log(text.encode()).state_ids == {
        0: (("a-1",), ("b_2",)),
        12: (("c", "d"), ()),
    }


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        pytest.param("[]", "stateUniqueIds is a list", id="a list"),
        pytest.param('{"0":{}}', "stateUniqueIds 0 is a dict", id="partitions in an object"),
        pytest.param('{"0":["a"]}', "is a str, not a list", id="an id for a partition"),
        pytest.param('{"00":[]}', "an operator '00'", id="an operator nobody has"),
        pytest.param('{"-1":[]}', "an operator '-1'", id="below zero"),
        pytest.param('{"0":[[null]]}', "None for an id", id="no id"),
        pytest.param('{"0":[["../../x"]]}', "for an id", id="a path for an id"),
        pytest.param('{"0":[[""]]}', "for an id", id="an empty id"),
    ],
)
def test_ids_that_name_no_state_file_are_refused(ids: str, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        parse_commit_log(f'v2\n{{"stateUniqueIds":{ids}}}'.encode())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", "does not begin with a version", id="empty"),
        pytest.param(b"v4\n{}", "reads v1, v2 and v3", id="a later version"),
        pytest.param(b"v1", "Not valid JSON", id="cut off after the version"),
        pytest.param(b"v1\n[]", "Expected a JSON object in the commit log", id="a list"),
        pytest.param(b"v1\n{}{}", "Not valid JSON", id="two"),
        pytest.param(b"v1\n\xff", "is not text", id="not text"),
    ],
)
def test_a_commit_that_is_none_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        parse_commit_log(data)

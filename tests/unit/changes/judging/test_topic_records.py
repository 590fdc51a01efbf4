"""Two topics are the same when each record of one is in the other, in any order and number."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_streaming.changes.judging.topic_records import (
    TopicFindings,
    TopicRecord,
    TopicSide,
    check_keys,
    judge_topics,
    key_of,
    time_of,
)
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import CompareReport, CompareResult

SAME, DIFFERS, INCONCLUSIVE = CompareResult.SAME, CompareResult.DIFFERS, CompareResult.INCONCLUSIVE
AT = datetime(2026, 3, 1, tzinfo=UTC)


def record(key: str | None, value: Any, **headers: str) -> TopicRecord:
    return TopicRecord(
        key=None if key is None else key.encode(),
        value=None if value is None else json.dumps(value).encode(),
        headers=tuple((name, text.encode()) for name, text in headers.items()),
    )


A, B, C = record("a", {"n": 1}), record("b", {"n": 2}), record("a", {"n": 3})


def terms(**changes: Any) -> CompareTerms:
    return CompareTerms(**{"stream": "orders", "format": "kafka", **changes})


def judged(
    blue: list[TopicRecord],
    green: list[TopicRecord],
    asked: CompareTerms,
    complete_from: datetime | None = None,
) -> CompareReport:
    sides = TopicSide(topic="orders"), TopicSide(topic="orders-2")
    for side, records in zip(sides, (blue, green), strict=True):
        for one in records:
            side.take(one, asked, required=True, complete_from=complete_from)
    found = TopicFindings(
        blue=sides[0], green=sides[1], looks=0, offsets=(), complete_from=complete_from
    )
    return judge_topics(found, asked, AT)


@pytest.mark.parametrize(
    ("blue", "green", "asked", "result", "says"),
    [
        ([A, B, C], [C, A, B], terms(), SAME, "3 records of 2 keys are the same"),
        ([A, B], [A, B, B, A], terms(), SAME, "repeats: 0 in blue's, 2 in green's"),
        ([A, B], [A], terms(), DIFFERS, "1 records are only in blue's topic and 0 only in green's"),
        ([A], [A, C], terms(), DIFFERS, "0 records are only in blue's topic and 1 only in green's"),
        ([A, B], [], terms(), DIFFERS, "2 records are only in blue's topic"),
        ([], [], terms(), INCONCLUSIVE, "nothing to compare"),
        ([A], [A], terms(least_rows=2), INCONCLUSIVE, "Too few records"),
        ([A], [A], terms(least_rows=0), SAME, "1 records of 1 keys"),
        ([A], [record("a", {"n": 1}, trace="1")], terms(), SAME, "are the same"),
        ([A], [record("a", {"n": 1}, trace="1")], terms(headers=True), DIFFERS, "1 records"),
        (
            [record("a", {"n": 1, "at": 5})],
            [record("a", {"at": 9, "n": 1})],
            terms(ignore=("value.at",)),
            SAME,
            "are the same",
        ),
        (
            [record("a", {"n": 1, "at": 5})],
            [record("a", {"at": 9, "n": 2})],
            terms(ignore=("value.at",)),
            DIFFERS,
            "1 records",
        ),
        ([record(None, {"n": 1})], [record("", {"n": 1})], terms(), DIFFERS, "1 records"),
        ([record("a", None)], [record("a", "")], terms(), DIFFERS, "1 records"),
    ],
)
def test_records_are_compared_as_sets(
    blue: list[TopicRecord],
    green: list[TopicRecord],
    asked: CompareTerms,
    result: CompareResult,
    says: str,
) -> None:
    report = judged(blue, green, asked)

    assert report.result is result
    assert says in report.reason


def test_a_difference_names_the_declared_key() -> None:
    report = judged([A, B, C], [A], terms(keys=("key", "value.n")))

    named = [(one.key["key"], one.blue, one.green) for one in report.differences]
    assert named == [("key=a, value.n=3", "1", "0"), ("key=b, value.n=2", "1", "0")]


@pytest.mark.parametrize(
    ("keys", "called"),
    [
        ((), "a"),
        (("key",), "key=a"),
        (("value.order.id",), "value.order.id=7"),
        (("value.order.none",), "value.order.none=null"),
        (("headers.trace",), "headers.trace=t1"),
    ],
)
def test_a_record_is_called_by_its_key_or_by_what_an_expression_finds(
    keys: tuple[str, ...], called: str
) -> None:
    assert key_of(record("a", {"order": {"id": 7}}, trace="t1"), keys) == called


def test_a_value_that_is_no_json_has_no_fields() -> None:
    assert key_of(TopicRecord(key=b"a", value=b"\xff"), ("value.id",)) == "value.id=null"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"keys": ("order_id",)}, "keys has 'order_id'"),
        ({"ignore": ("key",)}, "ignore has 'key'"),
        ({"time": "at"}, "time has 'at'"),
    ],
)
def test_a_part_that_a_record_does_not_have_is_refused(changes: dict[str, Any], says: str) -> None:
    assert says in check_keys(terms(**changes))
    assert check_keys(terms(keys=("value.a", "headers.b"), ignore=("value.c",))) == ""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": "kafka", "sums": ("n",)}, "no sums"),
        (
            {"format": "kafka", "options": {"kafka.sasl.password": "secret-1"}},
            r"the home records these terms.*{env.NAME}",
        ),
        ({"topic": "orders"}, "belong to format='kafka'"),
        ({"format": "kafka", "topic": "orders"}, "one topic for both lanes"),
        ({"format": "kafka", "topic": "orders-{deployment}"}, "one topic for both lanes"),
        ({"format": "kafka", "topic": "orders"}, r"'orders-\{stream\}-\{deployment\}'"),
        ({"headers": True}, "belong to format='kafka'"),
    ],
)
def test_terms_that_do_not_fit_a_topic_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        CompareTerms(stream="orders", **changes)


def window(start: str, n: int) -> TopicRecord:
    return record("k", {"window": {"start": start, "end": "-"}, "n": n})


BEFORE, OTHER, AFTER = (
    "2026-02-28T23:50:00.000Z",
    "2026-03-01T00:55:00.000+01:00",
    "2026-03-01T00:00:00.000Z",
)


def test_windows_that_began_before_a_replay_are_left_out_and_counted() -> None:
    blue = [window(BEFORE, 9), window(BEFORE, 8), window(OTHER, 7), window(AFTER, 6)]
    green = [window(BEFORE, 1), window(OTHER, 2), window(AFTER, 6)]

    report = judged(blue, green, terms(), AT)

    assert report.result is SAME
    assert (
        "Not comparable: 2 windows that began before green's replay at 2026-03-01T00:00:00+00:00 (5 records)."
        in report.reason
    )
    assert [(one.before, one.compared) for one in (report.blue, report.green)] == [(3, 1), (2, 1)]
    assert judged(blue, green, terms()).result is DIFFERS


def test_a_window_after_the_replay_that_differs_still_differs() -> None:
    report = judged([window(BEFORE, 9), window(AFTER, 6)], [window(AFTER, 5)], terms(), AT)

    assert report.result is DIFFERS
    assert "Not comparable: 1 windows" in report.reason


def test_a_replay_that_leaves_no_window_out_names_none() -> None:
    report = judged([window(AFTER, 6)], [window(AFTER, 6)], terms(), AT)

    assert report.result is SAME
    assert "Not comparable" not in report.reason


def test_a_difference_is_no_proof_where_records_have_no_time() -> None:
    found = judged([A, window(AFTER, 1)], [B, window(AFTER, 1)], terms(), AT)

    assert found.result is INCONCLUSIVE
    assert "2 records have no time at value.window.start" in found.reason
    assert "time='value.FIELD'" in found.reason
    assert judged([A], [A], terms(), AT).result is SAME


def test_only_windows_before_the_replay_are_nothing_to_compare() -> None:
    found = judged([window(BEFORE, 9)], [window(BEFORE, 1)], terms(), AT)

    assert found.result is INCONCLUSIVE
    assert "Neither topic has a comparable record" in found.reason
    assert "Not comparable: 1 windows" in found.reason


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("value.iso", AT),
        ("value.offset", AT),
        ("value.seconds", AT),
        ("value.milliseconds", AT),
        ("headers.at", AT),
        ("key", AT),
        ("value.naive", None),
        ("value.word", None),
        ("value.none", None),
        ("value.huge", None),
    ],
)
def test_the_time_of_a_record(path: str, found: datetime | None) -> None:
    value = {
        "iso": "2026-03-01T00:00:00.000Z",
        "offset": "2026-03-01T02:00:00+02:00",
        "seconds": 1772323200,
        "milliseconds": 1772323200000,
        "naive": "2026-03-01 00:00:00",
        "word": "noon",
        "huge": 9999999999999999,
    }

    assert time_of(record("1772323200", value, at="2026-03-01T00:00:00Z"), path) == found

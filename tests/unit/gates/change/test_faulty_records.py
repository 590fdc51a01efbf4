"""Columns that come and go where the input has records that are not of their format."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from airflow_streaming.model.spark.plan import QueryPlan
from tests.unit.gates.change import builders as b

FAULTY = "source.faulty_records"
OLD = "k string, v bigint, ts timestamp"
MORE = f"{OLD}, note string"
CORRUPT = ", _corrupt_record string"
KEPT = ("filter", "is_null(_corrupt_record)", 1)


class Script(NamedTuple):
    """What a script reads, and what it does with it in front of its state."""

    of: QueryPlan = b.a_deduplication()
    format: str = "json"
    options: dict[str, str] = {}  # noqa: RUF012 - a default of a tuple, never changed
    more: str = ""
    steps: tuple[tuple[str, str, int], ...] = ()


def plan(script: Script, schema: str) -> QueryPlan:
    made = b.with_source(
        b.with_steps(script.of, *script.steps),
        format=script.format,
        schema=b.columns(schema + script.more),
    )
    return b.with_options(made, **script.options)


PLAIN = Script()
GUARDED = Script(more=CORRUPT, steps=(KEPT,))
SUMMED = Script(of=b.an_aggregation())
UNKNOWN = {
    "whole rows are kept": PLAIN,
    "of XML": PLAIN._replace(format="xml"),
    "faulty records are kept as a column": PLAIN._replace(more=CORRUPT),
    "only some faulty records are left out": GUARDED._replace(
        steps=(("filter", "(is_null(_corrupt_record) OR (v > 1))", 1),)
    ),
    "faulty records are left out behind the state": GUARDED._replace(
        steps=(("filter", "is_null(_corrupt_record)", 0),)
    ),
    "another column is asked for": GUARDED._replace(
        steps=(KEPT, ("project", "k, v, ts, k AS _corrupt_record", 1))
    ),
    "the column of another name is asked for": GUARDED._replace(
        options={"columnnameofcorruptrecord": "_bad"}
    ),
    "a sum of it": SUMMED._replace(steps=(("project", "length(note) AS v", 1),)),
    "a filter on it": SUMMED._replace(steps=(("filter", "is_not_null(note)", 1),)),
    "a function sees the rows": SUMMED._replace(steps=(("map", "clean()", 1),)),
    "CSV that leaves out rows of another length": PLAIN._replace(
        format="csv", options={"mode": "DropMalformed"}
    ),
    "CSV that keeps them": PLAIN._replace(format="csv", more=CORRUPT, steps=(KEPT,)),
}
KNOWN = {
    "faulty records are left out": GUARDED,
    "under another name": GUARDED._replace(
        options={"columnnameofcorruptrecord": "_bad"},
        more=", _bad string",
        steps=(("filter", "is_null(_bad)", 1),),
    ),
    "with one more condition": GUARDED._replace(
        steps=(("filter", "((v > 1) AND is_null(_corrupt_record))", 1),)
    ),
    "Spark leaves them out": PLAIN._replace(options={"mode": "DROPMALFORMED"}),
    "Spark ends the query": PLAIN._replace(options={"mode": "failfast"}),
    "nothing reads the column": SUMMED,
    "a projection passes it on": SUMMED._replace(steps=(("project", "k, v, ts, note", 1),)),
    "of a format that has no faulty records": PLAIN._replace(format="parquet"),
    "CSV whose rows may be of any length": PLAIN._replace(format="csv"),
    "without state": PLAIN._replace(of=b.a_stateless()),
}


@pytest.mark.parametrize("script", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_faulty_records_may_come_back_to_life_or_die(script: Script) -> None:
    old, new = plan(script, OLD), plan(script, MORE)

    assert FAULTY in b.rules_of(old, new)
    assert FAULTY in b.rules_of(new, old)


@pytest.mark.parametrize("script", KNOWN.values(), ids=KNOWN.keys())
def test_faulty_records_stay_what_they_are(script: Script) -> None:
    old, new = plan(script, OLD), plan(script, MORE)

    assert {"source.column_added"} <= b.rules_of(old, new) - {FAULTY} == b.rules_of(old, new)
    assert FAULTY not in b.rules_of(new, old)


def test_a_csv_column_under_another_name_leaves_as_many() -> None:
    script = PLAIN._replace(format="csv", options={"mode": "FAILFAST"})

    assert FAULTY not in b.rules_of(
        plan(script, OLD), plan(script, "k string, w bigint, ts timestamp")
    )


def test_a_version_that_begins_to_keep_faulty_records_is_told() -> None:
    strict = PLAIN._replace(options={"mode": "DROPMALFORMED"})

    assert FAULTY in b.rules_of(plan(strict, OLD), plan(PLAIN, MORE))


def test_both_versions_have_to_leave_them_out() -> None:
    guarded = plan(GUARDED, MORE)

    assert FAULTY in b.rules_of(plan(GUARDED._replace(steps=()), OLD), guarded)

"""A real comparison: greens that are wrong in one way each, beside one blue, read by one Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import Bound, CompareReport, CompareResult
from airflow_streaming.spark_jobs.compare import PREFIX, Outputs, compare_all
from tests.integration.cutover.outputs import (
    BEGIN,
    SETTLED,
    TERMS,
    Change,
    hour,
    in_hour,
    sales,
    write,
    write_as_sink,
)

UNTYPED: Final = replace(TERMS, options={})
FULL: Final = replace(TERMS, full=True)


class Case(NamedTuple):
    """
    A green.

    :param change: What its rows are, given those of blue; ``None`` for a green that wrote nothing.
    :param says: Parts of the reason.
    """

    change: Change | None
    result: CompareResult
    says: tuple[str, ...]
    terms: CompareTerms = TERMS
    bound: Bound = SETTLED


def _replaced(number: int, **values: object) -> Change:
    return lambda rows: [{**row, **values} if in_hour(number)(row) else row for row in rows]


SAME, DIFFERS, INCONCLUSIVE = CompareResult
CASES: Final[Mapping[str, Case]] = {
    "the same in another order": Case(
        lambda rows: reversed(rows), SAME, ("30 rows in 15 buckets", "6 later rows of blue"), FULL
    ),
    "wrong only where it is not settled": Case(_replaced(5, amount=0.0), SAME, ("6 later",)),
    "wrong sums": Case(
        _replaced(2, amount=3.0), DIFFERS, ("1 of 15", "06:00", "store=s2", "6.50 in blue, 6.00")
    ),
    "wrong sums within the tolerance": Case(
        _replaced(2, amount=3.0), SAME, ("are the same",), replace(TERMS, tolerance=0.1)
    ),
    "wrong rows with right sums": Case(
        _replaced(1, note="x"), DIFFERS, ("2 rows are only in blue and 2 only in green",), FULL
    ),
    "a row that comes twice in place of another": Case(
        lambda rows: [rows[0] if row is rows[1] else row for row in rows],
        DIFFERS,
        ("1 rows are only in blue and 1 only in green",),
        replace(FULL, sums=()),
    ),
    "a missing hour of one store": Case(
        lambda rows: [row for row in rows if not in_hour(3, None)(row)],
        DIFFERS,
        ("07:00", "store=null", "rows 2 in blue, 0 in green"),
    ),
    "doubled rows": Case(
        lambda rows: [*rows, *rows], DIFFERS, ("15 of 15 buckets", "rows 2 in blue, 4 in green")
    ),
    "no rows though it should have some": Case(
        None,
        DIFFERS,
        ("Green has written no row, and blue has 30",),
        bound=replace(SETTLED, from_beginning=True),
    ),
    "a type that has changed": Case(
        lambda rows: [{**row, "amount": str(row["amount"])} for row in rows],
        DIFFERS,
        ("amount is double in blue and string in green",),
        UNTYPED,
    ),
    "late rows that one side has dropped": Case(
        lambda rows: [row for row in rows if row["at"] != f"{hour(1)}10:00.000Z"],
        INCONCLUSIVE,
        ("3 rows were dropped as late",),
        bound=replace(SETTLED, late_rows=3),
    ),
    "a green that begins in the second hour": Case(
        lambda rows: [row for row in rows if row["at"] > f"{hour(1)}20"],
        SAME,
        ("18 rows in 9 buckets", "12 earlier rows of blue", "3 earlier rows of green"),
    ),
    "terms that do not fit": Case(
        lambda rows: rows, INCONCLUSIVE, ("'turnover'",), replace(TERMS, sums=("turnover",))
    ),
}


@pytest.fixture(scope="module")
def reports(
    spark_4_3: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, CompareReport]:
    root = tmp_path_factory.mktemp("outputs")
    blue = write_as_sink(root / "blue", sales(), uncommitted=sales())
    asked = []
    for number, case in enumerate(CASES.values()):
        green = root / f"green{number}"
        if case.change is not None:
            write(green, case.change(sales()))
        asked.append(Outputs(case.terms, blue, str(green), case.bound))
    found = compare_all(
        asked, resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)}), scratch=root
    )
    assert not list(root.glob(f"{PREFIX}*"))
    return dict(zip(CASES, found, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_comparison_says_what_is_wrong_with_green(
    reports: Mapping[str, CompareReport], name: str
) -> None:
    report, case = reports[name], CASES[name]

    assert report.result is case.result, report.reason
    assert not [part for part in case.says if part not in report.reason], report.reason


def test_only_what_the_sink_has_committed_is_read(reports: Mapping[str, CompareReport]) -> None:
    assert reports["the same in another order"].blue.rows == len(sales())


def test_figures_of_both_sides_are_named_by_bucket_and_key(
    reports: Mapping[str, CompareReport],
) -> None:
    (found,) = reports["wrong sums"].differences

    assert found.bucket == BEGIN.replace(hour=6).isoformat(timespec="microseconds")
    assert found.key == {"store": "s2"}
    assert (found.what, found.blue, found.green) == ("sum of amount", "6.50", "6.00")


def test_terms_that_do_not_fit_are_told_apart_from_errors_that_may_pass(
    reports: Mapping[str, CompareReport],
) -> None:
    assert [name for name, report in reports.items() if report.refused] == ["terms that do not fit"]

"""Every rule looks at its figure: of the right batches, query and source, and well put."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from airflow_streaming.model.health_rules import RuleState, recommended_rules
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.supervision.rules.rulebook import RuleBook
from tests.unit.supervision.builders import a_query, a_status, minutes
from tests.unit.supervision.figures_told import FILES, KAFKA, LATE, one, rows, rule, told

SOURCE: Final = {
    metric: (SourceProgress(source=KAFKA, **{metric.value: 9.0}),)
    for metric in (Metric.BACKLOG_RECORDS, Metric.BACKLOG_BYTES, Metric.BACKLOG_FILES)
} | {
    Metric.LOSS_SECONDS: (SourceProgress(source=KAFKA, loss_in_s=9.0, kept_for_s=36.0),),
    Metric.LOSS_SHARE: (SourceProgress(source=KAFKA, loss_in_s=9.0, kept_for_s=36.0),),
}
FIGURES: Final = {
    Metric.BATCH_SECONDS: ({}, {}, 5.0),
    Metric.BATCH_SHARE: ({}, {"processing_interval_s": 2.0}, 2.5),
    Metric.WATERMARK_DELAY_SECONDS: ({"watermark_delay_s": 90.0}, {}, 90.0),
    Metric.STATE_ROWS: ({"state_rows": 7}, {}, 7.0),
    Metric.STATE_BYTES: ({"state_bytes": 8}, {}, 8.0),
    Metric.DROPPED_ROWS: ({"dropped_rows": 3}, {}, 3.0),
    Metric.BACKLOG_RECORDS: ({"sources": SOURCE[Metric.BACKLOG_RECORDS]}, {}, 9.0),
    Metric.BACKLOG_BYTES: ({"sources": SOURCE[Metric.BACKLOG_BYTES]}, {}, 9.0),
    Metric.BACKLOG_FILES: ({"sources": SOURCE[Metric.BACKLOG_FILES]}, {}, 9.0),
    # 9 records wait, and 20 are processed in 5 s.
    Metric.BACKLOG_SECONDS: (
        {"sources": SOURCE[Metric.BACKLOG_RECORDS], "input_rows": 20},
        {},
        2.25,
    ),
    Metric.LOSS_SECONDS: ({"sources": SOURCE[Metric.LOSS_SECONDS]}, {}, 9.0),
    Metric.LOSS_SHARE: ({"sources": SOURCE[Metric.LOSS_SHARE]}, {}, 0.25),
    Metric.SNAPSHOT_LAG: ({"figures": {"snapshot_lag": 12.0}}, {}, 12.0),
    Metric.REPAIRED_SNAPSHOTS: ({"figures": {"repaired_snapshots": 1.0}}, {}, 1.0),
    Metric.STATE_COMMIT_SECONDS: ({"state_commit_ms": 1_500.0}, {}, 1.5),
    Metric.CACHE_MISS_SHARE: ({"cache_miss_share": 0.75}, {}, 0.75),
    Metric.MISSING_EXECUTORS: ({"figures": {"missing_executors": 2.0}}, {}, 2.0),
    Metric.LOST_EXECUTORS: ({"figures": {"lost_executors": 3.0}}, {}, 3.0),
    Metric.FAILED_TASKS: ({"figures": {"failed_tasks": 4.0}}, {}, 4.0),
    Metric.OBSERVED: ({"observed": {"q.bad": -4.0}}, {}, -4.0),
    Metric.COMMIT_AGE_SECONDS: ({}, {"batch_for_s": 40.0, "committed_ago_s": 40.0}, 40.0),
    # 2,000 rows are processed in 5 s and came in 10 s.
    Metric.PROCESSING_SHARE: ({"processed_rows_per_second": 400.0}, {}, 2.0),
    # Six batches of 2,000 rows a minute.
    Metric.INPUT_RATE: ({}, {}, 200.0),
}


@pytest.mark.parametrize("metric", Metric)
def test_every_metric_has_its_figure(metric: Metric) -> None:
    batch, query, figure = FIGURES[metric]
    column = "q.bad" if metric is Metric.OBSERVED else None
    mean = minutes(1) if metric is Metric.INPUT_RATE else timedelta(0)
    bound = 1e9 if metric.row.most is None else 0.9 * metric.row.most
    given = rule(metric, bound, column=column, mean_over=mean)
    history = rows(8, **{"input_rows_per_second": None} | batch)

    finding = one(given, history, at=75, **query)

    assert (finding.state, finding.figure) == (RuleState.CLEAR, pytest.approx(figure))


def behind(share: float, **changes: Any) -> list[BatchProgress]:
    fields: dict[str, Any] = {
        "input_rows": 1_000,
        "input_rows_per_second": 100.0,
        "processed_rows_per_second": 100.0 * share,
    }
    return rows(60, **fields | changes)


FALLING: Final = next(r for r in recommended_rules() if r.name == "falling_behind")


def test_a_query_that_falls_behind_is_told_as_people_say_it() -> None:
    finding = one(FALLING, behind(0.62), at=600)

    assert finding.state is RuleState.FIRING
    assert finding.reason == (
        "Query 'revenue' has processed 62 % of its input for 8.92 min "
        "(falling_behind: below 80 % for 5 min)."
    )


def test_a_share_is_a_sum_over_a_sum_and_no_mean_of_ratios() -> None:
    small = behind(0.1, input_rows=1, input_rows_per_second=1.0, processed_rows_per_second=0.1)
    mixed = [
        row if n % 2 else other
        for n, (row, other) in enumerate(zip(small, behind(2.0), strict=True))
    ]

    # 10 s of work on one row, 5 s on a thousand, for 20 s of input.
    assert one(FALLING, mixed, at=600).figure == pytest.approx(20 / 15)


def test_a_query_that_looks_for_data_all_the_time_is_not_behind() -> None:
    # Spark's rate is over the ten milliseconds since the last look; the rows came in 10 s.
    looked = behind(1.0, input_rows_per_second=100_000.0, processed_rows_per_second=500.0)

    assert one(FALLING, looked, at=600).figure == pytest.approx(5.0)


def test_every_source_has_its_own_finding_and_the_filter_picks_some() -> None:
    sources = (
        SourceProgress(source=KAFKA, backlog_records=9.0),
        SourceProgress(source=FILES, backlog_records=1.0),
    )
    history = rows(3, sources=sources)

    found = told(rule(Metric.BACKLOG_RECORDS, 5), history, at=26)
    assert {f.source: f.state.value for f in found} == {KAFKA: "firing", FILES: "clear"}
    assert len({f.key for f in found}) == 2
    filtered = told(rule(Metric.BACKLOG_RECORDS, 5, source="Kafka"), history, at=26)
    assert [f.source for f in filtered] == [KAFKA]


def test_of_one_place_read_twice_the_longer_backlog_counts() -> None:
    sources = tuple(SourceProgress(source=FILES, backlog_files=f) for f in (1.0, 9.0, None))

    assert one(rule(Metric.BACKLOG_FILES, 5), rows(3, sources=sources), at=26).figure == 9.0


def test_every_query_has_its_own_finding_and_a_rule_can_name_one() -> None:
    either, named = rule(Metric.BATCH_SECONDS, 5), rule(Metric.BATCH_SECONDS, 5, query="b")
    queries = tuple(a_query(name=name, progress=None) for name in "ab")

    assert [f.query for f in RuleBook([either]).findings(a_status(queries=queries))] == ["a", "b"]
    assert [f.query for f in RuleBook([named]).findings(a_status(queries=queries))] == ["b"]


def test_of_two_runs_under_one_name_the_one_that_runs_counts() -> None:
    runs = (a_query(active=False), a_query(progress=None), a_query(active=False))

    (finding,) = RuleBook([LATE]).findings(a_status(queries=runs))

    assert finding.reason.endswith("in this epoch yet.")


@pytest.mark.parametrize(
    ("seconds_seen", "state"),
    [(300, RuleState.UNKNOWN), (590, RuleState.UNKNOWN), (620, RuleState.FIRING)],
    ids=["five minutes of load", "just below ten", "ten minutes"],
)
def test_a_backlog_is_judged_by_the_mean_of_ten_minutes_however_large_it_is(
    seconds_seen: int, state: RuleState
) -> None:
    # Ten times the arrivals of a busy minute, of which a slow stream reads 35 in five minutes.
    [limit] = [one for one in recommended_rules(backlog_files=50) if one.name == "backlog_files"]
    history = [
        row
        for start in range(0, seconds_seen, 20)
        for row in rows(
            1,
            every=20.0,
            start=float(start),
            sources=(SourceProgress(source=FILES, backlog_files=3.0 * start),),
        )
    ]

    finding = one(limit, history, at=seconds_seen)

    assert finding.state is state
    if state is RuleState.UNKNOWN:
        assert "of the 10 min that the mean of rule 'backlog_files' is taken over" in finding.reason

"""A rule says what the figures say: unknown without data, pending, firing, and clear again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from airflow_streaming.core.progress import BatchProgress, SourceProgress
from airflow_streaming.core.rules.recommended import recommended_rules
from airflow_streaming.core.rules.rule import Comparison, Finding, HealthRule, Metric, RuleState
from airflow_streaming.core.rules.rulebook import RuleBook
from airflow_streaming.core.rules.window import MAX_SAMPLES
from airflow_streaming.core.status import Status
from tests.unit.core.agreement import disagreement_of_rules
from tests.unit.core.builders import BEGUN, a_batch, a_query, a_status, minutes, seconds

KAFKA: Final = "KafkaV2[Subscribe[orders]]"
FILES: Final = "FileStreamSource[file:/in]"
BUSY: Final[dict[str, Any]] = {"processing": True, "data_available": True, "batch_for_s": 1.0}
IDLE: Final[dict[str, Any]] = {"processing": False, "data_available": False}


def rule(metric: Metric, bound: float, **changes: Any) -> HealthRule:
    return HealthRule(**{"name": "r", "metric": metric, "bound": bound} | changes)


def rows(count: int, *, every: float = 10.0, start: float = 0.0, **fields: Any) -> list[Any]:
    """Return batches that begin at even times and take half of the time between."""
    return [
        a_batch(
            batch_id=int(start / every) + n,
            at=(BEGUN + seconds(start + every * n)).isoformat(),
            duration_ms=int(500 * every),
            **fields,
        )
        for n in range(count)
    ]


def told(
    rules: HealthRule | Sequence[HealthRule],
    history: Sequence[BatchProgress],
    *,
    at: float,
    **query: Any,
) -> list[Finding]:
    """Return what rules say of a history, so many seconds after the start of the driver."""
    book = RuleBook([rules] if isinstance(rules, HealthRule) else rules)
    for row in history:
        book.learn(row)
    return list(book.findings(status(at, history, **query)))


def status(at: float, history: Sequence[BatchProgress] = (), **query: Any) -> Status:
    latest = history[-1] if history else None
    fields: dict[str, Any] = BUSY | {"progress": latest, **query}
    return a_status(started_at=BEGUN, at=BEGUN + seconds(at), queries=(a_query(**fields),))


def one(*args: Any, **kwargs: Any) -> Finding:
    (finding,) = told(*args, **kwargs)
    return finding


# No data is never "clear".
UNKNOWN: Final = {
    "no batch in this epoch": (
        rule(Metric.STATE_ROWS, 5),
        [],
        {},
        "Query 'revenue' has not finished a batch in this epoch yet.",
    ),
    "a figure that Spark does not report": (
        rule(Metric.STATE_ROWS, 5),
        rows(3),
        {},
        "Spark has not reported state rows for query 'revenue'.",
    ),
    "a query that does not exist": (
        rule(Metric.STATE_ROWS, 5, query="orders"),
        rows(3),
        {},
        "Rule 'r' speaks of query 'orders', which the stream does not have; it has 'revenue'.",
    ),
    "a source that does not exist": (
        rule(Metric.BACKLOG_FILES, 5, source="s3:"),
        rows(3, sources=(SourceProgress(source=FILES, backlog_files=1),)),
        {},
        (
            "Query 'revenue' has no source whose description contains 's3:'; it has "
            "'FileStreamSource[file:/in]'."
        ),
    ),
    "a unit in which the source tells no backlog": (
        rule(Metric.BACKLOG_BYTES, 5),
        rows(3, sources=(SourceProgress(source=KAFKA, backlog_records=1),)),
        {},
        (
            "Spark has not reported a backlog in bytes for source 'KafkaV2[Subscribe[orders]]' of "
            "query 'revenue'."
        ),
    ),
    "a column that is not observed": (
        rule(Metric.OBSERVED, 5, column="quality.bad"),
        rows(3, observed={"quality.rows": 1.0, "a.b": 2.0}),
        {},
        "Query 'revenue' has not observed 'quality.bad'; it has observed 'a.b', 'quality.rows'.",
    ),
    "a query that observes nothing": (
        rule(Metric.OBSERVED, 5, column="quality.bad"),
        rows(3),
        {},
        "Query 'revenue' has not observed 'quality.bad'; it has observed nothing.",
    ),
    "a query without a processing interval": (
        rule(Metric.BATCH_SHARE, 3),
        rows(3),
        {},
        "Query 'revenue' has no processing interval that its batches could be measured by.",
    ),
    "a mean over more time than was seen": (
        rule(Metric.STATE_ROWS, 5, mean_over=minutes(10)),
        rows(3, state_rows=9),
        {},
        (
            "Query 'revenue' has been seen for 30 s of the 10 min that the mean of rule 'r' is taken "
            "over."
        ),
    ),
    "an input rate over more time than was seen": (
        rule(Metric.INPUT_RATE, 5, mean_over=minutes(10)),
        [],
        {"committed_ago_s": 30.0} | IDLE,
        (
            "Query 'revenue' has been seen for 30 s of the 10 min that the mean of rule 'r' is taken "
            "over."
        ),
    ),
    "a query that has ended": (
        rule(Metric.STATE_ROWS, 5),
        rows(3, state_rows=9),
        {"active": False},
        "Query 'revenue' has ended.",
    ),
    "a batch of unknown age": (
        rule(Metric.COMMIT_AGE_SECONDS, 5),
        rows(3),
        {"batch_for_s": None, "committed_ago_s": 9.0},
        "The driver has not told how long query 'revenue' has been at its batch.",
    ),
}


@pytest.mark.parametrize(("given", "history", "query", "reason"), UNKNOWN.values(), ids=UNKNOWN)
def test_without_data_a_rule_is_unknown_and_says_what_is_missing(
    given: HealthRule, history: list[BatchProgress], query: dict[str, Any], reason: str
) -> None:
    finding = one(given, history, at=30, **query)

    assert (finding.state, finding.reason) == (RuleState.UNKNOWN, reason)


def test_a_driver_without_a_query_leaves_every_rule_unknown() -> None:
    found = RuleBook(recommended_rules()).findings(a_status(queries=()))

    assert {finding.state for finding in found} == {RuleState.UNKNOWN}
    assert {finding.reason for finding in found} == {"The driver has not started a query yet."}


def test_a_figure_that_is_no_longer_reported_becomes_unknown() -> None:
    gone = rows(20, start=10)

    assert one(rule(Metric.STATE_ROWS, 5), rows(1, state_rows=9) + gone[:19], at=200).state == (
        RuleState.FIRING
    )
    assert one(rule(Metric.STATE_ROWS, 5), rows(1, state_rows=9) + gone, at=210).state == (
        RuleState.UNKNOWN
    )


SOURCE: Final = {
    metric: (SourceProgress(source=KAFKA, **{metric.value: 9.0}),)
    for metric in (Metric.BACKLOG_RECORDS, Metric.BACKLOG_BYTES, Metric.BACKLOG_FILES)
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
    Metric.STATE_COMMIT_SECONDS: ({"state_commit_ms": 1_500.0}, {}, 1.5),
    Metric.CACHE_MISS_SHARE: ({"cache_miss_share": 0.75}, {}, 0.75),
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
    given = rule(metric, 1e9, column=column, mean_over=mean)
    history = rows(8, **{"input_rows_per_second": None} | batch)

    finding = one(given, history, at=75, **query)

    assert (finding.state, finding.figure) == (RuleState.CLEAR, pytest.approx(figure))


LATE: Final = rule(
    Metric.WATERMARK_DELAY_SECONDS,
    60,
    sustained_for=seconds(30),
    clear_bound=50,
    clear_for=seconds(20),
)


def delays(*figures: float) -> list[BatchProgress]:
    return [rows(1, start=10 * n, watermark_delay_s=f)[0] for n, f in enumerate(figures)]


# Batches end at 5, 15, 25, ... s.
COURSES: Final = {
    "good": (delays(9), 6, "clear", 5),
    "on the bound": (delays(60), 6, "clear", 5),
    "bad": (delays(9, 99), 16, "pending", 15),
    "bad for long enough": (delays(99, 99, 99, 99), 36, "firing", 35),
    "the last figure stands while the next batch works": (delays(9, 99), 46, "firing", 45),
    "a break begins anew": (delays(99, 99, 9, 99, 99), 46, "pending", 35),
    "good, but not clear": (delays(99, 99, 99, 99, 55, 55, 55, 55), 90, "firing", 35),
    "clear, but not for long enough": (delays(99, 99, 99, 99, 9, 9), 60, "firing", 35),
    "clear for long enough": (delays(99, 99, 99, 99, 9, 9), 66, "clear", 65),
    "bad again while clearing": (delays(99, 99, 99, 99, 9, 99, 9), 76, "firing", 35),
}


@pytest.mark.parametrize(("history", "at", "state", "since"), COURSES.values(), ids=COURSES)
def test_a_rule_fires_late_and_clears_late(
    history: list[BatchProgress], at: float, state: str, since: float
) -> None:
    finding = one(LATE, history, at=at, batch_for_s=0.5)

    assert (finding.state, finding.since) == (state, BEGUN + seconds(since))


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


@pytest.mark.parametrize(
    ("metric", "idle", "state"),
    [
        (Metric.BATCH_SECONDS, 20, "firing"),
        (Metric.BATCH_SECONDS, 60, "clear"),
        (Metric.STATE_ROWS, 60, "firing"),
    ],
    ids=["for a little while it stands", "then it clears", "state stays what it is"],
)
def test_a_query_with_nothing_to_do_is_well_by_its_work_but_not_by_its_state(
    metric: Metric, idle: float, state: str
) -> None:
    given = rule(metric, 1, clear_for=seconds(20))

    assert one(given, rows(3, state_rows=9), at=25 + idle, **IDLE).state == state


def test_a_bad_batch_followed_by_nothing_to_do_convicts_nobody() -> None:
    given = rule(Metric.BATCH_SECONDS, 1, sustained_for=minutes(5))
    later = rows(1, start=3_600)

    assert one(given, rows(1), at=3_000, **IDLE).state is RuleState.CLEAR
    assert one(given, rows(1) + later, at=3_606).since == BEGUN + seconds(3_605)


def test_a_gap_without_batches_neither_heals_nor_convicts_state() -> None:
    given = rule(Metric.STATE_ROWS, 5, sustained_for=minutes(2), clear_for=minutes(2))
    bad, good = rows(1, state_rows=9), rows(1, start=3_600, state_rows=1)

    assert one(given, bad, at=3_000, **IDLE).state is RuleState.PENDING
    fired = rows(20, state_rows=9)
    assert one(given, fired + good, at=3_620).state is RuleState.FIRING


def test_data_that_waits_for_a_batch_heals_nothing() -> None:
    given = rule(Metric.BATCH_SECONDS, 1, clear_for=seconds(0))
    waits = {"processing": False, "data_available": True}

    assert one(given, rows(3), at=3_000, **waits).state is RuleState.FIRING


def test_a_long_interval_is_no_gap() -> None:
    given = rule(Metric.BATCH_SECONDS, 1, sustained_for=minutes(4))
    history = rows(2, every=300.0)

    found = one(given, history, at=590, processing_interval_s=300.0, **IDLE)

    assert found.state is RuleState.FIRING


STOPPED: Final = next(r for r in recommended_rules() if r.name == "input_stopped")


@pytest.mark.parametrize(
    ("history", "at", "query", "state"),
    [
        ([], 14 * 60, IDLE, "unknown"),
        ([], 15 * 60, IDLE, "firing"),
        (rows(100), 1_010, BUSY, "clear"),
        (rows(100), 995 + 14 * 60, IDLE, "clear"),
        (rows(100), 995 + 15 * 60, IDLE, "firing"),
        (rows(100) + rows(1, start=7_200), 7_206, IDLE, "clear"),
        (rows(100, input_rows=0), 1_000, BUSY, "firing"),
        (rows(100), 7_200, BUSY | {"batch_for_s": 6_200.0}, "clear"),
    ],
    ids=[
        "a young query is not known",
        "a query that never read is silent",
        "one that reads is not",
        "a little silence is nothing",
        "a long one fires",
        "the first batch clears it",
        "batches without rows are silence",
        "a long batch hides what comes in, and is no silence",
    ],
)
def test_input_that_falls_to_zero(
    history: list[BatchProgress], at: float, query: dict[str, Any], state: str
) -> None:
    found = one(STOPPED, history, at=at, **query)

    assert found.state == state


def test_silence_is_told_as_such() -> None:
    assert one(STOPPED, rows(1), at=3_000, **IDLE).reason.startswith(
        "Query 'revenue' has read no rows in 15 min for "
    )


def test_a_low_rate_is_seen_falling_between_two_batches() -> None:
    slow = rule(Metric.INPUT_RATE, 10, comparison=Comparison.BELOW, mean_over=minutes(1))
    book = RuleBook([slow])
    for row in rows(12, input_rows=150):
        book.learn(row)

    # 15 rows a second, and every 10 s without a batch a sixth of them less.
    states = [book.findings(status(at, **IDLE))[0].state for at in (116, 136, 146, 116)]

    assert states == ["clear", "clear", "firing", "clear"]


NO_COMMIT: Final = rule(Metric.COMMIT_AGE_SECONDS, 900, sustained_for=seconds(60))


@pytest.mark.parametrize(
    ("query", "state"),
    [
        (IDLE | {"committed_ago_s": 9_000.0}, "clear"),
        (BUSY | {"committed_ago_s": 9_000.0}, "clear"),
        (BUSY | {"committed_ago_s": 9_000.0, "batch_for_s": 901.0}, "pending"),
        (BUSY | {"committed_ago_s": 9_000.0, "batch_for_s": 960.0}, "firing"),
        (IDLE | {"committed_ago_s": 960.0, "data_available": True}, "firing"),
        (IDLE | {"committed_ago_s": 960.0, "data_available": True, "ready_for_s": 5.0}, "clear"),
        (IDLE | {"data_available": True}, "unknown"),
    ],
    ids=[
        "a query that waits has nothing to commit",
        "nor has one that has just begun",
        "a batch that takes long",
        "and longer",
        "data that nobody begins to read",
        "data that came just now",
        "an age nobody knows",
    ],
)
def test_no_commit_for_a_time_counts_the_time_with_work(query: dict[str, Any], state: str) -> None:
    assert one(NO_COMMIT, [], at=9_000, **query).state == state


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


def test_a_batch_that_is_known_already_changes_nothing() -> None:
    history = delays(99, 99, 99, 99)
    repeated = [row for row in history for _ in range(3)]

    assert told(LATE, repeated + history, at=36) == told(LATE, history, at=36)


def test_a_fresh_book_says_what_one_says_that_lived_through_it() -> None:
    rules = recommended_rules(watermark_sla=seconds(60), state_rows_limit=10)
    history = rows(200, watermark_delay_s=99.0, state_rows=9, dropped_rows=1)
    lived = RuleBook(rules)
    for n, row in enumerate(history):
        lived.learn(row)
        lived.findings(status(10 * n + 6, history[: n + 1]))

    assert list(lived.findings(status(2_000, history))) == told(rules, history, at=2_000)


@pytest.mark.parametrize("moved", [-3_600.0, 3_600.0], ids=["back", "forward"])
def test_a_clock_that_is_moved_convicts_nobody(moved: float) -> None:
    given = rule(Metric.BATCH_SECONDS, 1, sustained_for=minutes(5))
    before, after = rows(3), rows(3, start=30)
    book = RuleBook([given])
    for row in before:
        book.learn(row)
    states = [book.findings(status(26 + moved, before, committed_ago_s=1.0))[0].state]
    for row in after:
        at = datetime.fromisoformat(row.at) + seconds(moved)
        book.learn(a_batch(**_of(row) | {"at": at.isoformat()}))
        states.append(book.findings(status(60 + moved, after, progress=None))[0].state)

    assert set(states) == {RuleState.PENDING}


def _of(row: BatchProgress) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


@pytest.mark.parametrize("at", ["", "yesterday", "2026-13-45T00:00:00Z"])
def test_a_batch_without_a_time_is_left_out(at: str) -> None:
    history = [a_batch(batch_id=1, at=at, state_rows=9)]

    assert one(rule(Metric.STATE_ROWS, 5), history, at=30).state is RuleState.UNKNOWN


@pytest.mark.parametrize("duration", [-5_000, 10**30], ids=["negative", "absurd"])
def test_a_duration_that_cannot_be_is_survived(duration: int) -> None:
    history = [a_batch(at=BEGUN.isoformat(), duration_ms=duration, state_rows=9)]

    assert one(rule(Metric.STATE_ROWS, 5), history, at=30).state is RuleState.FIRING


def test_while_newer_batches_are_not_learnt_nothing_lapses() -> None:
    # The history is written some seconds after the status that tells of its latest batch.
    given = rule(Metric.BATCH_SECONDS, 1, clear_for=seconds(0))
    newer = a_batch(batch_id=99, at=(BEGUN + seconds(80)).isoformat())

    assert one(given, rows(3), at=100, progress=newer, **IDLE).state is RuleState.FIRING


def test_a_window_over_very_many_batches_stays_small_and_right() -> None:
    given = rule(Metric.STATE_ROWS, 1e9, mean_over=timedelta(days=1))
    book = RuleBook([given])
    history = rows(3 * MAX_SAMPLES + 1, every=30.0)
    for n, row in enumerate(history):
        book.learn(a_batch(**_of(row) | {"state_rows": n}))

    (finding,) = book.findings(status(30.0 * len(history), history))

    # A day holds 2,880 batches, the last of which are around 4,560.
    assert finding.figure == pytest.approx(3 * MAX_SAMPLES - 1_440, abs=3)


def test_the_book_agrees_with_the_reference_model_over_random_histories() -> None:
    # ``python -m tests.system.judging`` tries as many as wanted.
    wrong = [found for seed in range(600) if (found := disagreement_of_rules(seed, batches=20))]

    assert not wrong

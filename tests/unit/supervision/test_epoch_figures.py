"""Figures are read as they come, and a fresh reader knows what one that lived through them knows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.codec import encode
from airflow_streaming.model.health_rules import Finding, HealthRule, HealthRules, RuleState
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.names import Layout
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.status import Status
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.supervision.epoch_figures import READ_EVERY, Figures
from tests.unit.supervision.builders import a_query, a_status

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DROPPED = HealthRule(name="dropped", metric=Metric.DROPPED_ROWS, bound=0.0)
RULES = HealthRules(rules=(DROPPED,))
EPOCH = 17


class CountingStore(LocalStore):
    """Counts the reads of history chunks."""

    reads = 0

    def read(self, path: str) -> bytes | None:
        self.reads += path.endswith(".jsonl")
        return super().read(path)


class History:
    """Plays the driver's side: rows in chunks, and the heartbeat that goes with them."""

    def __init__(self, folder: Path) -> None:
        self.store = CountingStore(str(folder))
        self.home = StreamHome(self.store, "orders")
        self.rows: list[BatchProgress] = []
        self.seconds = 10.0
        """From one batch to the next."""

    def commit(self, *dropped: int) -> None:
        for count in dropped:
            batch = len(self.rows)
            at = START + timedelta(seconds=self.seconds * batch)
            self.rows.append(
                BatchProgress(
                    query="revenue",
                    batch_id=batch,
                    at=at.isoformat(),
                    input_rows=10,
                    input_rows_per_second=1.0,
                    processed_rows_per_second=10.0,
                    duration_ms=min(1000, int(500 * self.seconds)),
                    dropped_rows=count,
                )
            )

    def write(self, chunk: int = 1, since: int = 0) -> None:
        lines = "".join(f"{json.dumps(encode(row))}\n" for row in self.rows[since:])
        path = f"{Layout('orders').progress(EPOCH)}/{chunk:06d}.jsonl"
        self.store.replace(path, lines.encode())

    def status(self) -> Status:
        at = START + timedelta(seconds=self.seconds * len(self.rows))
        query = a_query(progress=self.rows[-1] if self.rows else None)
        return a_status(at=at, queries=(query,))


def only(findings: tuple[Finding, ...]) -> RuleState:
    (finding,) = findings
    return finding.state


def test_rows_become_findings(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.commit(0, 3)
    history.write()

    figures = Figures(history.home, EPOCH, RULES)

    assert only(figures.findings(history.status(), 0.0)) is RuleState.FIRING


def test_the_history_is_read_no_more_often_than_it_changes(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.commit(0)
    history.write()
    figures = Figures(history.home, EPOCH, RULES)
    figures.findings(history.status(), 0.0)

    history.commit(5)
    history.write()
    assert only(figures.findings(history.status(), READ_EVERY / 2)) is RuleState.CLEAR
    assert history.store.reads == 1

    assert only(figures.findings(history.status(), READ_EVERY)) is RuleState.FIRING
    figures.findings(history.status(), 10 * READ_EVERY)
    assert history.store.reads == 2, "nothing new to read"


def test_a_batch_that_the_heartbeat_told_before_the_history_is_not_forgotten(
    tmp_path: Path,
) -> None:
    history = History(tmp_path)
    history.commit(0)
    history.write()
    history.commit(5)
    figures = Figures(history.home, EPOCH, RULES)
    assert only(figures.findings(history.status(), 0.0)) is RuleState.CLEAR

    history.write()

    assert only(figures.findings(history.status(), READ_EVERY)) is RuleState.FIRING


def test_a_fresh_reader_knows_what_a_lasting_one_knows(tmp_path: Path) -> None:
    history = History(tmp_path)
    lasting = Figures(history.home, EPOCH, RULES)
    for batch, dropped in enumerate([0, 2, 0, 0, 0, 0, 0, 0, 4, 0]):
        history.commit(dropped)
        if batch < 5:
            history.write()
        else:
            history.write(chunk=2, since=5)
        told = lasting.findings(history.status(), 2 * READ_EVERY * batch)

    fresh = Figures(history.home, EPOCH, RULES)

    assert fresh.findings(history.status(), 0.0) == told


def test_a_chunk_that_was_damaged_costs_its_rows_only(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.commit(0)
    history.store.replace(f"{Layout('orders').progress(EPOCH)}/000001.jsonl", b"not json\n\xff\n")
    history.write(chunk=2)

    figures = Figures(history.home, EPOCH, RULES)

    assert only(figures.findings(history.status(), 0.0)) is RuleState.CLEAR


def test_a_rule_without_a_figure_is_unknown(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.commit(0)
    history.rows = [replace(history.rows[0], dropped_rows=None)]
    history.write()

    figures = Figures(history.home, EPOCH, RULES)

    assert only(figures.findings(history.status(), 0.0)) is RuleState.UNKNOWN


def test_a_fresh_reader_goes_back_by_time_however_short_the_chunks_are(tmp_path: Path) -> None:
    sustained = HealthRule(
        name="dropped", metric=Metric.DROPPED_ROWS, bound=0.0, sustained_for=timedelta(minutes=20)
    )
    history = History(tmp_path)
    # 200 batches of 10 s, all bad, in chunks that cover 50 s each.
    for chunk in range(1, 41):
        history.commit(1, 1, 1, 1, 1)
        history.write(chunk=chunk, since=5 * (chunk - 1))

    fresh = Figures(history.home, EPOCH, HealthRules(rules=(sustained,)))

    assert only(fresh.findings(history.status(), 0.0)) is RuleState.FIRING
    assert history.store.reads < 40, "but not to the very beginning"


def test_a_fresh_reader_reads_all_that_the_rules_look_at_however_short_the_batches_are(
    tmp_path: Path,
) -> None:
    sustained = HealthRule(
        name="dropped", metric=Metric.DROPPED_ROWS, bound=0.0, sustained_for=timedelta(minutes=20)
    )
    history = History(tmp_path)
    # 25 minutes of 0.2 s batches, all bad.
    history.seconds = 0.2
    for chunk in range(1, 16):
        history.commit(*[1] * 500)
        history.write(chunk=chunk, since=500 * (chunk - 1))

    fresh = Figures(history.home, EPOCH, HealthRules(rules=(sustained,)))

    assert only(fresh.findings(history.status(), 0.0)) is RuleState.FIRING


FALLING = HealthRule(name="dropped", metric=Metric.DROPPED_ROWS, bound=5.0, clear_bound=1.0)
TOLD = START + timedelta(minutes=1)


def after_a_day_between_the_bounds(folder: Path) -> History:
    """Return a history of one bad batch, and a day of none that is bad or clear."""
    history = History(folder)
    history.seconds = 60.0
    history.commit(9)
    history.write(chunk=1)
    for chunk in range(2, 26):
        history.commit(*[3] * 60)
        history.write(chunk=chunk, since=len(history.rows) - 60)
    return history


def test_what_fires_since_before_a_fresh_reader_reads_is_known_from_its_incident(
    tmp_path: Path,
) -> None:
    history = after_a_day_between_the_bounds(tmp_path)

    fresh = Figures(
        history.home, EPOCH, HealthRules(rules=(FALLING,)), incidents={"dropped/revenue": TOLD}
    )
    (finding,) = fresh.findings(history.status(), 0.0)

    assert (finding.state, finding.since) == (RuleState.FIRING, TOLD)
    assert history.store.reads < 3, "nothing of the day has to be read for it"


def test_it_is_over_when_its_figure_has_come_back(tmp_path: Path) -> None:
    history = after_a_day_between_the_bounds(tmp_path)
    history.commit(0, 0, 0)
    history.write(chunk=26, since=len(history.rows) - 3)

    fresh = Figures(
        history.home, EPOCH, HealthRules(rules=(FALLING,)), incidents={"dropped/revenue": TOLD}
    )

    assert only(fresh.findings(history.status(), 0.0)) is RuleState.CLEAR


@pytest.mark.parametrize(
    "incidents",
    [
        pytest.param({}, id="none"),
        pytest.param({"dropped/raw": TOLD, "stalled/revenue": TOLD}, id="of something else"),
    ],
)
def test_what_has_no_incident_does_not_fire(tmp_path: Path, incidents: dict[str, datetime]) -> None:
    history = after_a_day_between_the_bounds(tmp_path)

    fresh = Figures(history.home, EPOCH, HealthRules(rules=(FALLING,)), incidents=incidents)

    assert only(fresh.findings(history.status(), 0.0)) is RuleState.CLEAR


def test_a_history_that_is_read_from_its_beginning_needs_no_incident(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.commit(3, 3, 3)
    history.write()
    before = {"dropped/revenue": START - timedelta(hours=1)}

    fresh = Figures(history.home, EPOCH, HealthRules(rules=(FALLING,)), incidents=before)

    assert only(fresh.findings(history.status(), 0.0)) is RuleState.CLEAR

"""Prometheus fires an alert where a health rule fires, and at no other time, over whole histories."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.sdk.observability import stats

from airflow_streaming import telemetry
from airflow_streaming.driver.sinks.figures import PREFIX, Kind, Ledger
from airflow_streaming.driver.sinks.port import Origin, ProgressEvent
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.rules.rulebook import RuleBook
from airflow_streaming.supervision.rules.states import RuleStates, rule_states
from monitoring.generate import FILES, RULE_FIRING
from tests.unit.supervision.builders import (
    BEGUN,
    a_batch,
    a_query,
    a_status,
    observed,
    seconds,
)

STEP: Final = 15
"""Seconds between two looks, two scrapes and two evaluations."""
AWAY: Final = 45
"""Seconds for which no trigger looks, because the task sends the alert of a rule that began to fire."""
SETTLED: Final = 180
"""A rule is compared once it has been in one state for this long: scrape, evaluation and hold."""
MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
RULES: Final = HealthRules.recommended(backlog_seconds=None)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch of one history; times in seconds."""

    begin: float
    lasts: float = 2.0
    rows: int = 1_000
    rate_in: float = 100.0
    rate_out: float = 500.0

    @property
    def end(self) -> float:
        return self.begin + self.lasts


@dataclass(frozen=True, kw_only=True)
class Story:
    """
    What a stream lived through.

    :param starts: When each driver started.
    :param fires: Rules that fire at some time.
    """

    batches: tuple[Batch, ...]
    lasts: float
    starts: tuple[float, ...] = (0.0,)
    fires: frozenset[str] = frozenset()


def every(pause: float, until: float, *, since: float = 0.0, **batch: Any) -> tuple[Batch, ...]:
    count = int((until - since) // pause)
    return tuple(Batch(begin=since + pause * n + 5, **batch) for n in range(count))


STORIES: Final = {
    "idle night": Story(
        batches=(*every(30, 10 * MINUTE), *every(30, 50 * MINUTE, since=40 * MINUTE)),
        lasts=50 * MINUTE,
        fires=frozenset({"input_stopped"}),
    ),
    "slow source": Story(
        batches=every(5 * MINUTE, HOUR, rows=3, rate_in=0.01, rate_out=2.0), lasts=HOUR
    ),
    "restart": Story(
        batches=(*every(30, 10 * MINUTE), *every(30, 30 * MINUTE, since=12 * MINUTE)),
        lasts=30 * MINUTE,
        starts=(0.0, 11.0 * MINUTE),
    ),
    "long batch": Story(
        batches=(
            *every(30, 10 * MINUTE),
            Batch(begin=10 * MINUTE + 5, lasts=24 * MINUTE),
            *every(30, 45 * MINUTE, since=35 * MINUTE),
        ),
        lasts=45 * MINUTE,
        fires=frozenset({"no_commit", "stalled"}),
    ),
    "falling behind, then idle": Story(
        batches=every(20, 20 * MINUTE, lasts=19.0, rows=9_000, rate_in=450.0, rate_out=300.0),
        lasts=30 * MINUTE,
        fires=frozenset({"falling_behind"}),
    ),
}


def row(number: int, batch: Batch) -> BatchProgress:
    return a_batch(
        batch_id=number,
        at=(BEGUN + seconds(batch.begin)).isoformat(),
        input_rows=batch.rows,
        input_rows_per_second=batch.rate_in,
        processed_rows_per_second=batch.rate_out,
        duration_ms=int(batch.lasts * 1000),
    )


@dataclass
class Replay:
    """A history at one moment: what the rules say of it, and what the driver serves."""

    story: Story
    book: RuleBook = field(init=False)
    ledger: Ledger = field(init=False)
    start: float = -1.0
    learned: int = 0
    rows: list[BatchProgress] = field(default_factory=list)

    def at(self, now: float) -> RuleStates:
        begun = max(start for start in self.story.starts if start <= now)
        if begun != self.start:
            self.start, self.rows = begun, []
            self.book, self.ledger = RuleBook(RULES.rules), Ledger({"stream": "orders"}, lambda: ())
        batches = self.story.batches
        while self.learned < len(batches) and batches[self.learned].end <= now:
            self.rows.append(row(self.learned, batches[self.learned]))
            self.book.learn(self.rows[-1])
            self.ledger.take([event(self.rows[-1])])
            self.learned += 1
        working = self.learned < len(batches) and batches[self.learned].begin <= now
        committed = BEGUN + seconds(batches[self.learned - 1].end if self.rows else self.start)
        query = a_query(
            processing=working,
            data_available=working,
            batches=len(self.rows),
            progress=self.rows[-1] if self.rows else None,
            planned_batch=self.learned if working else None,
            batch_for_s=now - batches[self.learned].begin if working else None,
            quiet_for_s=now - batches[self.learned].begin if working else None,
            committed_ago_s=(BEGUN + seconds(now) - committed).total_seconds(),
        )
        status = a_status(
            started_at=BEGUN + seconds(self.start), at=BEGUN + seconds(now), queries=(query,)
        )
        findings = self.book.findings(status)
        seen = observed(status=status, now=BEGUN + seconds(now), findings=findings)
        return rule_states(judge(seen, RULES), findings, [query.name])


def event(progress: BatchProgress) -> ProgressEvent:
    return ProgressEvent(
        origin=Origin(stream="orders", epoch=1, deployment=1),
        query=progress.query,
        query_id="q",
        run_id="r",
        sequence=progress.batch_id,
        progress=progress,
        report={},
    )


@dataclass
class Series:
    """Every series that Prometheus has of the stream, one value for each step."""

    steps: int = 0
    values: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, labels: dict[str, str], value: float) -> None:
        shown = ",".join(f'{key}="{text}"' for key, text in sorted(labels.items()))
        line = self.values.setdefault(f"{name}{{{shown}}}", [])
        line += ["_"] * (self.steps - len(line)) + [f"{value:.12g}"]

    def named(self) -> list[dict[str, str]]:
        return [
            {"series": name, "values": " ".join(line + ["_"] * (self.steps - len(line)))}
            for name, line in self.values.items()
        ]


def replay(story: Story, gauges: dict[Any, float]) -> Iterator[tuple[RuleStates, Ledger]]:
    """Yield rules and figures of each step; the trigger's gauges are in ``gauges``."""
    told = Replay(story)
    exported, known, away = telemetry.RuleGauges(stream="orders"), set[Any](), 0
    for now in range(0, int(story.lasts), STEP):
        states = told.at(now)
        firing = {key for key, fires in states.items() if fires}
        if away:
            away -= STEP
        else:
            exported.tell(states, lane="orders")
        if firing - known:
            # The trigger wakes its task and ends; another one looks when the alert is sent.
            exported.close()
            exported, away = telemetry.RuleGauges(stream="orders"), AWAY
        known = firing
        yield states, told.ledger


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> dict[Any, float]:
    """What Airflow's metrics hold of each gauge."""
    held: dict[Any, float] = {}

    def gauge(name: str, value: float, *, tags: dict[str, str]) -> None:
        held[name, tuple(sorted(tags.items()))] = value

    monkeypatch.setattr(stats, "gauge", gauge)
    return held


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_an_alert_fires_when_its_rule_does(
    story: Story, gauges: dict[Any, float], tmp_path: Path
) -> None:
    promtool = shutil.which("promtool")
    series, history = Series(), []
    for states, ledger in replay(story, gauges):
        for (_, tags), value in gauges.items():
            series.add(RULE_FIRING, dict(tags), value)
        for figure, samples in ledger.readings():
            suffix = "_total" if figure.kind is Kind.COUNTER else ""
            for one in samples:
                # The clock of a test of rules begins at 0.
                past = BEGUN.timestamp() if "timestamp" in figure.name else 0.0
                name = f"{PREFIX}_{figure.full_name}{suffix}"
                series.add(name, dict(one.labels), one.value - past)
        series.steps += 1
        history.append({key for key, fires in states.items() if fires})

    assert {rule for firing in history for rule, _ in firing} == story.fires
    if promtool is None:
        pytest.skip("promtool is not installed, so the alerts are not compared with the rules.")
    compared = list(_settled(history))
    assert len(compared) > 10
    rules = json.loads((FILES / "prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
    checks = [
        check
        for step, firing in compared
        for rule in rules
        for check in [_check(rule, step, firing)]
    ]
    test = {
        "rule_files": [str(FILES / "prometheus/alerts.yaml")],
        "evaluation_interval": f"{STEP}s",
        "tests": [
            {
                "interval": f"{STEP}s",
                "input_series": series.named(),
                "alert_rule_test": checks,
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(json.dumps(test))
    done = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "test.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, (done.stdout + done.stderr)[-3_000:]


def _settled(history: list[set[Any]]) -> Iterator[tuple[int, set[Any]]]:
    steps = SETTLED // STEP
    for step in range(steps, len(history), 4):
        if all(one == history[step] for one in history[step - steps : step]):
            yield step, history[step]


def _check(rule: dict[str, Any], step: int, firing: set[Any]) -> dict[str, Any]:
    """Return which alerts of a rule file's row must fire: of its own rule, or of every rule."""
    own = rule["labels"].get("rule")
    return {
        "eval_time": f"{step * STEP}s",
        "alertname": rule["alert"],
        "exp_alerts": [
            {
                "exp_labels": {
                    "stream": "orders",
                    "rule": name,
                    "query": query or "driver",
                    **rule["labels"],
                },
                "exp_annotations": {
                    "summary": f"orders/{query or 'driver'}: {name} fires",
                },
            }
            for name, query in sorted(firing)
            if own in (None, name)
        ],
    }

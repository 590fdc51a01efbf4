"""Does the product say what the reference model says? One random history after the other."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from airflow_streaming.model.health_rules import Finding, HealthRules, RuleState, Severity
from airflow_streaming.model.observation import Observation, ProcessState
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.model.status import Status
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.rules.rulebook import RuleBook
from tests.unit.supervision.builders import NOW, a_death, a_launch, an_epoch, an_exit, observed
from tests.unit.supervision.histories import History, a_random_status, a_rule
from tests.unit.supervision.reference_judge import judge_by_the_book
from tests.unit.supervision.reference_model import Said, say


def said_by(book: RuleBook, status: Status) -> list[Said]:
    return [
        Said(
            f.rule,
            f.query,
            f.source,
            f.state.value,
            None if f.since is None else f.since.timestamp(),
        )
        for f in book.findings(status)
    ]


def disagreement_of_rules(seed: int, *, batches: int = 30) -> str | None:
    """
    Live through one random history; return the first thing the model says otherwise.

    A second book learns everything at once at the end, as after a triggerer was killed.
    """
    random = Random(seed)
    rules = [a_rule(random, n) for n in range(random.randint(1, 5))]
    history, book = History(random), RuleBook(rules)
    for _ in range(random.randint(0, batches)):
        history.batch()
        book.learn(history.rows[-1])
        if random.random() < 0.1:
            book.learn(random.choice(history.rows))
        if random.random() < 0.4:
            status = history.status()
            wrong = _compare(said_by(book, status), say(rules, history.rows, status))
            if wrong:
                return f"seed {seed}, after {len(history.rows)} batches: {wrong}"
    status = history.status()
    fresh = RuleBook(rules)
    for row in history.rows:
        fresh.learn(row)
    if fresh.findings(status) != book.findings(status):
        return f"seed {seed}: a fresh book says otherwise"
    wrong = _compare(said_by(fresh, status), say(rules, history.rows, status))
    return f"seed {seed}, at the end: {wrong}" if wrong else None


def _compare(found: list[Said], expected: list[Said]) -> str | None:
    if len(found) != len(expected):
        return f"{found} is not {expected}"
    for one, other in zip(found, expected, strict=True):
        # The model does not say since when there is nothing to know, nor of the age of a commit.
        apart = 0.0
        if one.since is not None and other.since is not None:
            apart = abs(one.since - other.since)
        if one[:4] != other[:4] or apart > 1e-3:
            return f"{one} is not {other}"
    return None


def disagreement_of_judges(seed: int) -> str | None:
    """Judge one random observation; return what the model says otherwise."""
    random = Random(seed)
    seen = a_random_observation(random)
    rules = HealthRules(
        stalled=random.choice([*Severity]),
        stall_after=timedelta(seconds=random.choice([300, 30])),
        stall_factor=random.choice([30.0, 3.0]),
        hang_after=timedelta(seconds=random.choice([45, 45, 1200])),
    )
    verdict = judge(seen, rules)
    found = (verdict.state.value, verdict.severity and verdict.severity.value)
    expected = judge_by_the_book(seen, rules)
    return None if found == expected else f"seed {seed}: {found} is not {expected}: {seen}"


def a_random_observation(random: Random) -> Observation:
    created = NOW - timedelta(seconds=random.choice([0, 29, 30, 3600, -5, -3600]))
    some = random.random() < 0.8
    return observed(
        random.choice([*ProcessState, ProcessState.RUNNING, ProcessState.RUNNING]),
        epoch=an_epoch(created_at=created),
        launch=a_launch() if random.random() < 0.7 else None,
        status=a_random_status(random) if some else None,
        exit=an_exit(random.choice([*Outcome])) if random.random() < 0.2 else None,
        death=a_death() if random.random() < 0.1 else None,
        silent_for=timedelta(seconds=random.choice([0, 5, 29, 30, 44, 45, 59, 60, 600, 9000])),
        cpu_in_silence=random.choice([None, 0.0, 0.1, 1_000.0]),
        flat_for=random.choice([None, timedelta(seconds=44), timedelta(seconds=45)]),
        findings=tuple(_a_finding(random) for _ in range(random.choice([0, 0, 1, 3]))),
    )


def _a_finding(random: Random) -> Finding:
    return Finding(
        rule="late",
        state=random.choice([*RuleState]),
        severity=random.choice([*Severity]),
        query="revenue",
        reason="It is late.",
    )

"""
The restart policy a second time, as plainly as possible: counts and lists of times kept on the
side.

The real one keeps nothing but its own decisions, read back from their records. Both live through
the same random history; what differs is returned in words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from airflow_streaming.model.arguments.policies import Budget, RestartPolicy
from airflow_streaming.model.records.restart_decision import Failure, RestartAction, RestartDecision
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.supervision.restart import decide_restart
from tests.unit.supervision.builders import NOW

MACHINES = {
    FailureKind.TRANSIENT,
    FailureKind.KILLED,
    FailureKind.OUT_OF_MEMORY,
    FailureKind.UNHEALTHY,
}
CODE = {FailureKind.USER_CODE, FailureKind.UNKNOWN, FailureKind.SCHEMA_CHANGED}
RESTARTED = {*MACHINES, *CODE, FailureKind.UNREACHABLE}
KINDS = sorted(set(FailureKind) - {FailureKind.POISON_BATCH})
OFTEN = [
    *(FailureKind.KILLED, FailureKind.TRANSIENT, FailureKind.USER_CODE, FailureKind.UNKNOWN),
    *[FailureKind.UNREACHABLE] * 3,
]


@dataclass
class Books:
    """What the plain model keeps on the side."""

    policy: RestartPolicy
    in_a_row: int = 0
    restarted: dict[bool, list[datetime]] = field(default_factory=lambda: {True: [], False: []})
    away_since: datetime | None = None
    batches: dict[tuple[str | None, int | None, str | None], int] = field(default_factory=dict)

    def expect(self, failure: Failure, now: datetime) -> tuple[bool, int]:
        """Return whether a restart is allowed, and which failure in a row it is."""
        healthy = (
            failure.progressed_for >= self.policy.reset_after
            and failure.batches >= self.policy.reset_batches
        )
        self.in_a_row = 1 if healthy else self.in_a_row + 1
        same = (failure.query, failure.batch_id, failure.signature)
        # Whatever became of it, the same failure of the same batch is one more of its kind.
        self.batches[same] = self.batches.get(same, 0) + 1
        since, self.away_since = self.away_since, None
        if failure.kind is FailureKind.UNREACHABLE:
            self.away_since = now if since is None or self.in_a_row == 1 else since
        if failure.kind not in RESTARTED or not failure.retryable:
            return False, self.in_a_row
        is_known = failure.kind in CODE and None not in same[1:]
        if is_known and self.batches[same] >= self.policy.poison_after:
            return False, self.in_a_row
        if failure.trial and not healthy:
            return False, self.in_a_row
        if self.away_since is not None:
            longest = self.policy.max_outage
            return longest is None or now - self.away_since < longest, self.in_a_row
        is_machine = failure.kind in MACHINES
        own = self.policy.budgets if is_machine else self.policy.application_budgets
        times = self.restarted[is_machine]
        if any(len([t for t in times if now - t < b.window]) >= b.restarts for b in own):
            return False, self.in_a_row
        times.append(now)
        return True, self.in_a_row


def a_policy(random: Random) -> RestartPolicy:
    return RestartPolicy(
        first_delay=random.choice([timedelta(0), timedelta(seconds=5)]),
        max_delay=random.choice([timedelta(seconds=5), timedelta(minutes=5)]),
        budgets=some_budgets(random),
        application_budgets=some_budgets(random),
        max_outage=random.choice([None, timedelta(minutes=1), timedelta(minutes=15)]),
        poison_after=random.randint(1, 4),
    )


def some_budgets(random: Random) -> tuple[Budget, ...]:
    windows = [timedelta(minutes=1), timedelta(minutes=10), timedelta(days=1)]
    return tuple(
        Budget(restarts=random.randint(0, 4), window=random.choice(windows))
        for _ in range(random.randint(0, 2))
    )


def a_failure(random: Random, epoch: int) -> Failure:
    healthy = random.random() < 0.2
    return Failure(
        epoch=epoch,
        reason="It failed.",
        kind=random.choice(OFTEN if random.random() < 0.9 else KINDS),
        signature=random.choice([None, "a", "b"]),
        query=random.choice(["revenue", "raw"]),
        batch_id=random.choice([None, 7, 8]),
        progressed_for=timedelta(hours=1) if healthy else timedelta(0),
        batches=100 if healthy else 3,
        retryable=random.random() > 0.02,
        trial=random.random() < 0.02,
    )


def disagreement_of_restarts(seed: int, length: int = 15) -> str | None:
    """Return in what the two differ over one random history; ``None`` when in nothing."""
    random = Random(seed)
    policy = a_policy(random)
    books, earlier, now = Books(policy), list[RestartDecision](), NOW
    for epoch in range(1, length + 1):
        now += timedelta(seconds=random.choice([0, 1, 30, 120, 900]))
        failure, chance = a_failure(random, epoch), random.random()
        made = decide_restart(failure, earlier=earlier, policy=policy, now=now, chance=chance)
        restarts, in_a_row = books.expect(failure, now)
        told = (made.action is RestartAction.RESTART, made.consecutive_failures)
        if told != (restarts, in_a_row):
            return f"seed {seed}, epoch {epoch}: {told}, the model {(restarts, in_a_row)}"
        if made.next_attempt_at is not None:
            wait = made.next_attempt_at - now
            if not timedelta(0) <= wait <= policy.bound(in_a_row):
                return f"seed {seed}, epoch {epoch}: waits {wait} of {policy.bound(in_a_row)}"
        # As it comes back from the home, after whoever decided has died.
        earlier.append(RestartDecision.from_bytes(made.to_bytes()))
    return None

"""Whether a rehearsal is due, and what it decides together with the gates."""

from __future__ import annotations

import pytest

from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.rehearsal_due import (
    Due,
    RehearseWhen,
    decision_after,
    rehearsal_due,
)

FINE, CONSEQUENCE, UNKNOWN, REFUSED = (
    GateDecision.ALLOWED,
    GateDecision.ALLOWED_WITH_CONSEQUENCE,
    GateDecision.UNKNOWN,
    GateDecision.NOT_ALLOWED,
)


@pytest.mark.parametrize(
    ("gates", "when_unknown", "always", "never"),
    [
        (FINE, Due.NO, Due.YES, Due.NO),
        (CONSEQUENCE, Due.NO, Due.YES, Due.NO),
        (UNKNOWN, Due.YES, Due.YES, Due.REFUSED),
        (REFUSED, Due.NO, Due.NO, Due.NO),
    ],
)
def test_a_rehearsal_is_due_by_wish_and_by_what_the_gates_do_not_know(
    gates: GateDecision, when_unknown: Due, always: Due, never: Due
) -> None:
    found = {when: rehearsal_due(when, gates) for when in RehearseWhen}
    assert found == {
        RehearseWhen.WHEN_UNKNOWN: when_unknown,
        RehearseWhen.ALWAYS: always,
        RehearseWhen.NEVER: never,
    }


@pytest.mark.parametrize(
    ("when", "due"),
    [
        (RehearseWhen.WHEN_UNKNOWN, Due.YES),
        (RehearseWhen.ALWAYS, Due.YES),
        (RehearseWhen.NEVER, Due.REFUSED),
    ],
)
def test_a_migration_is_rehearsed_or_refused(when: RehearseWhen, due: Due) -> None:
    assert rehearsal_due(when, CONSEQUENCE, is_migrated=True) is due
    assert rehearsal_due(when, REFUSED, is_migrated=True) is Due.NO


@pytest.mark.parametrize(
    ("gates", "rehearsal", "expected"),
    [
        (UNKNOWN, None, UNKNOWN),
        (UNKNOWN, FINE, FINE),
        (UNKNOWN, REFUSED, REFUSED),
        (FINE, UNKNOWN, UNKNOWN),
        (CONSEQUENCE, FINE, CONSEQUENCE),
        (FINE, REFUSED, REFUSED),
    ],
)
def test_a_rehearsal_settles_only_what_the_gates_do_not_know(
    gates: GateDecision, rehearsal: GateDecision | None, expected: GateDecision
) -> None:
    assert decision_after(gates, rehearsal) is expected

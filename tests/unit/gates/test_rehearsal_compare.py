"""What both versions over the same batches amount to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, worst
from airflow_streaming.gates.rehearsal import RULES
from airflow_streaming.gates.rehearsal_compare import (
    Bag,
    Compared,
    ComparedQuery,
    Kind,
    SideRun,
    compare_runs,
    findings_after,
    findings_of_migration,
)
from airflow_streaming.model.arguments.choices import Answer
from airflow_streaming.model.jobs.rehearsal import RehearsalEvent, Seen
from airflow_streaming.spark_jobs.rehearsal_compare import side_of

STATELESS, ENDLESS, ENDING = Kind(False), Kind(True), Kind(True, ends=True)
A, B = Bag(rows=3, digest="a"), Bag(rows=3, digest="b")


def ran(*batches: Bag, state: Bag | None = A, failure: str = "") -> SideRun:
    """A run over batches 7, 8, ..., with one store of state."""
    return SideRun(
        batches=dict(enumerate(batches, 7)),
        inputs={number: 9 for number, _ in enumerate(batches, 7)},
        state=None if state is None else {"operator 0": state},
        failure=failure,
    )


OLD = ran(A, A)
CASES = {
    "the same rows and state": (ENDLESS, OLD, ran(A, A), ran(A, A), Answer.SAME),
    "the same rows and state, no run from scratch": (ENDLESS, OLD, OLD, None, Answer.SAME),
    "other rows, as from scratch": (ENDLESS, OLD, ran(B, B), ran(B, B), Answer.NOT_REVISED),
    "other state, as from scratch": (
        ENDLESS,
        OLD,
        ran(A, A, state=B),
        ran(A, A, state=B),
        Answer.NOT_REVISED,
    ),
    "other rows without state": (
        STATELESS,
        replace(OLD, state={}),
        replace(ran(B, B), state={}),
        None,
        Answer.NOT_REVISED,
    ),
    "mixed at first": (ENDLESS, OLD, ran(A, B, state=B), ran(B, B, state=B), Answer.SETTLES),
    "mixed to the end, and the state is right": (
        ENDING,
        OLD,
        ran(A, A, state=B),
        ran(B, B, state=B),
        Answer.SETTLES,
    ),
    "state that never ends is another": (
        ENDLESS,
        OLD,
        ran(B, B, state=A),
        ran(B, B, state=B),
        Answer.WRONG_FOR_GOOD,
    ),
    "rows are right, and endless state is another": (
        ENDLESS,
        OLD,
        ran(A, A),
        ran(A, A, state=B),
        Answer.WRONG_FOR_GOOD,
    ),
    "state that ends is another": (ENDING, OLD, ran(A, B), ran(B, B, state=B), Answer.UNDECIDED),
    "other rows with state, no run from scratch": (
        ENDLESS,
        OLD,
        ran(A, B),
        None,
        Answer.UNDECIDED,
    ),
    "state that only the new version keeps": (
        STATELESS,
        replace(OLD, state={}),
        ran(A, B),
        None,
        Answer.UNDECIDED,
    ),
    "the state cannot be read": (
        ENDLESS,
        ran(A, A, state=None),
        ran(A, A, state=None),
        None,
        Answer.UNDECIDED,
    ),
    "the state from scratch cannot be read": (
        ENDING,
        OLD,
        OLD,
        ran(A, A, state=None),
        Answer.UNDECIDED,
    ),
    "the new version failed": (
        ENDLESS,
        OLD,
        replace(OLD, failure="It broke.", broke=True),
        None,
        Answer.FAILS,
    ),
    "the new version was cut off": (
        ENDLESS,
        OLD,
        replace(OLD, failure="It took too long."),
        None,
        Answer.UNDECIDED,
    ),
    "the old version failed": (
        ENDLESS,
        replace(OLD, failure="It broke.", broke=True),
        OLD,
        None,
        Answer.UNDECIDED,
    ),
    "both versions failed": (
        ENDLESS,
        replace(OLD, failure="It broke.", broke=True),
        replace(OLD, failure="It broke.", broke=True),
        None,
        Answer.UNDECIDED,
    ),
    "the run from scratch failed, and the rest is the same": (
        ENDLESS,
        OLD,
        OLD,
        ran(failure="Input is gone."),
        Answer.SAME,
    ),
    "the new script failed behind its query": (
        ENDLESS,
        OLD,
        replace(OLD, script_failure="It broke."),
        OLD,
        Answer.FAILS,
    ),
    "both scripts failed behind their query": (
        ENDLESS,
        replace(OLD, script_failure="It broke."),
        replace(OLD, script_failure="It broke."),
        OLD,
        Answer.UNDECIDED,
    ),
    "the old script failed behind its query": (
        ENDLESS,
        replace(OLD, script_failure="It broke."),
        OLD,
        OLD,
        Answer.SAME,
    ),
    "other batches": (ENDLESS, OLD, ran(A, A, A), None, Answer.UNDECIDED),
    "nothing was read": (
        ENDLESS,
        replace(OLD, inputs={7: 0}),
        replace(OLD, inputs={}),
        None,
        Answer.UNDECIDED,
    ),
    "no batch": (ENDLESS, ran(), ran(), None, Answer.UNDECIDED),
}


@pytest.mark.parametrize(
    ("kind", "old", "new", "fresh", "answer"), CASES.values(), ids=CASES.keys()
)
def test_what_two_versions_amount_to(
    kind: Kind, old: SideRun, new: SideRun, fresh: SideRun | None, answer: Answer
) -> None:
    found = compare_runs("counts", kind, old, new, fresh)

    assert found.answer is answer
    assert found.reason.endswith(".")
    assert found.not_seen


ROWS = RehearsalEvent(seen=Seen.ROWS, query="q", batch=7, rows=3, digest="a")
STARTED = RehearsalEvent(seen=Seen.STARTED, query="q")
FAILED = RehearsalEvent(seen=Seen.FAILED, query="q", text="The query broke.")
SCRIPT_FAILED = RehearsalEvent(seen=Seen.SCRIPT_FAILED, text="The script broke.")


@pytest.mark.parametrize(
    ("events", "late", "failure", "broke"),
    [
        pytest.param((ROWS,), "", "", False, id="it got through"),
        pytest.param((ROWS, FAILED), "", FAILED.text, True, id="the query failed"),
        pytest.param((FAILED, SCRIPT_FAILED), "", FAILED.text, True, id="and its script with it"),
        pytest.param((SCRIPT_FAILED,), "", SCRIPT_FAILED.text, True, id="before any query"),
        pytest.param((ROWS, SCRIPT_FAILED), "", "", False, id="after its query, or by another"),
        pytest.param((ROWS,), "It was ended.", "It was ended.", False, id="it was cut off"),
        pytest.param((), "", "It did not start the query.", False, id="it was not started"),
        pytest.param((STARTED,), "", "It ran no batch: so it is.", False, id="without input"),
    ],
)
def test_what_counts_as_a_failure_of_a_version(
    events: tuple[RehearsalEvent, ...], late: str, failure: str, broke: bool
) -> None:
    found = side_of(events, "q", failure=late, run_note="so it is.")

    assert (found.failure, found.broke) == (failure, broke)


@pytest.mark.parametrize(
    ("events", "failure"),
    [
        pytest.param((ROWS,), "", id="it went on"),
        pytest.param((ROWS, SCRIPT_FAILED), SCRIPT_FAILED.text, id="it failed"),
        pytest.param(
            (ROWS, replace(FAILED, query="other"), SCRIPT_FAILED), "", id="by another query"
        ),
    ],
)
def test_a_script_that_fails_behind_its_query_is_told_apart(
    events: tuple[RehearsalEvent, ...], failure: str
) -> None:
    assert side_of(events, "q").script_failure == failure


def test_the_old_version_is_named_where_it_ran_no_batch_for_the_new_one_to_run() -> None:
    idle, not_run = SideRun(failure="There was no input."), SideRun(failure="It was not run.")

    assert idle.failure in compare_runs("q", ENDLESS, idle, not_run).reason


def test_why_the_state_could_not_be_read_is_told() -> None:
    event = RehearsalEvent(seen=Seen.STATE_UNREAD, query="q", text="Its file is gone.")
    unread = side_of((ROWS, event), "q")

    found = compare_runs("q", ENDLESS, replace(OLD, batches=unread.batches), unread)

    assert found.answer is Answer.UNDECIDED
    assert event.text in found.reason


def test_the_batches_that_differ_are_named() -> None:
    found = compare_runs("q", ENDLESS, OLD, ran(A, B, state=B), ran(B, B, state=B))

    assert (found.batches, found.from_scratch) == ((7, 8), True)
    assert (found.other_than_old, found.other_than_fresh) == ((8,), (7,))


def test_why_there_was_no_run_from_scratch_is_told() -> None:
    why = "The first 40 plans of the checkpoint are gone."

    found = compare_runs("q", ENDLESS, OLD, OLD, no_fresh=why)

    assert any(why in one for one in found.not_seen)


def compared(*answers: Answer) -> Compared:
    queries = (
        ComparedQuery(query=f"q{number}", answer=answer, reason="So it is.")
        for number, answer in enumerate(answers)
    )
    return Compared(subject="a copy", queries=tuple(queries))


def test_every_answer_is_a_rule_of_a_rehearsal_and_the_record_travels() -> None:
    found = compared(*Answer)

    assert {finding.rule for finding in found.report.findings} <= RULES.keys()
    assert Compared.from_bytes(found.to_bytes()) == found


def gated(**severities: GateDecision) -> GateReport:
    return GateReport(
        findings=tuple(
            GateFinding(rule="plan.unexplained", severity=severity, message="It is.", query=query)
            for query, severity in severities.items()
        )
    )


YES, TOLD = GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE
UNKNOWN, NO = GateDecision.UNKNOWN, GateDecision.NOT_ALLOWED
TOGETHER = {
    "the same": (gated(q0=UNKNOWN), (Answer.SAME,), YES),
    "not revised": (gated(q0=UNKNOWN), (Answer.NOT_REVISED,), TOLD),
    "settles is no clean answer": (gated(q0=UNKNOWN), (Answer.SETTLES,), UNKNOWN),
    "undecided": (gated(q0=UNKNOWN), (Answer.UNDECIDED,), UNKNOWN),
    "wrong": (gated(q0=UNKNOWN), (Answer.WRONG_FOR_GOOD,), NO),
    "failed": (gated(q0=UNKNOWN), (Answer.FAILS,), NO),
    "wrong although the gates allow it": (gated(q0=YES), (Answer.WRONG_FOR_GOOD,), NO),
    "one of two was not compared": (gated(q0=UNKNOWN, q1=UNKNOWN), (Answer.SAME,), UNKNOWN),
    "the whole script is unknown": (gated(**{"": UNKNOWN}), (Answer.SAME,), UNKNOWN),
    "nothing was compared": (gated(q0=UNKNOWN), (), UNKNOWN),
}


@pytest.mark.parametrize(("gate", "answers", "decision"), TOGETHER.values(), ids=TOGETHER.keys())
def test_what_a_comparison_says_of_the_gates_unknown(
    gate: GateReport, answers: tuple[Answer, ...], decision: GateDecision
) -> None:
    found = findings_after(compared(*answers), gate)

    assert worst(finding.severity for finding in found) is decision
    assert {finding.rule for finding in found} <= RULES.keys()
    assert all(finding.remedy for finding in found if finding.rule != "rehearsal.not_compared")


def test_a_policy_may_accept_what_settles() -> None:
    accepted, gate = frozenset({Answer.SETTLES}), gated(q0=UNKNOWN)

    settles = findings_after(compared(Answer.SETTLES), gate, accepted)
    same = findings_after(compared(Answer.SAME), gate, accepted)

    assert [finding.severity for finding in (*settles, *same)] == [TOLD, UNKNOWN]


@pytest.mark.parametrize(
    ("answer", "without", "accepted"),
    [
        (Answer.SAME, GateDecision.ALLOWED, GateDecision.ALLOWED),
        (Answer.NOT_REVISED, TOLD, TOLD),
        (Answer.SETTLES, GateDecision.NOT_ALLOWED, TOLD),
        (Answer.WRONG_FOR_GOOD, GateDecision.NOT_ALLOWED, TOLD),
        (Answer.UNDECIDED, GateDecision.NOT_ALLOWED, TOLD),
        (Answer.FAILS, GateDecision.NOT_ALLOWED, GateDecision.NOT_ALLOWED),
    ],
)
def test_a_migration_needs_a_clean_comparison_or_a_user_who_accepts_it(
    answer: Answer, without: GateDecision, accepted: GateDecision
) -> None:
    for is_accepted, decision in ((False, without), (True, accepted)):
        (found,) = findings_of_migration(compared(answer), {"q0"}, is_accepted=is_accepted)
        assert found.severity is decision
        assert found.rule in RULES
    assert findings_of_migration(compared(answer), {"other"}, is_accepted=False) == ()

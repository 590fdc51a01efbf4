"""The report of an upgrade's preflight, for its approval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.changes.upgrade.preflight_report import Difference, Preflight
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.durations import duration_text, number_text
from airflow_streaming.model.records.deployment import Override
from airflow_streaming.model.records.upgrade import RollbackMethod
from airflow_streaming.reports.gate import BLOCKED, TONES, gate_report
from airflow_streaming.reports.report import (
    Block,
    Heading,
    Items,
    Paragraph,
    Report,
    Verdict,
    code,
    report_of,
    table,
    value,
)

_VERDICTS: Final = {
    GateDecision.ALLOWED: "No blocking findings.",
    GateDecision.ALLOWED_WITH_CONSEQUENCE: "Allowed, with consequences; read them below.",
    GateDecision.UNKNOWN: "Unknown: no rule forbids it and no measurement proves it. Run a rehearsal.",
    GateDecision.NOT_ALLOWED: BLOCKED,
}
_WAYS: Final = {
    RollbackMethod.REWIND: "The stream returns to the backup taken at the stop, and the sinks are rewound "
    "to match, as if the upgrade had not run.",
    RollbackMethod.RESUME: "The old deployment resumes where the new one ended; the new "
    "one's output stays.",
    RollbackMethod.NONE: "A rollback is not possible.",
}

_MIGRATED: Final = (
    "While the stream is down, Spark writes a migrated copy of the checkpoint and proves it. Without a clean proof the "
    "old deployment starts again on its checkpoint, which is only read."
)
_WARMED: Final = (
    "The new driver is started first and waits, warm and without writing anything, until the old one has "
    "stopped; until then both take their memory. If it does not come that far, it is started after the "
    "stop."
)


def upgrade_report(found: Preflight, soak: SoakTerms) -> Report:
    """Return a preflight: the decision, what changes, the findings, the rollback, the course."""
    return report_of(_blocks(found, soak))


def _blocks(found: Preflight, soak: SoakTerms) -> Iterator[Block]:
    yield Heading(("Upgrade of stream ", code(found.stream)), 2)
    yield Verdict(
        subject=f"Deployment {found.replaced} → {found.proposed.number}",
        word=found.decision.value.replace("_", " "),
        tone=TONES[found.decision],
        reason=_VERDICTS[found.decision],
    )
    yield from _changes(found)
    yield Heading("Findings of the gates")
    yield from gate_report(found.gates).blocks
    if found.decision is not GateDecision.NOT_ALLOWED:
        yield from _migrations(found)
        yield from _rollback(found)
        yield from _course(found, soak)
    if found.advice:
        yield Heading("Recent figures")
        yield Items(items=found.advice)


def _changes(found: Preflight) -> Iterator[Block]:
    yield Heading("What changes")
    yield changes_of(found.differences, "Nothing: the same deployment is started again.")
    yield from kept_blocks(found.kept)
    if found.sizes:
        yield table(
            ("size", "becomes", "source"),
            ((value(one.size), code(one.value), value(one.source)) for one in found.sizes),
        )


def changes_of(changed: Sequence[Difference], nothing: str) -> Block:
    """Return a table of what changes; the sentence when nothing does."""
    if not changed:
        return Paragraph(nothing)
    rows = ((code(one.what), code(one.old), code(one.new), value(one.origin)) for one in changed)
    return table(("what", "now", "after", "from"), rows)


def kept_blocks(kept: Sequence[Override]) -> Iterator[Block]:
    if not kept:
        return
    yield Paragraph("The DAG names other values than the live ones; the live ones stay.")
    rows = (
        (code(one.what), code(one.value or "not set"), code(one.dag or "not set")) for one in kept
    )
    yield table(("what", "live", "in the DAG"), rows)


def _rollback(found: Preflight) -> Iterator[Block]:
    plan = found.rollback
    yield Heading("Rollback")
    yield Paragraph((f"{_WAYS[plan.way]} ", plan.reason))
    if plan.replay:
        yield Paragraph(plan.replay)
    if plan.refused:
        yield Paragraph(plan.refused)


def _migrations(found: Preflight) -> Iterator[Block]:
    if not found.migrations:
        return
    yield Heading("Migration of the state")
    rows = (
        (value(one.query), str(operator), value(column.of or column.name), column.move.value)
        for one in found.migrations
        for operator, column in one.columns()
    )
    yield table(("query", "operator", "column", "becomes"), rows)
    yield Items(items=tuple(text for one in found.migrations for text in one.consequences))


def _course(found: Preflight, soak: SoakTerms) -> Iterator[Block]:
    yield Heading("After the approval")
    if found.migrations:
        yield Paragraph(_MIGRATED)
    if found.prewarm:
        yield Paragraph(_WARMED)
    on = "a migrated copy of the checkpoint" if found.migrations else "the same checkpoint"
    yield Paragraph(
        f"A verified backup, a stop at a batch boundary, the new deployment on {on}. The "
        f"soak lasts at least {duration_text(soak.at_least)} and at most {duration_text(soak.at_most)}: "
        f"every query must commit {soak.batches} batches, its backlog may not exceed "
        f"{number_text(soak.backlog_growth)} times the earlier backlog, and no new failure may occur. After a good soak the new "
        "deployment is kept and a rollback is no longer possible; otherwise it is rolled back."
    )

"""The report of a migrated checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_streaming.model.jobs.migration import Migrated
from airflow_streaming.reports.report import (
    Block,
    Paragraph,
    Report,
    Tone,
    Verdict,
    report_of,
    table,
    value,
)


def migrated_report(found: Migrated) -> Report:
    """Return the result of a migration: its proof, then its consequences."""
    return report_of(_blocks(found))


def _blocks(found: Migrated) -> Iterator[Block]:
    yield Verdict(
        subject="Migration",
        word="proved",
        tone=Tone.GOOD,
        reason=f"The copy continues after batch {found.batch}; rehearse the new code on it.",
    )
    yield Paragraph(("Migrated checkpoint: ", value(found.uri)))
    if found.proofs:
        rows = ((str(one.operator), _count(one.before), _count(one.after)) for one in found.proofs)
        yield table(("operator", "rows before", "rows after"), rows)
    yield from map(Paragraph, found.consequences)


def _count(rows: int | None) -> str:
    return "carried whole" if rows is None else str(rows)

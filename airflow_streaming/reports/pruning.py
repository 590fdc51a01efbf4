"""The report of a pruning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_streaming.model.durations import duration_text
from airflow_streaming.reports.report import (
    Block,
    Items,
    Paragraph,
    Report,
    byte_text,
    counted,
    report_of,
    table,
    value,
)

if TYPE_CHECKING:
    from airflow_streaming.changes.pruning.decide import Pruned


def pruning_report(done: Pruned, *, dry_run: bool) -> Report:
    """Return the removed items and, of the old items, the kept ones with the reason."""
    return report_of(_blocks(done, dry_run=dry_run))


def _blocks(done: Pruned, *, dry_run: bool) -> Iterator[Block]:
    period = duration_text(done.plan.period)
    if done.plan.blocked:
        yield Paragraph(f"Nothing was removed. {done.plan.blocked}")
        return
    if done.removed:
        yield table(
            ("what", "lane", "name", "files", "size", "why"),
            (
                (
                    *(one.what.value, value(one.lane), value(one.name), str(one.files)),
                    *(byte_text(one.size), one.reason),
                )
                for one in done.removed
            ),
        )
    if done.plan.spared:
        yield Items(
            items=tuple(
                value(f"{one.what} {one.name} of {one.lane} stays: {one.reason}")
                for one in done.plan.spared
            )
        )
    would = "would be removed" if dry_run else "removed"
    yield Paragraph(
        f"{counted(done.files, 'file')} ({byte_text(done.size)}) {would}. Kept for {period}."
    )
    if done.problems:
        yield Items(items=tuple(map(value, done.problems)))

"""The reports of backups: taken, listed, verified, restored, copied and retained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_streaming.checkpoints.backup.records import Backup, QueryBackup, Verification
from airflow_streaming.checkpoints.restore.replay import RestorePlan
from airflow_streaming.checkpoints.vault.backup_trust import BackupTrust, LastWord
from airflow_streaming.model.durations import duration_text
from airflow_streaming.reports.report import (
    Block,
    Heading,
    Items,
    Paragraph,
    Report,
    Tone,
    Verdict,
    Words,
    byte_text,
    counted,
    facts,
    report_of,
    table,
    value,
)
from airflow_streaming.reports.terminal import clock

if TYPE_CHECKING:
    # Types alone: what these modules do is not needed to show it.
    from airflow_streaming.changes.restore.stream_restore import Switched
    from airflow_streaming.checkpoints.restore.clone import Cloned
    from airflow_streaming.checkpoints.restore.restore import Restored
    from airflow_streaming.checkpoints.vault.retention import Retained
    from airflow_streaming.checkpoints.vault.store import Listed


def backup_report(taken: Backup) -> Report:
    """Return a finished backup."""
    seconds = (taken.finished_at - taken.begun_at) / timedelta(seconds=1)
    rows: list[tuple[Words, Words]] = [
        ("backup", value(taken.id)),
        ("files", f"{_amount(taken.files, taken.size)}, in {duration_text(seconds)}"),
        ("new in the store", _amount(taken.added_files, taken.added_size)),
    ]
    rows += [(_query(one), _pinned(one)) for one in taken.queries]
    return report_of([facts(rows)])


def _amount(files: int, size: int) -> str:
    return f"{counted(files, 'file')}, {byte_text(size)}"


def _query(query: QueryBackup) -> Words:
    return ("query ", value(query.folder)) if query.folder else "query"


def _pinned(query: QueryBackup) -> str:
    is_planned = query.planned > query.batch
    return f"up to batch {query.batch}" + (
        f", with the plan of batch {query.planned}" if is_planned else ""
    )


def trust_text(word: LastWord) -> str:
    """Return how far a backup was verified, and whether it failed."""
    if word.standing is BackupTrust.UNKNOWN:
        return "UNKNOWN"
    if word.level is None:
        return "not verified"
    return f"{word.level} FAILED" if word.standing is BackupTrust.DAMAGED else str(word.level)


def backups_report(
    found: Sequence[Listed],
    verified: Mapping[tuple[str, str], str],
    problems: Sequence[str] = (),
) -> Report:
    """
    Return one row for every backup of a store.

    :param verified: How far each one was verified, by stream and id.
    :param problems: Verifications that cannot be read, a sentence each.
    """
    if not found:
        return report_of([Paragraph("The store has no backups.")])
    titles = ("backup", "stream", "begun", "origin", "batches", "files", "size", "verified")
    rows = (_listed(one, verified[one.stream, one.id]) for one in found)
    listed = table(titles, rows, "files, size")
    return report_of([listed, *_problems(problems)])


def _problems(problems: Sequence[str]) -> Iterator[Block]:
    if problems:
        yield Heading("Problems")
        yield Items(items=tuple(problems))


def _listed(one: Listed, verified: str) -> tuple[Words, ...]:
    backup = one.backup
    if backup is None:
        return value(one.id), value(one.stream), *[""] * 5, value(f"DAMAGED: {one.problem}")
    batches = ", ".join(
        f"{query.folder}: {query.batch}" if query.folder else str(query.batch)
        for query in backup.queries
    )
    return (
        value(one.id),
        value(one.stream),
        clock(backup.begun_at),
        str(backup.origin),
        value(batches),
        f"{backup.files:,}",
        byte_text(backup.size),
        verified,
    )


def verification_report(found: Verification) -> Report:
    return report_of(_verification(found))


def _verification(found: Verification) -> Iterator[Block]:
    yield Verdict(
        subject=value(found.backup),
        word="holds" if found.holds else "does not hold",
        tone=Tone.GOOD if found.holds else Tone.BAD,
        reason=f"Verified on level {found.level}.",
    )
    if found.problems:
        yield Items(items=found.problems)
    if found.facts:
        yield facts((value(key), value(told)) for key, told in sorted(found.facts.items()))


def restore_plan_report(plan: RestorePlan) -> Report:
    """Return the effects of a restore."""
    return report_of(
        (
            Verdict(
                subject=value(plan.backup),
                word="would be refused" if plan.is_refused else "would be restored",
                tone=Tone.BAD if plan.is_refused else Tone.GOOD,
                reason=("To ", value(plan.target), f": {_amount(plan.files, plan.size)}."),
            ),
            *_consequences(plan),
        )
    )


def restored_report(done: Restored) -> Report:
    """Return a finished restore."""
    return report_of(
        (
            Verdict(
                subject=value(done.plan.backup),
                word="restored",
                tone=Tone.GOOD,
                reason=f"{_amount(done.files, done.size)}.",
            ),
            Items(items=tuple(value(uri) for uri in done.checkpoints.values())),
            *_consequences(done.plan),
        )
    )


def switched_report(done: Switched) -> Report:
    """Return the checkpoint that a stream continues from."""
    deployment = done.deployment
    return report_of(
        (
            Verdict(
                subject=value(deployment.stream),
                word=f"deployment {deployment.number}",
                tone=Tone.GOOD,
                reason=(
                    "Its next start continues from ",
                    value(deployment.checkpoint),
                    "; the checkpoint before it stays as it is.",
                ),
            ),
            *(_consequences(done.plan) if done.plan else ()),
        )
    )


def _consequences(plan: RestorePlan) -> Iterator[Block]:
    if sentences := plan.sentences():
        yield Items(items=sentences)


def copied_report(done: Cloned) -> Report:
    """Return the result of a clone or a carry-over."""
    return report_of(
        (
            Verdict(
                subject=value(done.uri),
                word="created",
                tone=Tone.GOOD,
                reason=f"{_amount(done.files, done.size)}.",
            ),
            facts((("continues after batch", str(done.batch)), ("query id", value(done.query_id)))),
        )
    )


def retention_report(done: Retained, *, dry_run: bool) -> Report:
    """Return which backups stay and which go."""
    return report_of(_retention(done, dry_run=dry_run))


def _retention(done: Retained, *, dry_run: bool) -> Iterator[Block]:
    would = "would be removed" if dry_run else "removed"
    if lines := done.plan.lines(done.held):
        yield Items(items=tuple(map(value, lines)))
    yield Paragraph(f"{counted(len(done.removed), 'backup')} {would}.")
    if not dry_run:
        yield Paragraph(
            f"{counted(done.deleted, 'object')} deleted ({byte_text(done.deleted_size)}); "
            f"{done.waiting:,} more are no longer needed and wait for a later run."
        )
    yield from _problems(done.problems)

"""What the verbs on backups print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_streaming.cli.checkpoint.report import size
from airflow_streaming.cli.table import NOTHING, clock, columns
from airflow_streaming.core.checkpoint.backup import Backup, Verification
from airflow_streaming.core.checkpoint.standing import LastWord, Standing
from airflow_streaming.core.codec import encode

if TYPE_CHECKING:
    # Each verb loads its own part, and prints what that returned.
    from airflow_streaming.checkpoint.clone import Cloned
    from airflow_streaming.checkpoint.restore import Restored
    from airflow_streaming.checkpoint.retention import Retained
    from airflow_streaming.checkpoint.store import Listed
    from airflow_streaming.checkpoint.switch import Switched
    from airflow_streaming.core.checkpoint.replay import RestorePlan


def taken(backup: Backup) -> list[str]:
    """Return what was backed up."""
    seconds = (backup.finished_at - backup.begun_at) / timedelta(seconds=1)
    return [
        backup.id,
        f"  {backup.files:,} files, {size(backup.size)}, in {seconds:.1f} s",
        f"  {backup.added_files:,} new files, {size(backup.added_size)} in the store",
        *(f"  {_pinned(one.folder, one.batch, one.planned)}" for one in backup.queries),
    ]


def _pinned(folder: str, batch: int, planned: int) -> str:
    again = f", with the plan of batch {planned}" if planned > batch else ""
    return f"{f'query {folder!r}' if folder else 'the query'} up to batch {batch}{again}"


def as_dict(backup: Backup) -> dict[str, Any]:
    """Return a backup in JSON form, without where its bytes lie."""
    shown: dict[str, Any] = encode(backup)
    del shown["bundles"]
    return shown


def standing(word: LastWord) -> str:
    """Return in a word how a backup stands: the level that held or failed and still counts."""
    if word.level is None:
        return "not verified"
    return f"{word.level} FAILED" if word.standing is Standing.DAMAGED else str(word.level)


def listed_as_dict(listed: Listed, standing: str) -> dict[str, Any]:
    """Return one backup of a list in JSON form."""
    told = {"backup_id": listed.id, "stream": listed.stream, "verified": standing}
    if listed.backup is None:
        return {**told, "problem": listed.problem}
    return {**told, **as_dict(listed.backup)}


def table(found: Sequence[Listed], levels: Mapping[tuple[str, str], str]) -> list[str]:
    """Return one line for every backup."""
    if not found:
        return ["There is no backup."]
    rows: list[tuple[str, ...]] = [
        ("backup", "stream", "begun", "origin", "batches", "files", "size", "verified")
    ]
    for one in found:
        level = levels[one.stream, one.id]
        if one.backup is None:
            rows.append((one.id, one.stream, *[NOTHING] * 5, f"DAMAGED: {one.problem}"))
            continue
        backup = one.backup
        batches = ", ".join(
            f"{query.folder}: {query.batch}" if query.folder else str(query.batch)
            for query in backup.queries
        )
        rows.append(
            (
                one.id,
                one.stream,
                clock(backup.begun_at),
                str(backup.origin),
                batches,
                f"{backup.files:,}",
                size(backup.size),
                level,
            )
        )
    return columns(rows)


def verified(found: Verification) -> list[str]:
    """Return what a verification found."""
    state = "holds" if found.holds else "DOES NOT HOLD"
    facts = [f"  {key}: {value}" for key, value in sorted(found.facts.items())]
    return [
        f"{found.backup} {state} ({found.level}).",
        *(f"  {problem}" for problem in found.problems),
        *facts,
    ]


def planned(plan: RestorePlan) -> list[str]:
    """Return what a restore would do."""
    word = "would be refused" if plan.is_refused else "would be restored"
    return [
        f"{plan.backup} {word} to {plan.target}: {plan.files:,} files, {size(plan.size)}.",
        *(f"  {sentence}" for sentence in plan.sentences()),
    ]


def restored(done: Restored) -> list[str]:
    """Return what was restored."""
    return [
        f"{done.plan.backup} is restored: {done.files:,} files, {size(done.size)}.",
        *(f"  {uri}" for uri in done.checkpoints.values()),
        *(f"  {sentence}" for sentence in done.plan.sentences()),
    ]


def switched(done: Switched) -> list[str]:
    """Return what a stream goes on from now."""
    said = done.plan.sentences() if done.plan else ()
    return [
        f"{done.deployment.stream} goes on from {done.deployment.checkpoint} with its next start.",
        f"  It is deployment {done.deployment.number}; the checkpoint before it stays as it is.",
        *(f"  {sentence}" for sentence in said),
    ]


def copied(done: Cloned) -> list[str]:
    """Return what a clone or a carry-over made."""
    return [
        f"{done.uri} is made: {done.files:,} files, {size(done.size)}.",
        f"  The query goes on after batch {done.batch}; its id is {done.query_id}.",
    ]


def retained(done: Retained, *, dry_run: bool) -> list[str]:
    """Return what stays and what goes."""
    would = "would be removed" if dry_run else "removed"
    lines = [*done.plan.lines(), f"{len(done.removed)} backups {would}."]
    if done.held:
        lines.append(f"In use just now, and left: {', '.join(done.held)}.")
    if not dry_run:
        lines.append(
            f"{done.deleted} objects deleted ({size(done.deleted_size)}); {done.waiting} more are "
            "needed by nobody and wait for a later run."
        )
    return [*lines, *done.problems]


def retained_as_dict(done: Retained) -> dict[str, Any]:
    """Return the same in JSON form."""
    shown: dict[str, Any] = encode(done)
    shown["plan"] = {
        "keep": [{"backup_id": k.backup.id, "reasons": k.reasons} for k in done.plan.keep],
        "remove": [backup.id for backup in done.plan.remove],
    }
    return shown

"""The query's id and the order of its two logs: gaps, plans ahead of commits, damage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.read.journal import COMMITS, OFFSETS, PARTITIONS, Journal
from airflow_streaming.checkpoints.read.report import Finding, FindingCode
from airflow_streaming.checkpoints.state.file_checks import edited
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.listing import Listing, Read
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES
from airflow_streaming.model.spark.tail import parse_query_id

RESTORE: Final = "Restore a verified backup into a new place."
_PADDED: Final = re.compile(r"\+?[0-9]{1,18}", re.ASCII)
_STRAGGLERS: Final = 3
"""Oldest batches that a purge may have left behind when it was cut off."""
_KEPT: Final = 5
"""Batches above such a hole; no purge comes nearer to the newest one."""

METADATA = "metadata"


def log_problems(journal: Journal) -> Iterator[Finding]:
    """Check the order of the logs."""
    yield from journal.findings
    yield from _missing_logs(journal)
    yield from _ahead(journal)
    yield from _repartition(journal)
    if not journal.is_async:
        for hole in _holes(journal.planned):
            if not _is_purge(hole, journal.planned):
                yield _offsets_gap(hole, journal)
        for hole in _holes(journal.committed):
            if not _is_purge(hole, journal.committed):
                yield _commits_gap(hole, journal)


def misnamed_batches(listing: Listing, journal: Journal) -> Iterator[Finding]:
    """Return the newest files of the logs whose names have more than the batch's number."""
    for log, batches in ((OFFSETS, journal.planned), (COMMITS, journal.committed)):
        newest = batches[-1] if batches else -1
        for name in sorted(listing.files(log)):
            if not _PADDED.fullmatch(name) or int(name) <= newest or name == str(int(name)):
                continue
            yield _finding(
                FindingCode.BATCH_MISNAMED,
                f"{log}/{name}",
                f"{log}/{name} is not how Spark writes batch {int(name)}, and it is the newest file "
                f"there. Spark takes the number of the name and fails on a restart: it looks for "
                f"{log}/{int(name)}, which does not exist. If the file is Spark's own, and was "
                f"renamed on a copy, name it {int(name)}, without a checksum file; else restore a "
                "verified backup into a new place.",
            )


def lost_logs(listing: Listing, journal: Journal, *, has_state: bool) -> Iterator[Finding]:
    """
    Say when both logs are gone although batches were run.

    :param has_state: There are state files, which no query writes before its first plan.
    """
    if journal.planned or journal.committed:
        return
    # The first entry of a source's log is written just before the first plan; a second is not.
    sources = (listing.files(f"sources/{name}") for name in listing.subfolders("sources"))
    if has_state or any(not name.startswith((".", "0")) for names in sources for name in names):
        yield _finding(
            FindingCode.OFFSETS_MISSING,
            OFFSETS,
            "There are neither plans nor commits, but batches were run: their state, or the log of "
            "a source, is there. Both logs have been lost. Spark begins with batch 0: it reads the "
            "sources from their beginning, on state that is not empty (from 4.1 it refuses: "
            f"STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY). {RESTORE}",
        )


def log_remarks(journal: Journal) -> Iterator[Finding]:
    """Return remarks on the logs."""
    if journal.is_async:
        yield _finding(
            FindingCode.ASYNC_PROGRESS,
            "",
            "The logs skip batches, as with asynchronous progress tracking "
            "(asyncProgressTrackingEnabled, or real-time mode). Spark continues from the newest "
            "plan and may repeat several batches. Missing files cannot be detected in such logs. "
            "Stop the query before its checkpoint is copied.",
        )
        return
    for log, batches in ((OFFSETS, journal.planned), (COMMITS, journal.committed)):
        code = FindingCode.OFFSETS_GAP if log == OFFSETS else FindingCode.COMMITS_GAP
        for hole in _holes(batches):
            if _is_purge(hole, batches):
                yield _finding(
                    code,
                    f"{log}/{hole[0]}",
                    f"{log} lacks {_numbers(hole)}, among its oldest. It looks like a purge that "
                    "was cut off; Spark does not read them and finishes the purge.",
                )
    if _is_of_spark_2_1(journal):
        yield _finding(
            FindingCode.COMMITS_MISSING,
            COMMITS,
            "There are no commits, and the plans have no pinned configuration, as with Spark "
            "2.1, which had no commit log. A newer Spark runs the newest batch again, so the "
            "sink receives it twice.",
        )


def _missing_logs(journal: Journal) -> Iterator[Finding]:
    if journal.committed and not journal.planned:
        yield _finding(
            FindingCode.OFFSETS_MISSING,
            OFFSETS,
            f"There are commits up to batch {journal.last_committed} and no plans at all. Spark "
            f"fails on a restart ('assertion failed'). {RESTORE}",
        )
    last = journal.last_planned
    if journal.committed or last is None or last == 0 or _is_of_spark_2_1(journal):
        return
    yield _finding(
        FindingCode.COMMITS_MISSING,
        COMMITS,
        f"There are plans up to batch {last} and no commits at all. Spark starts and runs batch "
        f"{last} again, so the sink sees it twice unless it knows batches by their number. {RESTORE} "
        "Or, if the sink has the batch, say so to its consumers before the query is started.",
    )


def _ahead(journal: Journal) -> Iterator[Finding]:
    planned, committed = journal.last_planned, journal.last_committed
    if planned is None or committed is None:
        return
    if committed > planned:
        yield _finding(
            FindingCode.COMMIT_WITHOUT_PLAN,
            f"{COMMITS}/{committed}",
            f"Batch {committed} is committed, but the newest plan is of batch {planned}. Spark "
            "hands one more batch to the sink and then dies of CONCURRENT_STREAM_LOG_UPDATE. "
            f"{RESTORE} The plan may also have been deleted by hand: put offsets/{committed} back.",
        )
    if planned - committed > 1 and not journal.is_async:
        lost = list(range(committed + 1, planned))
        yield _finding(
            FindingCode.BATCHES_SKIPPED,
            f"{OFFSETS}/{planned}",
            f"Batches up to {planned} are planned, but only those up to {committed} are committed. "
            f"Spark starts without an error, runs batch {planned} only, and {_numbers(lost)} never "
            "reach the sink: the rows in them are lost. Do not start the query on it. "
            f"{RESTORE} Without one, remove the plans after offsets/{committed + 1}, on a copy, and "
            "for a query with state every state file of a version after "
            f"{committed + 1}.",
        )


def _repartition(journal: Journal) -> Iterator[Finding]:
    planned, committed = journal.last_planned, journal.last_committed
    new, old = journal.newest_plan, journal.committed_plan
    if planned is None or committed is None or planned <= committed or not (new and old):
        return
    before, after = old.conf.get(PARTITIONS), new.conf.get(PARTITIONS)
    if before is None or after is None or before == after:
        return
    yield _finding(
        FindingCode.UNFINISHED_REPARTITION,
        f"{OFFSETS}/{planned}",
        f"Batch {planned} is planned with {after} state partitions and not committed; batch "
        f"{committed} had {before}. A repartition of the checkpoint did not finish. Spark 4.2 and "
        "newer refuse to start (STREAMING_UNFINISHED_REPARTITION_DETECTED); an older one would "
        "read partitions that are not there. Finish the repartition, or restore the backup from "
        f"before it; where the state store cannot be repartitioned, remove offsets/{planned}.",
    )


def _offsets_gap(hole: list[int], journal: Journal) -> Finding:
    newest = journal.planned[-1]
    if hole[-1] == newest - 1:
        then = f"Spark fails on a restart ('batch {newest - 1} doesn't exist'). {RESTORE}"
    else:
        then = (
            "Spark does not read them on a restart and starts, but the query cannot be rolled back "
            "to them, and Spark never leaves such a gap: a user or a program deletes files. Take "
            "a backup now and find out who."
        )
    return _finding(
        FindingCode.OFFSETS_GAP,
        f"{OFFSETS}/{hole[-1]}",
        f"The offset log lacks {_numbers(hole)} between those it has. {then}",
    )


def _commits_gap(hole: list[int], journal: Journal) -> Finding:
    return _finding(
        FindingCode.COMMITS_GAP,
        f"{COMMITS}/{hole[-1]}",
        f"The commit log lacks {_numbers(hole)} between those it has. Spark reads the newest "
        "commit only and starts, but the query cannot be rolled back to them, and Spark never "
        "leaves such a gap: a user or a program deletes files. Take a backup now and find out "
        "who.",
    )


def _holes(batches: tuple[int, ...]) -> Iterator[list[int]]:
    for earlier, later in pairwise(batches):
        if later - earlier > 1:
            # A single huge number must not make a list as long.
            first = max(earlier + 1, later - 1000)
            yield list(range(first, later))


def _is_purge(hole: list[int], batches: tuple[int, ...]) -> bool:
    left = sum(batch < hole[0] for batch in batches)
    return left <= _STRAGGLERS and len(batches) - left >= _KEPT


def _is_of_spark_2_1(journal: Journal) -> bool:
    plan = journal.newest_plan
    return not journal.committed and plan is not None and not plan.conf


def _numbers(batches: list[int]) -> str:
    if len(batches) == 1:
        return f"batch {batches[0]}"
    return f"batches {batches[0]} to {batches[-1]}"


def _finding(code: FindingCode, path: str, message: str) -> Finding:
    return Finding(code=code, path=path, message=message)


class Identity(NamedTuple):
    """
    What ``metadata`` says.

    :param query_id: Spark's id of the query; ``None`` when the checkpoint does not tell.
    :param findings: The file differs from the checksum beside it.
    """

    query_id: str | None
    findings: tuple[Finding, ...] = ()


def read_identity(listing: Listing, read: Read) -> Identity:
    """Return the query's id."""
    if listing.stat(METADATA) is None:
        return Identity(None)
    try:
        data = read(METADATA, MAX_LOG_BYTES)
    except RecordError:
        return Identity(None)
    query_id = parse_query_id(data) if data is not None else None
    if data is None or query_id is None:
        return Identity(None)
    return Identity(query_id, tuple(edited(listing, read, METADATA, data)))


def identity_problems(listing: Listing, identity: Identity, journal: Journal) -> Iterator[Finding]:
    """Check the query's id."""
    # Spark makes the folders of a new query before it writes the id.
    is_new = not journal.planned and not journal.committed and listing.stat(METADATA) is None
    yield from identity.findings
    if identity.query_id is not None or is_new:
        return
    if listing.stat(METADATA) is None:
        yield Finding(
            code=FindingCode.METADATA_MISSING,
            path=METADATA,
            message="The file with the query's id is missing. Spark 4.2 and newer refuse to start "
            "(STREAMING_CHECKPOINT_MISSING_METADATA_FILE); an older one gives the query a new id "
            f"silently. {RESTORE}",
        )
    else:
        yield Finding(
            code=FindingCode.METADATA_UNREADABLE,
            path=METADATA,
            message="The file with the query's id is empty or not what Spark writes: it has no id "
            f"that is a UUID. Spark fails to start. {RESTORE} Or write the id back if it is known, e.g. from a progress "
            'report: {"id":"..."}; delete .metadata.crc with it.',
        )

"""
Carry-over: a new checkpoint that holds only the positions of the sources.

Spark binds a checkpoint to the sources of its query by their number and order. When a stateless
query is rewritten, only its position is worth keeping: the plans and commits of the last two
batches, which Spark reads at a start, and the file sources' own logs. Batch numbers continue,
because sinks remember ids: a file sink drops a batch whose id it has, and so does a
``foreachBatch`` function that keeps ids. For the same reason a planned and uncommitted batch is
carried over with its plan: the sink may have it already, and a different batch of its number would
be dropped or duplicated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoints.backup.pinned_logs import Incomplete, everything
from airflow_streaming.checkpoints.read.file_logs import source_of
from airflow_streaming.checkpoints.read.report import Checkpoint, SourceType
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.model.spark.listing import Listing, Read
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES, parse_offset_log

NOT_STARTED = "-"
"""How Spark writes that a source has no offset yet."""
_ENTRY: Final = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryOver:
    """
    The content of a new checkpoint.

    :param batch: The newest committed batch, in the old checkpoint as in the new one.
    :param planned: ``batch + 1`` if its plan is carried over, else ``batch``.
    :param written: Content of small files by path.
    :param copied: Unchanged files, from the new path to the old one.
    """

    batch: int
    planned: int
    written: Mapping[str, bytes]
    copied: Mapping[str, str]


def plan_carry_over(
    checkpoint: Checkpoint,
    listing: Listing,
    read: Read,
    *,
    query_id: str,
    sources: Sequence[str | None] | None = None,
    stateless: bool = False,
) -> CarryOver | Incomplete:
    """
    Plan the content of the new checkpoint.

    :param listing: The files of one batch, see ``pinned_listing``.
    :param query_id: Id of the new query.
    :param sources: For each new source the name of the old one whose position it takes; ``None``
        for a source that starts from its beginning. Default: unchanged.
    :param stateless: A user vouches that the query has no state.
    :return: ``Incomplete`` for files that may have been purged since the walk.
    :raises CheckpointRefused: Not possible, with the reason and an alternative.
    """
    _check_stateless(checkpoint, stateless)
    unready = _unusable(checkpoint)
    if unready is not None:
        return unready
    batch = checkpoint.last_committed_batch
    if batch is None:
        raise CheckpointRefused(
            f"{checkpoint.uri} has no committed batch, so it has no position to carry over. Start "
            "the new query on an empty checkpoint."
        )
    kept = _chosen(checkpoint, sources)
    planned = batch if listing.stat(f"offsets/{batch + 1}") is None else batch + 1
    logs = _logs(listing, read, batch, planned)
    if isinstance(logs, Incomplete):
        return logs
    ends = dict(parse_offset_log(logs[f"offsets/{planned}"]).offsets)
    written = {"metadata": json.dumps({"id": query_id}).encode()}
    for path, data in logs.items():
        is_rewritten = sources is not None and path.startswith("offsets/")
        written[path] = _planned(data, kept) if is_rewritten else data
    return CarryOver(
        batch=batch,
        planned=planned,
        written=written,
        copied=dict(_source_logs(listing, kept, ends)),
    )


def _check_stateless(checkpoint: Checkpoint, vouched: bool) -> None:
    if checkpoint.is_stateful or (checkpoint.is_stateful is None and checkpoint.operators):
        raise CheckpointRefused(
            f"The query of {checkpoint.uri} has state, and its state belongs to batch "
            f"{checkpoint.last_committed_batch} of this very query: a new checkpoint without it "
            "would give wrong results. Begin instead with an empty checkpoint and let the sources "
            "start at an earlier offset (startingOffsets, or the files since then), early enough "
            "to build the state anew."
        )
    if checkpoint.is_stateful is None and not vouched:
        raise CheckpointRefused(
            f"{checkpoint.uri} does not tell whether its query has state. If you know that it has "
            "none (no aggregation, join, deduplication or stateful function), say so with "
            "stateless=True (on the command line --stateless)."
        )


def _unusable(checkpoint: Checkpoint) -> Incomplete | None:
    if checkpoint.async_progress:
        raise CheckpointRefused(
            f"{checkpoint.uri} uses asynchronous progress tracking, so its recorded position may "
            "be behind. Stop the query, run it once without it, and try again."
        )
    if checkpoint.problems:
        first = checkpoint.problems[0]
        return Incomplete(
            first.path,
            f"It is not sound, so its position cannot be relied on: {first.message} Restore it "
            "from a backup first.",
        )
    return None


def _chosen(checkpoint: Checkpoint, sources: Sequence[str | None] | None) -> dict[str, str | None]:
    known = [source.name for source in checkpoint.sources]
    if sources is None:
        return {name: name for name in known}
    wanted = [name for name in sources if name is not None]
    unknown = sorted(set(wanted) - set(known))
    if unknown or len(set(wanted)) != len(wanted) or not wanted:
        fault = f"has no source {unknown[0]!r}" if unknown else "is to give every source once"
        raise CheckpointRefused(
            f"{checkpoint.uri} {fault}; its sources are {', '.join(known) or 'unknown'}. Name at "
            "least one of them, each once, and None (on the command line: new) for each source that "
            "begins anew."
        )
    if checkpoint.offset_log_version != 1:
        raise CheckpointRefused(
            f"{checkpoint.uri} names its sources (offset log version "
            f"{checkpoint.offset_log_version}), so Spark itself can add and remove them. Carry it "
            "over without choosing sources."
        )
    return {str(number): name for number, name in enumerate(sources)}


def _logs(listing: Listing, read: Read, batch: int, planned: int) -> dict[str, bytes] | Incomplete:
    """
    Return the plans and commits to keep.

    Spark starts from its two newest plans and its newest commit. Other files of the batch before
    are copied if present.
    """
    needed = {f"offsets/{max(0, planned - 1)}", f"offsets/{planned}", f"commits/{batch}"}
    found = {}
    for number in range(max(0, batch - 1), planned + 1):
        for path in (f"offsets/{number}", f"commits/{number}"):
            if path in needed or listing.stat(path) is not None:
                data = read(path, MAX_LOG_BYTES)
                if data is not None:
                    found[path] = data
    lost = min(needed - found.keys(), default=None)
    if lost is None:
        return found
    return Incomplete(
        lost,
        f"{lost} is missing; Spark needs the last two plans and the last commit to continue. Back up "
        "the checkpoint, and look at it with 'inspect'.",
        is_moving=listing.stat(lost) is not None,
    )


def _planned(plan: bytes, kept: Mapping[str, str | None]) -> bytes:
    # Only the lines of the sources change: what else the plan says is Spark's, to the byte.
    offsets = dict(parse_offset_log(plan).offsets)
    head = plan.split(b"\n", 2)[:2]
    chosen = (
        NOT_STARTED if name is None else offsets.get(name, NOT_STARTED) for name in kept.values()
    )
    return b"\n".join([*head, *(offset.encode() for offset in chosen)])


def _source_logs(
    listing: Listing, kept: Mapping[str, str | None], ends: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for new, old in kept.items():
        if old is None:
            continue
        sort, offset = source_of(ends.get(old, NOT_STARTED))
        # An entry beyond the plan is of a batch that the new query plans itself.
        last = offset["logOffset"] if sort is SourceType.FILE else None
        for path in everything(listing, f"sources/{old}"):
            name = path.removeprefix(f"sources/{old}/")
            entry = _ENTRY.fullmatch(name)
            if last is None or entry is None or int(entry[1]) <= last:
                yield f"sources/{new}/{name}", path

"""
Whether a file sink is in step with the checkpoint that a query continues from.

Spark skips a batch that is in the sink's log: it writes neither its rows nor its state. And it
never repeats a committed batch, whether the sink has it or not. So a sink that is ahead drops new
rows, and a sink that
is behind has lost old rows. Restore, undo, the end of a restore by hand, and the
dry run all use ``out_of_step``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.restore.replay import OutOfStep, Refusal, RefusalCode

_WORDS: Final[Mapping[RefusalCode, str]] = {
    RefusalCode.SINK_SKIPS_STATE: (
        "{who} would continue after batch {batch} and its file sink has batches up to {last}. Spark "
        "does not execute a batch that the sink has, so the state of batches {first} to {last} would "
        "be missing and batch {next} would fail. Restore the stream with its sinks rewound (--stream NAME "
        "--rewind, rewind=True), or accept 'sink_skips_state' if the query is going to write to another "
        "output folder."
    ),
    RefusalCode.SINK_GAP: (
        "{who} would continue after batch {batch} and its file sink has written batches up to {last}: "
        "it would silently drop batches {first} to {last}, and with them every row that the new "
        "batches of these ids hold and the old ones did not. Restore the stream with its sinks "
        "rewound (--stream NAME --rewind, rewind=True), write to a new output folder, restore a newer backup, "
        "or accept 'sink_gap' if every batch has the same limits again (e.g. one file a batch)."
    ),
    RefusalCode.SINK_BEHIND: (
        "{who} would continue after batch {batch} and its file sink ends at batch {sink}: batches "
        "{first} to {last} are not in the output and would never be written again. {back} or restore a "
        "backup of batch {sink} or earlier, or accept 'sink_behind' if the query is going to write to "
        "another output folder."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedAside:
    """
    Batches that a restore took out of a sink.

    :param uri: The folder, with ``log`` and ``data``.
    """

    uri: str
    batches: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSnapshot:
    """
    The visible state of a file sink's log.

    :param log: URI of its ``_spark_metadata``.
    :param newest: Its newest batch by the names of its entries; -1 for an empty log, ``None`` if no
        log is visible.
    :param unseen: Why it cannot be seen, or its newest entry cannot be read; else empty.
    :param aside: Files that restores have moved out of it.
    """

    log: str
    newest: int | None = None
    unseen: str = ""
    aside: tuple[MovedAside, ...] = ()


def out_of_step(
    batch: int, planned: int, sink: int | None, *, is_stateful: bool, rewinds: bool = False
) -> OutOfStep | None:
    """
    Return how a file sink and a checkpoint do not fit; ``None`` if they fit or the sink is unknown.

    :param batch: The newest committed batch of the checkpoint, -1 without one; ``planned`` the
        newest planned one, which has its old limits when it is executed again.
    :param sink: The newest batch of the sink, -1 without one; ``None`` if unknown.
    :param rewinds: Output after ``batch`` will be moved aside.
    """
    if sink is None or sink == batch:
        return None
    if sink < batch:
        return OutOfStep(code=RefusalCode.SINK_BEHIND, first=sink + 1, last=batch)
    if rewinds:
        return None
    # Spark writes state only while it executes a batch, and FileStreamSink.addBatch returns at once
    # for a batch in its log. Measured on 4.3: CANNOT_READ_DELTA_FILE_NOT_EXISTS in the batch after.
    if is_stateful:
        return OutOfStep(code=RefusalCode.SINK_SKIPS_STATE, first=batch + 1, last=sink)
    if sink > planned:
        return OutOfStep(code=RefusalCode.SINK_GAP, first=planned + 1, last=sink)
    return None


def step_of(report: Checkpoint, sink: int | None, *, rewinds: bool = False) -> OutOfStep | None:
    """Return the mismatch of a checkpoint report and a sink."""
    batch = -1 if report.last_committed_batch is None else report.last_committed_batch
    planned = batch if report.last_planned_batch is None else report.last_planned_batch
    return out_of_step(
        batch,
        max(batch, planned),
        sink,
        is_stateful=bool(report.is_stateful or report.operators),
        rewinds=rewinds,
    )


def refusal_of(
    query: str, batch: int, found: OutOfStep, aside: tuple[MovedAside, ...] = ()
) -> Refusal:
    """
    Return the refusal of a sink that is out of step, with the next step.

    :param batch: The newest committed batch of the checkpoint.
    """
    who = f"Query {query!r}" if query else "The query"
    message = _WORDS[found.code].format(
        who=who,
        batch=batch,
        first=found.first,
        last=found.last,
        next=found.last + 1,
        sink=found.first - 1,
        back=_put_back(found, aside),
    )
    return Refusal(code=found.code, message=message, query=query)


def unseen_refusal(query: str, seen: SinkSnapshot) -> Refusal:
    """Return the refusal of a sink whose log cannot be seen."""
    who = f"query {query!r}" if query else "the query"
    return Refusal(
        code=RefusalCode.SINK_UNSEEN,
        message=f"The log of the file sink of {who} cannot be seen: {seen.unseen} So it is "
        "unknown whether it fits the checkpoint. Mount the output, correct its place or put back the "
        "entry that cannot be read, or accept "
        "'sink_unseen' if the query is going to write to a new output folder.",
        query=query,
    )


def _put_back(found: OutOfStep, aside: tuple[MovedAside, ...]) -> str:
    missing = set(range(found.first, found.last + 1))
    places = [one.uri for one in aside if one.batches & missing]
    if not places:
        return "Put the sink's files and the entries of its log back,"
    return (
        f"Put them back from {' and '.join(places)} (the files in data to the output, then the "
        "files in log to _spark_metadata),"
    )

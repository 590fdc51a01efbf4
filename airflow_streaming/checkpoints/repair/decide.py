"""
Whether a file sink has one batch more than its checkpoint, and may be put back; pure.

A driver that dies between the sink's write and the commit leaves such a sink. At the next start Spark
executes the planned batch again, and the file sink returns at once, for it has the batch. With state
checkpoint format 2 no task then reports the ids of the new state, and every start fails.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPosition:
    """
    Positions of the checkpoint and the file sink of one query before a launch.

    :param planned: Newest batch of the offset log; -1 for none. ``committed`` of the commit log likewise.
    :param sink: Newest batch of the sink's log, -1 for an empty or missing log; ``None`` when it cannot
        be seen.
    :param has_state_ids: The query has state in checkpoint format 2.
    :param unseen: Why the sink cannot be seen.
    :param lost: The entry that the sink's log lacks below its newest batch; empty when it is whole.
    :param writers: Other queries that write to the sink's folder, and so to its log.
    """

    query: str
    planned: int
    committed: int
    sink: int | None
    has_state_ids: bool
    unseen: str = ""
    lost: str = ""
    writers: tuple[str, ...] = ()

    @property
    def has_open_batch(self) -> bool:
        """Tell whether exactly one batch is planned and not committed."""
        return self.planned == self.committed + 1


class RepairCode(StrEnum):
    """Act of a launch on one sink."""

    NOTHING = "nothing"
    """The sink is in step, or Spark recovers without help."""
    PUT_BACK = "put_back"
    """The sink's newest batch is moved aside."""
    UNSEEN = "unseen"
    """Refused: the sink cannot be seen from here."""
    SHARED = "shared"
    """Refused: another query writes to the same folder, so the batch may be its own."""
    NOT_ONE_BATCH = "not_one_batch"
    """Refused: the sink is ahead by more than the planned batch, or behind."""
    LOG_INCOMPLETE = "log_incomplete"
    """Refused: without its newest entry the sink's log would not be whole."""
    BY_HAND = "by_hand"
    """Refused: the stream's sinks are repaired by hand."""
    UNDONE = "undone"
    """Refused: a user has put this very batch back."""


_REASONS: Final = {
    RepairCode.PUT_BACK: (
        "The file sink of query {query!r} has batch {batch}, and its checkpoint has committed {committed}: "
        "Spark would skip the batch and fail without its state."
    ),
    RepairCode.UNSEEN: (
        "Batch {batch} of query {query!r} is planned and not committed, and its file sink cannot be seen "
        "from this host: {unseen} If the driver fails with 'CheckpointInfo length: 0', make the sink "
        "reachable here and start the stream again."
    ),
    RepairCode.SHARED: (
        "Batch {batch} of query {query!r} is planned and not committed, and its file sink has "
        "batch {sink}. The folder is also used by {writers}, with one log for all, so no launch "
        "moves the batch. Give each query an output folder of its own."
    ),
    RepairCode.NOT_ONE_BATCH: (
        "The file sink of query {query!r} has batch {sink}, and its checkpoint has committed {committed} "
        "and planned {batch}. A launch repairs a sink that has exactly the planned batch. Restore the "
        "stream with its sinks rewound (checkpoint restore --rewind)."
    ),
    RepairCode.LOG_INCOMPLETE: (
        "The file sink of query {query!r} has batch {batch}, its checkpoint has committed {committed}, and "
        "the sink's log lacks entry {lost}: without its newest entry no reader would find the older "
        "batches. Restore the stream with its sinks rewound (checkpoint restore --rewind)."
    ),
    RepairCode.BY_HAND: (
        "The file sink of query {query!r} has batch {batch}, and its checkpoint has committed {committed}: "
        "Spark will skip the batch and fail without its state. repair_sinks is off for this stream, so the "
        "launch leaves the sink as it is. Stop the stream, then: {by_hand}"
    ),
    RepairCode.UNDONE: (
        "The file sink of query {query!r} has batch {batch}, which a user has put back after a repair, and "
        "its checkpoint has committed {committed}. No launch moves it out again. Restore the stream with "
        "its sinks rewound (checkpoint restore --rewind)."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairDecision:
    """
    The decision about one sink.

    :param batch: The planned batch.
    :param reason: Positions seen and the next step, for the timeline; empty for ``NOTHING``.
    """

    code: RepairCode
    batch: int = -1
    reason: str = ""

    @property
    def is_refused(self) -> bool:
        """Tell whether the sink may need a repair that a launch does not make."""
        return self.code not in (RepairCode.NOTHING, RepairCode.PUT_BACK)


NOTHING: Final = RepairDecision(code=RepairCode.NOTHING)


def decide_repair(
    seen: SinkPosition, undone: Collection[int] = (), *, by_hand: str = ""
) -> RepairDecision:
    """
    Decide about one sink.

    :param undone: Batches that a user has put back into it.
    :param by_hand: Command of a repair by hand, where a launch makes none; empty where it does.
    """
    if not seen.has_state_ids or not seen.has_open_batch or seen.sink == seen.committed:
        return NOTHING
    code = _code(seen, undone)
    if code is RepairCode.PUT_BACK and by_hand:
        code = RepairCode.BY_HAND
    reason = _REASONS[code].format(
        query=seen.query,
        batch=seen.planned,
        committed=seen.committed,
        sink=seen.sink,
        unseen=seen.unseen,
        lost=seen.lost,
        by_hand=by_hand,
        writers=" and ".join(seen.writers),
    )
    return RepairDecision(code=code, batch=seen.planned, reason=reason)


def _code(seen: SinkPosition, undone: Collection[int]) -> RepairCode:
    if seen.sink is None:
        return RepairCode.UNSEEN
    if seen.writers:
        return RepairCode.SHARED
    if seen.sink != seen.planned:
        return RepairCode.NOT_ONE_BATCH
    if seen.planned in undone:
        return RepairCode.UNDONE
    return RepairCode.LOG_INCOMPLETE if seen.lost else RepairCode.PUT_BACK

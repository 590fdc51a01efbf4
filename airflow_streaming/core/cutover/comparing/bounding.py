"""
Bounding a comparison: until when both lanes have written, told by the batches that they committed.

A batch writes what its own watermark lets out. The watermark that it hands to the next one, which a
checkpoint shows too, is already later, and what lies between the two is not written yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from airflow_streaming.core.cutover.comparing.report import Bound
from airflow_streaming.core.progress import BatchProgress


def bound_of(
    blue: Sequence[BatchProgress],
    green: Sequence[BatchProgress],
    *,
    since: datetime | None = None,
    from_beginning: bool = False,
) -> Bound:
    """
    Return the bound of a comparison that is made after these batches were read.

    :param blue: Progress of blue's batches since green began, over all queries, oldest first.
    :param green: The same of green.
    :param since: From when on both outputs are complete, where that is known.
    :param from_beginning: Green was started fresh, from the beginning of its sources.
    """
    return Bound(
        blue=written_until(blue),
        green=written_until(green),
        since=since,
        from_beginning=from_beginning and since is None,
        late_rows=sum(batch.dropped_rows or 0 for batch in (*blue, *green)),
    )


def written_until(batches: Sequence[BatchProgress]) -> datetime | None:
    """Return the watermark up to which all queries have written; ``None`` where none has one."""
    newest = {batch.query: batch for batch in batches}
    return min(_watermarks(list(newest.values())), default=None)


def _watermarks(batches: Sequence[BatchProgress]) -> Iterator[datetime]:
    for batch in batches:
        try:
            found = datetime.fromisoformat(batch.watermark or "")
        except ValueError:
            continue
        moment = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        # Until its first rows have moved it, a watermark is at the beginning of time.
        if moment.timestamp() > 0:
            yield moment

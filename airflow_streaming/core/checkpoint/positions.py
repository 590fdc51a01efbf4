"""Where each source of a query stands, by the newest plan and the newest commit."""

from __future__ import annotations

from airflow_streaming.core.checkpoint.journal import Journal
from airflow_streaming.core.checkpoint.report import SourcePosition, SourceType
from airflow_streaming.core.checkpoint.sources import source_of


def positions(journal: Journal) -> tuple[SourcePosition, ...]:
    """Return the position of each source, in plan order."""
    plan, committed = journal.newest_plan, journal.committed_plan
    before = dict(committed.offsets) if committed else {}
    found = []
    for name, text in plan.offsets if plan else ():
        source, offset = source_of(text)
        was, position = source_of(before[name]) if name in before else (source, None)
        # Before its first offset a source is of the sort that it turns out to be.
        sort = was if source is SourceType.NOT_STARTED else source
        found.append(SourcePosition(name=name, source=sort, offset=offset, committed=position))
    return tuple(found)

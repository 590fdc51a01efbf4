"""The backlog of a stream counts each source once, however many queries read it."""

from __future__ import annotations

import pytest

from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.services.stream_figures import backlog_of_sources
from tests.unit.supervision.builders import a_batch


def reading(query: str, **files: float | None) -> BatchProgress:
    sources = [SourceProgress(source=name, backlog_files=left) for name, left in files.items()]
    return a_batch(query=query, sources=tuple(sources))


@pytest.mark.parametrize(
    ("rows", "files"),
    [
        ([reading("a", orders=7.0), reading("b", orders=7.0)], 7.0),
        ([reading("a", orders=2.0), reading("b", orders=7.0)], 7.0),
        ([reading("a", orders=7.0), reading("b", refunds=2.0)], 9.0),
        ([reading("a", orders=7.0, refunds=1.0), reading("b", orders=3.0)], 8.0),
        ([reading("a", orders=None), reading("b", orders=3.0)], 3.0),
        ([reading("a", orders=0.0)], 0.0),
        ([reading("a", orders=None)], None),
        ([], None),
    ],
)
def test_a_source_that_several_queries_read_counts_once(
    rows: list[BatchProgress], files: float | None
) -> None:
    assert backlog_of_sources(rows) == {"records": None, "bytes": None, "files": files}

"""The backlog of a stream counts each source once, however many queries read it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.services.stream_figures import backlog_of_sources, figures_of
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


def a_status(word: str, *latest: BatchProgress | None) -> Any:
    queries = [SimpleNamespace(progress=progress) for progress in latest]
    seen = SimpleNamespace(status=SimpleNamespace(queries=queries))
    return SimpleNamespace(seen=seen, standing=SimpleNamespace(word=word))


def test_figures_are_of_all_queries_that_report_them() -> None:
    one = a_batch(
        input_rows_per_second=3.0, processed_rows_per_second=5.0, duration_ms=7, state_rows=2
    )
    two = replace(one, processed_rows_per_second=None, duration_ms=9, watermark_delay_s=4.0)

    found = figures_of(a_status("healthy", one, None, two))

    assert (found.input_rate, found.processing_rate, found.batch_ms) == (6.0, 5.0, 9)
    assert (found.state_rows, found.watermark_delay_s) == (4, 4.0)


@pytest.mark.parametrize(
    ("word", "rates"), [("idle", (0.0, None, None)), ("gave_up", (None, None, None))]
)
def test_a_stream_without_work_has_no_rates(
    word: str, rates: tuple[float | None, float | None, float | None]
) -> None:
    found = figures_of(a_status(word, a_batch(input_rows_per_second=3.0, state_rows=2)))

    assert (found.input_rate, found.processing_rate, found.batch_ms) == rates
    assert found.state_rows == 2


def test_a_sum_beyond_the_largest_number_is_unknown() -> None:
    most = a_batch(input_rows_per_second=1.7e308)

    assert figures_of(a_status("healthy", most, most)).input_rate is None

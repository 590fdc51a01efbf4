"""Sizing of a stream of a home: what its recent batches say about cores and partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from airflow_streaming.advice.sizing import Size, SizeAdvice, SizeSource, advise, advised_executors
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.autoscale import EXECUTORS
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.spark.conf import configured_cores

BATCHES: Final = 200
"""Number of batches to read, over all queries of the newest driver."""
_PARTITIONS: Final = "spark.sql.shuffle.partitions"


def stream_advice(home: StreamHome, *, cores: int | None = None) -> tuple[SizeAdvice, ...]:
    """
    Return the advice for a stream, gravest first; none when it never ran.

    :param cores: Cores over all executors, where the deployment's configuration does not fix them.
    """
    figures = _figures(home, cores)
    return () if figures is None else advise(figures.recent, figures.size)


def stream_executors(home: StreamHome) -> SizeSource:
    """
    Return the advised number of executors of a stream.

    :raises SpecError: no advice exists, with the reason.
    """
    figures = _figures(home, None)
    if figures is None:
        raise SpecError("No advice on the size: the stream has never run.")
    return advised_executors(figures.recent, figures.size, figures.conf)


class _Figures(NamedTuple):
    """Batches of the newest driver with input, and its size and conf."""

    recent: dict[str, list[BatchProgress]]
    size: Size
    conf: Mapping[str, str]


def _figures(home: StreamHome, cores: int | None) -> _Figures | None:
    epoch = home.newest_epoch()
    if epoch is None:
        return None
    conf = home.deployment(epoch.deployment).conf
    status = home.status(epoch.number)
    resized = None if status is None or status.size is None else status.size.executors
    executors = epoch.executors if resized is None else resized
    if executors is not None:
        conf = {**conf, EXECUTORS: str(executors)}
    queries = status.queries if status else ()
    partitions = conf.get(_PARTITIONS, "")
    is_stateful = {q.name for q in queries if q.progress and q.progress.state_rows is not None}
    size = Size(
        cores=cores or configured_cores(conf),
        state_partitions=dict.fromkeys(is_stateful, int(partitions))
        if partitions.isdecimal()
        else None,
        intervals_s={q.name: q.processing_interval_s for q in queries if q.processing_interval_s},
    )
    # In real-time mode every batch takes its interval, so its duration says nothing of the size.
    real_time = {query.name for query in queries if query.is_real_time}
    batches = home.read_progress(epoch.number, BATCHES)
    measured = [batch for batch in batches if batch.query not in real_time]
    return _Figures(_with_input(measured), size, conf)


def _with_input(batches: list[BatchProgress]) -> dict[str, list[BatchProgress]]:
    found: dict[str, list[BatchProgress]] = defaultdict(list)
    for batch in batches:
        if batch.input_rows:
            found[batch.query].append(batch)
    return found

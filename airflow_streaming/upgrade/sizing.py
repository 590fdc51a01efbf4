"""Sizing of a stream of a home: what its recent batches say about cores and partitions."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from airflow_streaming.core.conf import configured_cores
from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.core.upgrade.sizing import Size, SizeAdvice, advise
from airflow_streaming.home.home import StreamHome

BATCHES: Final = 200
"""Batches that are looked at, over all queries of the newest driver."""

_PARTITIONS: Final = "spark.sql.shuffle.partitions"


def stream_advice(home: StreamHome, *, cores: int | None = None) -> tuple[SizeAdvice, ...]:
    """
    Return the advice for a stream, gravest first; none when it never ran.

    :param cores: Cores over all executors, where the deployment's configuration does not fix them.
    :raises HomeUnavailable: the home cannot be read.
    """
    epoch = home.newest_epoch()
    if epoch is None:
        return ()
    conf = home.deployment(epoch.deployment).conf
    status = home.status(epoch.number)
    queries = status.queries if status else ()
    recent = _with_input(home.read_progress(epoch.number, BATCHES))
    partitions = conf.get(_PARTITIONS, "")
    is_stateful = {q.name for q in queries if q.progress and q.progress.state_rows is not None}
    size = Size(
        cores=cores or configured_cores(conf),
        state_partitions=dict.fromkeys(is_stateful, int(partitions))
        if partitions.isdecimal()
        else None,
        intervals_s={q.name: q.processing_interval_s for q in queries if q.processing_interval_s},
    )
    return advise(recent, size)


def _with_input(batches: list[BatchProgress]) -> dict[str, list[BatchProgress]]:
    found: dict[str, list[BatchProgress]] = defaultdict(list)
    for batch in batches:
        if batch.input_rows:
            found[batch.query].append(batch)
    return found

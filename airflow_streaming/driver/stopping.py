"""
Stopping queries at a batch boundary, within a bounded time.

A query with a ``foreachBatch`` function is stopped when no batch is in work; the gate turns the
next one away, so it comes to rest by itself. Any other sink takes a cut batch again exactly (same
offsets, same batch id), so after a short wait for a quiet moment the query is stopped as it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from airflow_streaming.driver.faults import Faults
from airflow_streaming.driver.tracked import TrackedQuery

BOUNDARY_WAIT: Final = 5.0
"""Seconds a query without a gate may take to come to a quiet moment."""

_LOOK_EVERY: Final = 0.1


def may_stop(*, gated: bool, processing: bool, waited: float) -> bool:
    """Tell whether a query may be stopped now."""
    if not processing:
        return True
    return not gated and waited >= BOUNDARY_WAIT


def stop_queries(
    queries: Callable[[], Sequence[TrackedQuery]],
    *,
    until: float,
    clock: Callable[[], float],
    pause: Callable[[float], object],
) -> list[str]:
    """
    Stop all queries and return the names of those that have not stopped in time.

    :param queries: Returns the queries; a script may have started one more in the meantime.
    :param until: Time of ``clock`` at which to give up.
    """
    begun, asked = clock(), set[str]()
    faults = Faults()
    while pending := [q for q in queries() if _is_active(q, faults)]:
        if clock() >= until:
            return [q.name for q in pending]
        for query in pending:
            if query.run_id not in asked and _may_stop(query, clock() - begun, faults):
                asked.add(query.run_id)
                _stop_aside(query)
        pause(_LOOK_EVERY)
    return []


def _is_active(query: TrackedQuery, faults: Faults) -> bool:
    with faults.contained(f"Asking query {query.name!r} whether it runs"):
        return query.query.is_active()
    return query.active


def _may_stop(query: TrackedQuery, waited: float, faults: Faults) -> bool:
    with faults.contained(f"Asking query {query.name!r} what it does"):
        processing = bool(query.query.status().get("isTriggerActive"))
        return may_stop(gated=query.gated, processing=processing, waited=waited)
    return False


def _stop_aside(query: TrackedQuery) -> None:
    # stop() waits for the query's thread, however long that takes; the others must not.
    def stop() -> None:
        with Faults().contained(f"Stopping query {query.name!r}"):
            query.query.stop()

    threading.Thread(target=stop, name=f"airflow-streaming-stop-{query.name}", daemon=True).start()

"""
Patience: who waits for any query to end does not wait for batches that are absorbed.

Each of those is a query of its own to Spark, and ends. A script that waits in another thread than
the one in which it starts its queries would take it for the end of one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_streaming.driver.patching import patch_method
from airflow_streaming.driver.standby.barrier import StandbyBarrier


def install_patience(barrier: StandbyBarrier) -> None:
    """Patch pyspark: while queries are held back, nobody is told that one has ended."""
    from pyspark.sql.streaming.query import StreamingQueryManager

    make_patient(StreamingQueryManager, barrier)


def make_patient(manager: type, barrier: StandbyBarrier) -> None:
    """Patch the class that awaits the end of any query."""

    def await_any(original: Any, manager: Any, given: Mapping[str, Any]) -> Any:
        barrier.await_release()
        return original(manager, **given)

    patch_method(manager, "awaitAnyTermination", await_any)

"""
A process that beats as a driver does, and nothing else; one of many for ``benchmarks.detection``.

``SIGUSR1`` lets its query stand still in a batch while the heartbeat continues.
"""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow_streaming.model.names import Layout
from airflow_streaming.model.status import Status
from airflow_streaming.model.storage import LocalStore
from benchmarks.many_streams import stream_name

BEAT_SECONDS: Final = 2.0


def main(home: Path, number: int) -> None:
    """Beat until the end; the token on the command line identifies the process."""
    stalled_at: list[float] = []
    signal.signal(signal.SIGUSR1, lambda *_: stalled_at.append(time.monotonic()))
    store, path = LocalStore(str(home)), Layout(stream_name(number)).epoch(1, "status.json")
    while (data := store.read(path)) is None:
        time.sleep(0.1)
    status = Status.from_bytes(data)
    for beat in range(2, sys.maxsize):
        still = time.monotonic() - stalled_at[0] if stalled_at else None
        store.replace(path, told(status, beat, still).to_bytes())
        time.sleep(BEAT_SECONDS)


def told(status: Status, beat: int, still: float | None) -> Status:
    """Return the status of one beat; ``still`` is how long the query has stood still."""
    if still is None:
        return replace(status, beat=beat)
    queries = tuple(
        replace(query, processing=True, batch_for_s=still, quiet_for_s=still)
        for query in status.queries
    )
    return replace(status, beat=beat, queries=queries)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

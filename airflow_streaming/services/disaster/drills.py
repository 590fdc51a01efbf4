"""The disaster drills of a home of their own: a record each, and a record for each stream of it."""

from __future__ import annotations

from airflow_streaming.home.folder import StreamFolder
from airflow_streaming.model.jobs.recovery import DisasterDrill, StreamRecovery
from airflow_streaming.model.names import FLEET, FleetLayout
from airflow_streaming.model.storage import Store
from airflow_streaming.storage.one_look import look_at_each


class Drills(StreamFolder):
    """
    Read and record disaster drills.

    :param store: The store of the drill's home, never of the live one.
    """

    def __init__(self, store: Store) -> None:
        self.store, self.name, self._layout = store, FLEET, FleetLayout()

    def newest(self) -> DisasterDrill | None:
        return self._newest(DisasterDrill)

    def begin(self, drill: DisasterDrill) -> bool:
        """Record a drill; tell whether its number was free."""
        return self._create(drill)

    def recoveries(self, drill: DisasterDrill) -> dict[str, StreamRecovery]:
        """Return the recoveries that are recorded, by stream, in the order of the drill."""
        found = look_at_each(
            self.store, lambda name: self.recovery(drill.number, name), drill.streams
        )
        return {one.name: one for one in found if one is not None}

    def recovery(self, drill: int, name: str) -> StreamRecovery | None:
        return self._get(StreamRecovery, drill=drill, name=name)

    def record(self, recovery: StreamRecovery) -> StreamRecovery:
        """Record the recovery of a stream; return the first one of this stream."""
        return self._put(recovery)

"""What is wanted of a stream: its desired state, its circuit, and what it is watched by."""

from __future__ import annotations

import contextlib
from datetime import datetime

from airflow_streaming.core.control import Circuit, CircuitState, Desired, DesiredState
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.policy import RestartPolicy
from airflow_streaming.core.supervision import Supervision
from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable, RecordError
from airflow_streaming.home.folder import StreamFolder


class Control(StreamFolder):
    """Read and change the desired state and the circuit of one stream."""

    def desired(self) -> Desired | None:
        """Return the newest wish, ``None`` when nobody ever said."""
        return self._newest(Desired, "desired")

    def want(self, state: DesiredState, *, by: str, reason: str, now: datetime) -> Desired:
        """Record a wish, unless the newest one is the same; return the newest."""

        def change(newest: Desired | None, number: int) -> Desired | None:
            if newest is not None and newest.state is state:
                return None
            return Desired(number=number, state=state, by=by, reason=reason, at=now)

        newest = self._append(Desired, "desired", change)
        if newest is None:
            raise HomeUnavailable(f"The wish for stream {self.name!r} was not recorded. Try again.")
        return newest

    def want_next(self, wish: Desired) -> bool:
        """
        Record a wish under the very number that it has; tell whether it was recorded.

        For whoever may have been asleep since he looked: when anybody has wished anything since,
        the number is taken, and nothing is done.
        """
        try:
            self.store.create(self._layout.record("desired", wish.number), wish.to_bytes())
        except AlreadyExists:
            return False
        return True

    def circuit(self) -> Circuit | None:
        """Return the newest change of the circuit, ``None`` when it was never opened."""
        return self._newest(Circuit, "circuit")

    def open_circuit(self, *, epoch: int, by: str, reason: str, now: datetime) -> Circuit:
        """
        Open the circuit because of an epoch's failure; return the newest record.

        Nothing is recorded when it is open for that epoch already, or when a person has closed it
        since: a task that was slow to act must not undo what the person decided.
        """

        def change(newest: Circuit | None, number: int) -> Circuit | None:
            if newest is not None and newest.epoch >= epoch:
                return None
            return Circuit(
                number=number, state=CircuitState.OPEN, epoch=epoch, by=by, reason=reason, at=now
            )

        newest = self._append(Circuit, "circuit", change)
        if newest is None:
            raise HomeUnavailable(f"The circuit of {self.name!r} was not opened. Try again.")
        return newest

    def close_circuit(self, *, epoch: int, by: str, reason: str, now: datetime) -> Circuit | None:
        """
        Close the circuit if it is open; return the newest record, ``None`` if there never was one.

        :param epoch: The newest epoch; what failed up to it is forgiven.
        """

        def change(newest: Circuit | None, number: int) -> Circuit | None:
            if newest is None or newest.state is CircuitState.CLOSED:
                return None
            return Circuit(
                number=number, state=CircuitState.CLOSED, epoch=epoch, by=by, reason=reason, at=now
            )

        return self._append(Circuit, "circuit", change)

    def supervision(self) -> Supervision | None:
        """Return the rules the stream is watched by, ``None`` before a task has recorded any."""
        return self._newest(Supervision, "supervision")

    def supervise(
        self, health: HealthRules, restart: RestartPolicy, *, by: str, now: datetime
    ) -> None:
        """
        Record what the stream is watched by, unless the newest record says the same.

        A newest record that cannot be read, of a newer release perhaps, is followed by another.
        """
        with contextlib.suppress(RecordError):
            newest = self.supervision()
            if newest is not None and (newest.health, newest.restart) == (health, restart):
                return
        number = max(self._numbers("supervision"), default=0) + 1
        record = Supervision(number=number, by=by, at=now, health=health, restart=restart)
        with contextlib.suppress(AlreadyExists):  # another task says what its dag asks
            self.store.create(self._layout.record("supervision", number), record.to_bytes())

"""
Observe the newest hot standby of a lane.

Like an observer, it remembers how long a heartbeat has not risen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Heartbeat, Launcher
from airflow_streaming.model.observation import Process
from airflow_streaming.model.records.epoch import Epoch, Launch
from airflow_streaming.model.status import Status
from airflow_streaming.supervision.standby import StandbyView


def view_standby(
    standbys: StreamHome,
    probe: Callable[[Epoch, Launch | None, Heartbeat], Process],
    live: Epoch | None,
    silence: Callable[[int, Status | None], timedelta],
) -> StandbyView | None:
    """
    Observe the newest hot standby of a lane, if any.

    :param standbys: The records of the lane's standbys.
    :param silence: Returns how long a standby's heartbeat has not risen.
    """
    epoch = standbys.newest_epoch()
    if epoch is None:
        return None
    number, launch = epoch.number, standbys.launch(epoch.number)
    process = probe(epoch, launch, partial(standbys.heartbeat, number))
    status, written = standbys.status(number), standbys.aftermath(number)
    return StandbyView(
        epoch=epoch,
        process=process,
        launch=launch,
        status=status,
        has_come=standbys.barrier(number) is not None,
        has_ended=written.exit is not None or written.death is not None,
        is_stopping=written.stop is not None,
        is_promoted=live is not None and live.token == epoch.token,
        silent_for=silence(number, status),
    )


class StandbyObserver:
    """
    Observes the newest hot standby of one lane.

    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        home: StreamHome,
        launcher: Launcher,
        *,
        memory: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home, self._launcher, self._clock = home.standbys(), launcher, clock
        self._heard: tuple[int, int] | None = None
        self._since = clock()
        told = (memory or {}).get("standby")
        if isinstance(told, Mapping):
            self._heard = int(told["number"]), int(told["beat"])
            self._since = clock() - float(told["silent_for"])

    def to_event(self) -> dict[str, Any]:
        """Return the memory for another process; empty without a standby."""
        if self._heard is None:
            return {}
        number, beat = self._heard
        values = {"number": number, "beat": beat, "silent_for": self._clock() - self._since}
        return {"standby": values}

    def look(self, live: Epoch | None) -> StandbyView | None:
        """Observe once; ``None`` without a standby."""
        return view_standby(self._home, self._launcher.probe, live, self._silence)

    def _silence(self, number: int, status: Status | None) -> timedelta:
        heard, clock = (number, status.beat if status is not None else 0), self._clock()
        if heard != self._heard:
            self._heard, self._since = heard, clock
        return timedelta(seconds=clock - self._since)

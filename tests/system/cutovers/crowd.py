"""Who looks all the time whether the law is kept: one driver a lane, and one switch for all."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Self

from airflow_streaming.live import live_together
from tests.system.cutovers.stage import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowded:
    lane: str
    epochs: tuple[int, ...]


class Crowd:
    """
    Looks all the time how many drivers each lane has, and which lanes are live.

    Two drivers in one lane are against the law, and so are streams that are moved together of which
    one is live in its blue lane while another is in its green one.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage, self._end = stage, threading.Event()
        self.most, self.looks = 0, 0
        self.offenses: list[Crowded] = []
        self.torn: list[tuple[str, ...]] = []
        self._thread = threading.Thread(target=self._run, name="crowd", daemon=True)

    @property
    def is_lawful(self) -> bool:
        """Tell whether no lane ever had two drivers, and all streams were moved at once."""
        return not self.offenses and not self.torn

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.5):
            self._look_together()
            drivers = self._stage.drivers()
            self.looks, self.most = self.looks + 1, max(self.most, len(drivers))
            for lane in {lane for lane, _ in drivers}:
                epochs = tuple(epoch for one, epoch in drivers if one == lane)
                if len(epochs) > 1:
                    self.offenses.append(Crowded(lane=lane, epochs=epochs))

    def _look_together(self) -> None:
        found = live_together(self._stage.streams, home=self._stage.home_uri)
        if len({one.color for one in found.values()}) > 1:
            self.torn.append(tuple(one.lane for one in found.values()))

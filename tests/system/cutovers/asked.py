"""What one run is asked to do; the worker reads it from a file, so that another can go on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from tests.system.cutovers.stage import QUERY, STREAM


class Course(StrEnum):
    """Where a cutover is meant to go."""

    FORWARD = "forward"
    ABORT = "abort"
    """A person gives it up before the switch."""
    ROLL_BACK = "roll_back"
    """A person wants blue back during the soak."""


SINKS: Final = {SwitchMethod.HANDOVER: "ledger", SwitchMethod.PARALLEL: "parquet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """
    One run.

    :param number: Of the run.
    :param application: Name of the application that green runs.
    :param start: What green begins with.
    :param queries: What the application starts.
    :param streams: Those that are moved together.
    :param every: Kill whoever carries the cutover out before every so-many-th durable step; 0 for
        never.
    :param first: The first step before which it is killed.
    :param abort_at: State in which it is given up, for ``abort``.
    :param sink: What the stream writes: ``ledger`` or ``parquet``; by default what suits the way.
    :param compares: Have a Spark compare the outputs, which takes a quarter of a minute.
    :param deadline_s: How long green may take to keep pace.
    :param grace_s: How long a driver may take to its next batch boundary when it is to stop.
    :param soak_s: How long green is watched after the switch.
    :param asks: A person says that green stays, once the soak was good and he is asked.
    :param behind_s: For so long blue's driver is suspended in the soak before blue is wanted back.
    """

    number: int
    way: SwitchMethod
    course: Course = Course.FORWARD
    application: str = "new"
    start: StartWay = StartWay.FRESH
    queries: tuple[str, ...] = (QUERY,)
    streams: tuple[str, ...] = (STREAM,)
    every: int = 0
    first: int = 1
    abort_at: str = "ready"
    sink: str = ""
    compares: bool = False
    deadline_s: float = 240.0
    soak_s: float = 4.0
    grace_s: float = 30.0
    asks: bool = False
    behind_s: float = 0.0

    @property
    def writes(self) -> str:
        """Return the sort of sink."""
        return self.sink or SINKS[self.way]

    @property
    def key(self) -> str:
        """Return what names the wish."""
        return f"run-{self.number}-{self.way}-{self.course}-{self.application}"

    def write(self, file: Path) -> Path:
        """Write it for a worker."""
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return file

    @classmethod
    def read(cls, file: Path) -> Asked:
        """Read what a worker is asked."""
        told = json.loads(file.read_text(encoding="utf-8"))
        sorts: dict[str, Any] = {
            "way": SwitchMethod,
            "course": Course,
            "start": StartWay,
            "queries": tuple,
            "streams": tuple,
        }
        return cls(**told | {name: sort(told[name]) for name, sort in sorts.items()})

"""The demo's view of one stream: read from its home, as the command line reads it."""

from __future__ import annotations

import contextlib
import os
import signal
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.advice.doctor import examine
from airflow_streaming.advice.examined import Advice
from airflow_streaming.advice.gathering import gather
from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.launch.processes import ProcessHandle
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import ProcessState, Verdict, VerdictState
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.epoch import Epoch, Launch
from airflow_streaming.model.status import Status
from airflow_streaming.services.streams import stop
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.observer import Observer
from demo.events import FIRST_DAY, LATENESS
from demo.waiting import Say, wait_for

STOP_SECONDS: Final = 30.0
"""A driver's time to reach a batch boundary and end; then it is killed."""


class Stream:
    """
    One stream, looked at and stopped from outside of Airflow.

    :param home: Place of the records of all streams.
    :param name: The stream's name.
    """

    def __init__(self, home: str, name: str) -> None:
        self.name = name
        self._all = open_home(home)
        self._home = self._all.stream(name)
        self._launcher = open_launcher()
        self._observer = Observer(
            self._home, self._launcher, rules=HealthRules(), policy=RestartPolicy()
        )

    @property
    def records(self) -> StreamHome:
        """Its home."""
        return self._home

    @property
    def epoch(self) -> Epoch | None:
        """The newest epoch."""
        return self._home.newest_epoch()

    @property
    def launch(self) -> Launch | None:
        """The launch of the newest epoch's driver."""
        epoch = self.epoch
        return self._home.launch(epoch.number) if epoch else None

    @property
    def leader(self) -> int | None:
        """The process id of the newest epoch's driver: its JVM."""
        handle = ProcessHandle.recorded(self.launch)
        return handle.pid if handle else None

    @property
    def status(self) -> Status | None:
        """What the newest epoch's driver tells of itself."""
        epoch = self.epoch
        return self._home.status(epoch.number) if epoch else None

    @property
    def progress(self) -> BatchProgress | None:
        """The newest batch of the newest epoch."""
        status = self.status
        newest = [query.progress for query in status.queries if query.progress] if status else []
        return newest[0] if newest else None

    @property
    def output(self) -> str:
        """The folder into which the stream writes."""
        deployment = self._home.newest_deployment()
        if deployment is None:
            raise RuntimeError(f"Stream {self.name} has no deployment yet.")
        return deployment.output

    def verdict(self) -> Verdict | None:
        """Judge the newest epoch; ``None`` before the first."""
        situation = self._observer.situation()
        return judge(situation.seen, situation.rules) if situation.seen else None

    def is_well(self) -> bool:
        """Tell whether the driver has committed a batch and all is well."""
        verdict, status = self.verdict(), self.status
        return bool(verdict and verdict.is_well and status and status.batches > 0)

    def has_completed(self) -> bool:
        """Tell whether the driver has read all of its input and ended."""
        verdict = self.verdict()
        return verdict is not None and verdict.state is VerdictState.COMPLETED

    def has_passed(self, watermark: datetime) -> bool:
        """Tell whether a batch with that watermark, or a later one, is committed."""
        progress = self.progress
        if progress is None or progress.watermark is None:
            return False
        return datetime.fromisoformat(progress.watermark) >= watermark

    def days_read(self) -> int:
        """Return the files of which a committed batch's watermark tells that they were read."""
        progress = self.progress
        if progress is None or progress.watermark is None:
            return 0
        newest = datetime.fromisoformat(progress.watermark) + LATENESS
        return max(0, (newest - FIRST_DAY).days + 1)

    def is_gone(self) -> bool:
        """Tell whether the newest epoch's driver is proved gone, or none was ever begun."""
        epoch = self.epoch
        if epoch is None:
            return True
        return self._launcher.probe(epoch, self.launch).state is ProcessState.GONE

    def failure(self) -> str | None:
        """Return why the stream will not come back without a user, or ``None``."""
        circuit = self._home.circuit()
        if circuit is None or circuit.state == "closed":
            return None
        return f"Stream {self.name} has given up: {circuit.reason}"

    def advice(self) -> tuple[Advice, ...]:
        """Return what the doctor says about the stream."""
        return examine(gather(self._all, self._home, None))

    def kill_driver(self) -> int:
        """Send SIGKILL to the driver's JVM, as the kernel does when memory runs out."""
        leader = self.leader
        if leader is None or self.is_gone():
            raise RuntimeError(f"Stream {self.name} has no driver to kill.")
        os.kill(leader, signal.SIGKILL)
        return leader

    def stop(self, say: Say) -> None:
        """Stop the driver at a batch boundary, or kill it; returns when it is proved gone."""
        self.ask_to_stop()
        self.await_stop(say)

    def ask_to_stop(self) -> None:
        """Record that the stream is to stop, and ask its driver to."""
        grace = timedelta(seconds=STOP_SECONDS)
        stop(self._home, by="demo", reason="The demo ends.", grace=grace)

    def await_stop(self, say: Say) -> None:
        """Wait until the driver has stopped, or kill it; returns when it is proved gone."""
        epoch = self.epoch
        if epoch is None or self.is_gone():
            return
        with contextlib.suppress(RuntimeError):
            wait_for(self.is_gone, what="the driver to stop", seconds=STOP_SECONDS, say=say)
        self._launcher.kill(epoch, self.launch)

    def table(self) -> str:
        """Return a short table of the stream."""
        epoch, launch, verdict = self.epoch, self.launch, self.verdict()
        if epoch is None or verdict is None:
            return f"stream     {self.name}: not launched yet"
        rows = {
            "stream": self.name,
            "verdict": f"{verdict.state} - {verdict.reason}",
            "epoch": f"{epoch.number} ({epoch.cause}), {self._restarts(epoch)} restarts",
            "driver": f"{launch.driver}, log {launch.log}" if launch else "being started",
            **_batch_rows(self.progress),
        }
        return "\n".join(f"{name:<11}{value}" for name, value in rows.items())

    def _restarts(self, newest: Epoch) -> int:
        numbers = range(1, newest.number + 1)
        return sum(self._home.epoch(number).cause == "restart" for number in numbers)


def _batch_rows(progress: BatchProgress | None) -> dict[str, str]:
    if progress is None:
        return {"batch": "none yet"}
    rates = (progress.input_rows_per_second, progress.processed_rows_per_second)
    arriving, processed = ("-" if rate is None else f"{rate:.0f}" for rate in rates)
    return {
        "batch": f"{progress.batch_id} took {progress.duration_ms} ms for {progress.input_rows} rows",
        "rows/s": f"{arriving} arriving, {processed} processed",
        "watermark": progress.watermark or "-",
    }

"""One folder with a whole play in it: Airflow, a stream, and the files that arrive for it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil

from airflow_streaming.home.home import init_home, open_home
from airflow_streaming.live import HOME_VARIABLE
from demo.airflow import Airflow
from demo.drivers import DriverCount
from demo.events import Arrivals
from demo.processes import kill_group, processes_with
from demo.stream import Stream
from demo.waiting import Say

REPOSITORY: Final = Path(__file__).resolve().parent.parent
APPLICATION: Final = REPOSITORY / "dags" / "jobs" / "retail_revenue.py"
LEAVE_SECONDS: Final = 10.0
"""Time of a killed process to be gone."""

MARK: Final = "STREAM_DEMO_FOLDER"
"""Environment variable that every process of a demo inherits, the drivers included."""


class Stage:
    """
    Airflow with the repository's dags, one stream, and a folder into which files arrive.

    On leaving, every stream of its home is stopped, then Airflow, and nothing is left running.

    :param folder: Everything lies here; emptied at the start.
    :param runtime: The Spark runtime ``spark-4.3``: a virtual environment with pyspark.
    :param files: Names and contents of the files that arrive once ``arrivals`` is started.
    :param every: Seconds between two arrivals.
    :param ahead: Files that may lie there beyond those the stream has read; by default any number.
    :param lands_in: Folder in which they arrive, below ``folder``.
    :param dags: Folder of the dag files.
    :param stream: The stream's name.
    :param environment: More settings for Airflow.
    :param runtimes: More Spark runtimes, by their names in ``[streaming] runtimes``.
    :param home: Place of the records; by default a folder below ``folder``.
    :param airflow: Makes the Airflow.
    """

    def __init__(
        self,
        folder: Path,
        *,
        runtime: Path,
        say: Say,
        files: Iterable[tuple[str, str]] = (),
        every: float = 3.0,
        ahead: int | None = None,
        lands_in: str = "orders",
        dags: Path = REPOSITORY / "dags",
        stream: str = "retail_revenue",
        environment: Mapping[str, str] | None = None,
        runtimes: Mapping[str, Path] | None = None,
        home: str | None = None,
        airflow: Callable[..., Airflow] = Airflow,
    ) -> None:
        self.folder, self.runtime = folder.resolve(), runtime.absolute()
        self._runtimes = {**(runtimes or {}), "spark-4.3": self.runtime}
        if not (self.runtime / "bin" / "python").exists():
            raise RuntimeError(f"There is no Spark runtime in {runtime}. Run 'make setup' first.")
        self._say, self.dags = say, dags
        clear(self.folder, say)
        self.orders = self.folder / lands_in
        for made in (self.orders, self.folder / "streams"):
            made.mkdir(parents=True)
        self.home = home or str(self.folder / "streams")
        init_home(self.home)
        self.stream = Stream(self.home, stream)
        self.arrivals = Arrivals(
            self.orders,
            files,
            every=every,
            may_drop=lambda dropped: ahead is None or dropped < self.stream.days_read() + ahead,
        )
        self.drivers = DriverCount(self.home)
        self._helpers: list[subprocess.Popen[bytes]] = []
        self.airflow = airflow(
            self.folder / "airflow",
            dags=dags,
            environment={**self._environment(), **(environment or {})},
        )

    def _environment(self) -> Mapping[str, str]:
        return {
            "STREAM_VERSIONS": str(self.folder / "versions"),
            MARK: str(self.folder),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_VAR_STREAMS_HOME": self.home,
            "AIRFLOW_VAR_STREAMS_INPUT": str(self.folder / "input"),
            # For dags that watch a stream as an asset: its home is no template.
            HOME_VARIABLE: self.home,
            # A variable gives the home, so the API server opens it only if it is listed.
            "AIRFLOW__STREAMING__HOMES": self.home,
            "AIRFLOW_VAR_RETAIL_INPUT": str(self.orders),
            "AIRFLOW__STREAMING__RUNTIMES": json.dumps(
                {name: str(path.absolute()) for name, path in self._runtimes.items()}
            ),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def start_helper(self, command: Sequence[str | Path]) -> None:
        """Start a server that the stream needs; it is killed when the stage is left."""
        self._helpers.append(
            subprocess.Popen(
                command,
                env={**os.environ, MARK: str(self.folder)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def __enter__(self) -> Self:
        self.drivers.start()
        try:
            self.airflow.start(self._say)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything; safe to call twice."""
        if self.arrivals.is_alive():
            self.arrivals.stop()
        streams = self._streams()
        self._say(f"Stopping {', '.join(stream.name for stream in streams)}")
        for stream in streams:
            stream.ask_to_stop()
        for stream in streams:
            stream.await_stop(self._say)
        self._say("Stopping Airflow")
        self.airflow.stop()
        for helper in self._helpers:
            kill_group(helper.pid)
            helper.wait()
        if self.drivers.is_alive():
            self.drivers.stop()

    def _streams(self) -> list[Stream]:
        """Return every stream of the home: the dags of others may have been turned on."""
        others = [name for name in open_home(self.home).streams() if name != self.stream.name]
        return [self.stream, *(Stream(self.home, name) for name in others)]

    def leftovers(self) -> list[psutil.Process]:
        """Return the processes of this stage that are alive, other than the one that asks."""
        return leftovers(self.folder)

    def compare(self, output: str = "") -> dict[str, Any]:
        """
        Compare the stream's output with a batch run over the files that arrived.

        :param output: A copy of the output, where the stream writes into a store.
        :raises RuntimeError: the batch run failed; with the end of its output.
        """
        program = [self.runtime / "bin" / "python", REPOSITORY / "demo" / "compare.py"]
        options = ["--application", str(APPLICATION), "--input", str(self.orders)]
        options += ["--output", output or self.stream.output]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", MARK: str(self.folder)}
        done = subprocess.run(
            [*program, *options], env=environment, capture_output=True, text=True, check=False
        )
        lines = done.stdout.splitlines()
        if not lines or not lines[-1].startswith("{"):
            raise RuntimeError(f"The batch run failed: {done.stderr[-2000:]}")
        result: dict[str, Any] = json.loads(lines[-1])
        return result


def leftovers(folder: Path) -> list[psutil.Process]:
    """Return the living processes of a stage in that folder, other than the one that asks."""
    return [p for p in processes_with(MARK, str(folder)) if p.pid != os.getpid()]


def end_leftovers(folder: Path, say: Say) -> str:
    """Kill what is left of a stage, as a driver launched while it ended; return what stays."""
    left = leftovers(folder)
    for process in left:
        say(f"Killing process {process.pid}, which the demo left behind")
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=LEAVE_SECONDS)
    return ", ".join(f"process {process.pid}" for process in leftovers(folder))


def clear(folder: Path, say: Say) -> None:
    """Remove an earlier stage, with the processes of one that was itself killed."""
    for process in leftovers(folder):
        say(f"Killing process {process.pid} of an earlier demo")
        process.kill()
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "streams").is_dir():
            raise RuntimeError(f"{folder} is in use for something else; give another --folder.")
        shutil.rmtree(folder)

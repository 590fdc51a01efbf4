"""
Plants a canary in every place that takes a secret, and looks for it wherever a secret could show.

    python -m tests.system.canaries

A real driver on a real Spark 4.3 runs a stream whose connections, configuration, Java options,
environment, arguments and sinks hold a word each that is found nowhere else. It is looked for while the
driver runs, and again after it has failed with an error that quotes some of the words. The task is
driven without a scheduler; what it hands to Airflow (XCom, rendered fields, triggers, log lines) is what
is searched. Prints one line for each canary, with the places where it was seen, and returns 1 when one was
seen where ``EXPECTED`` does not say why.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest

from tests.integration.stream.conftest import RealStream

RUNTIME: Final = Path(".runtimes/spark-4.3").resolve()
_ARGUMENT: Final = "arguments are documented as no place for secrets"
_QUOTED: Final = ("env", "env by name", "conf s3 key", "conf es pass", "conf redis", "conf url")
EXPECTED: Final[Mapping[tuple[str, str], str]] = {
    ("argument", place): _ARGUMENT for place in ("home", "rendered fields", "serialized dag")
}
"""Where a canary may be seen, and why; everything else is a leak."""

SCRIPT: Final = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
jvm = spark._jvm.java.lang.System
jvm.err.println("JDBC url jdbc:postgresql://app:" + os.environ["DB_PASSWORD"] + "@db/orders")
jvm.err.println("the JVM quotes " + os.environ["PLAIN"])

def write(batch, number):
    if Path(os.environ["FAIL_FILE"]).exists():
        values = [os.environ["PLAIN"], os.environ["DB_PASSWORD"]]
        values += [spark.conf.get(key) for key in QUOTED]
        raise RuntimeError("cannot log in with " + " and ".join(values))

rows.writeStream.queryName("numbers").foreachBatch(write)\\
    .trigger(processingTime="300 milliseconds").start()
"""


def canary(what: str) -> str:
    """Return the word that is planted there."""
    return f"canary{what.replace(' ', '').replace('.', '')}{_SALT}"


_SALT: Final = os.urandom(4).hex()
CONF: Final = {
    "conf s3 key": ("spark.hadoop.fs.s3a.secret.key", "{}"),
    "conf es pass": ("spark.es.net.http.auth.pass", "{}"),
    "conf redis": ("spark.redis.auth", "{}"),
    "conf webhook": ("spark.team.webhook", "https://hooks.example.com/services/{}"),
    "conf jaas": (
        "spark.kafka.sasl.jaas.config",
        'org.apache.kafka.common.security.plain.PlainLoginModule required password="{}";',
    ),
    "conf url": ("spark.team.store", "postgresql://app:{}@db.example.com/orders"),
    "sink kafka": ("spark.airflowStreaming.sink.kafka.sasl.password", "{}"),
    "sink otel": ("spark.airflowStreaming.sink.otel.headers", "authorization=Bearer {}"),
    "sink pushgateway": ("spark.airflowStreaming.sink.pushgateway.password", "{}"),
}
QUOTED: Final = tuple(what for what in _QUOTED if what in CONF)
"""What the error of the script quotes."""
JAVA: Final = "java option"
OTHERS: Final = (
    *("env", "env by name", "argument", JAVA),
    *("spark connection", "home connection", "alert connection", "worker environment"),
)


@dataclass
class Search:
    """What was found, by canary and place."""

    found: dict[str, set[str]] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)

    def look(self, place: str, text: str | bytes) -> None:
        """Look through one text of a place."""
        data = text.encode(errors="replace") if isinstance(text, str) else text
        self.looked[place] = self.looked.get(place, 0) + len(data)
        for what in (*CONF, *OTHERS):
            if canary(what).encode() in data:
                self.found.setdefault(what, set()).add(place)


def main() -> int:
    """Plant, run, search, print."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as text, pytest.MonkeyPatch.context() as patch:
        folder = Path(text)
        return Canaries(folder, patch).run()


class Canaries:
    """One stream with canaries in it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch, self.search = folder, patch, Search()
        self.fails = folder / "fail"
        self._environment()
        self.stream = RealStream(folder)
        quoted = [CONF[what][0] for what in QUOTED]
        self.stream.script.write_text(f"QUOTED = {quoted!r}\n{SCRIPT}")
        self.told = io.StringIO()
        root = logging.getLogger()
        root.addHandler(logging.StreamHandler(self.told))
        root.setLevel(logging.INFO)

    def run(self) -> int:
        """Run the stream, search twice, print the table."""
        try:
            trigger = self.stream.run(self._operator())
            self.stream.until(lambda: self.stream.batches(1) > 1, "two batches")
            self._search(trigger)
            self.fails.touch()
            self.stream.until(lambda: self.stream.is_gone(1), "the driver's end")
            self._search(self._settled(trigger))
        finally:
            self.stream.end()
        return self._print()

    def _environment(self) -> None:
        spark = {"conn_type": "spark", "host": "local[1]", "password": canary("spark connection")}
        home = {"conn_type": "stream_home", "login": "k", "password": canary("home connection")}
        alert = {"conn_type": "http", "host": f"https://hooks/{canary('alert connection')}"}
        for name, told in {"SPARK_DEFAULT": spark, "HOMES": home, "ALERTS": alert}.items():
            self.patch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(told))
        self.patch.setenv("AIRFLOW__CORE__FERNET_KEY", canary("worker environment"))
        self.patch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps({"spark-4.3": str(RUNTIME)}))
        self.patch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(self.folder / "drivers"))
        self.patch.setattr("airflow_streaming.triggers.polling.HOLD", timedelta(0))

    def _operator(self) -> Any:
        from airflow.sdk import DAG

        from airflow_streaming.operators.stream import SparkStreamOperator
        from airflow_streaming.spec import Budget, RestartPolicy

        sinks = "kafka,otel,pushgateway,jsonlines,prometheus"
        conf = {key: value.format(canary(what)) for what, (key, value) in CONF.items()}
        plain = {
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 "
            f"-Djavax.net.ssl.trustStorePassword={canary(JAVA)}",
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.port": "0",
            "spark.airflowStreaming.sinks": sinks,
            "spark.airflowStreaming.sink.jsonlines.folder": str(self.folder / "metrics"),
            "spark.airflowStreaming.sink.kafka.topic": "t",
            "spark.airflowStreaming.sink.kafka.bootstrap.servers": "127.0.0.1:9",
            "spark.airflowStreaming.sink.otel.endpoint": "http://127.0.0.1:9/v1/metrics",
            "spark.airflowStreaming.sink.pushgateway.url": "http://127.0.0.1:9",
            "spark.airflowStreaming.sink.pushgateway.username": "u",
        }
        spec = self.stream.spec(
            application_args=[f"--password={canary('argument')}"],
            conf={**plain, **conf},
            env={
                "DB_PASSWORD": canary("env by name"),
                "PLAIN": canary("env"),
                "FAIL_FILE": str(self.fails),
            },
            # No successor: its private files would be searched before Spark has read them.
            restart=RestartPolicy(application_budgets=(Budget(restarts=0, window=timedelta(1)),)),
        )
        return SparkStreamOperator(
            task_id="orders",
            stream=spec,
            home_conn_id="homes",
            dag=DAG("orders", schedule=None),
        )

    def _settled(self, trigger: Any) -> Any:
        """Let the task judge the driver's end, which records an alert and fails or restarts."""
        from airflow.sdk.exceptions import AirflowException

        try:
            return self.stream.wake(trigger, self._operator())
        except AirflowException as err:
            self.search.look("task log", repr(err))
            return trigger

    def _search(self, trigger: Any) -> None:
        for place, texts in self._places(trigger).items():
            for text in texts():
                self.search.look(place, text)

    def _places(self, trigger: Any) -> dict[str, Callable[[], Iterator[str | bytes]]]:
        operator = self._operator()

        def rendered() -> Iterator[str]:
            from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

            yield json.dumps(_serialize_rendered_fields(operator), default=str)

        def serialized() -> Iterator[str]:
            from airflow.serialization.serialized_objects import DagSerialization

            yield json.dumps(DagSerialization.to_dict(operator.dag), default=str)

        return {
            "argv of all processes": lambda: _proc("cmdline", lambda _: True),
            "environment of other processes": lambda: _proc("environ", self._is_no_driver),
            "Airflow's settings in the driver": lambda: self._worker_secrets(),
            "home": lambda: _files(self.folder / "home"),
            "XCom": lambda: iter([json.dumps(self.stream.ti.xcoms, default=str)]),
            "rendered fields": rendered,
            "serialized dag": serialized,
            "trigger row": lambda: iter([json.dumps(trigger.serialize(), default=str)]),
            "task log": lambda: iter([self.told.getvalue()]),
            "driver log": lambda: _files(self.folder / "drivers", ".log"),
            "private files after Spark has read them": lambda: self._private(),
            "metrics": lambda: _files(self.folder / "metrics"),
            "Spark UI": self._spark_ui,
            "pages": self._pages,
            "log page": self._log_page,
        }

    def _private(self) -> Iterator[bytes]:
        for path in (self.folder / "drivers").rglob("*"):
            if path.is_file() and path.suffix != ".log":
                yield path.read_bytes()

    def _is_no_driver(self, process: psutil.Process) -> bool:
        return process.pid not in self._family()

    def _family(self) -> set[int]:
        leader = int(self.stream.launch(1).handle["pid"])
        try:
            family = psutil.Process(leader)
            return {leader, *(one.pid for one in family.children(recursive=True))}
        except psutil.NoSuchProcess:
            return {leader}

    def _worker_secrets(self) -> Iterator[bytes]:
        """Return the driver's environment without what the stream's own author put there."""
        for data in _proc("environ", lambda process: process.pid in self._family()):
            kept = (part for part in data.split(b"\0") if not part.startswith(_STREAMS))
            yield b"\0".join(kept)

    def _spark_ui(self) -> Iterator[bytes]:
        status = self.stream.home.status(1)
        if status is None or not status.ui_url or self.fails.exists():
            return
        root = f"{status.ui_url}/api/v1/applications"
        known = httpx.get(root, timeout=60).json()[0]["id"]
        for page in (f"{root}/{known}/environment", f"{status.ui_url}/environment/"):
            yield httpx.get(page, timeout=60, follow_redirects=True).content

    def _pages(self) -> Iterator[bytes]:
        from fastapi.testclient import TestClient

        from tests.page.server import page_app

        with TestClient(page_app(self.folder / "home", self.patch.setattr)) as client:
            for part in ("", "/timeline", "/changes", "/deployments", "/series", "/backups"):
                yield client.get(f"/api/streams/orders/orders{part}").content
            yield client.get("/api/fleet").content

    def _log_page(self) -> Iterator[bytes]:
        from airflow_streaming.launch.cluster_policy import ask_recorded
        from airflow_streaming.launch.registry import open_launcher
        from airflow_streaming.plugins.routes import _end_of_log

        drivers: Any = open_launcher(policy=ask_recorded)
        yield bytes(_end_of_log(self.stream.home, drivers).body)

    def _print(self) -> int:
        leaks = 0
        _say("| planted in | seen in | why |\n|---|---|---|")
        for what in (*CONF, *OTHERS):
            places = sorted(self.search.found.get(what, ()))
            for place in places or ["nowhere"]:
                why = "" if place == "nowhere" else EXPECTED.get((what, place), "LEAK")
                leaks += why == "LEAK"
                _say(f"| {what} | {place} | {why} |")
        told = ", ".join(f"{place} ({size} bytes)" for place, size in self.search.looked.items())
        _say(f"{len(CONF) + len(OTHERS)} canaries; {leaks} leaks. Searched: {told}.")
        return 1 if leaks else 0


_STREAMS: Final = (b"DB_PASSWORD=", b"PLAIN=", b"JDK_JAVA_OPTIONS=")


def _proc(name: str, counts: Callable[[psutil.Process], bool]) -> Iterator[bytes]:
    for process in psutil.process_iter():
        try:
            if counts(process):
                yield Path(f"/proc/{process.pid}/{name}").read_bytes()
        except (OSError, psutil.Error):
            continue


def _files(folder: Path, suffix: str = "") -> Iterator[bytes]:
    for path in folder.rglob(f"*{suffix}"):
        if path.is_file():
            yield path.read_bytes()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""The dags around a stream, walked as their page tells: a real Airflow, real Sparks, mail and chat servers."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.advice.doctor import examine
from airflow_streaming.advice.gathering import gather
from airflow_streaming.home.home import open_home
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.operators.doctor import grave_risks
from demo.airflow import ENDED
from demo.events import Arrivals, Shop, synthetic_files
from demo.feeds.shapes import FEEDS
from demo.stage import REPOSITORY, Stage
from demo.story import launch
from demo.stream import Stream
from demo.waiting import Progress, wait_for
from tests.integration.alerts.servers import Mailbox, Webhook, mail_server, webhook_server

STREAM: Final = "retail_revenue"
SECOND: Final = "example_revenue"
"""The stream with which a sensor waits until the first has caught up."""
NOTIFIED: Final = "notified"
FILES: Final = 3650
SENSORS: Final = ("healthy", "batch_3", "day_complete", "little_left", "caught_up", "external")
EXTERNAL_FILES: Final = 8
HAS_LINEAGE: Final = importlib.util.find_spec("airflow.providers.openlineage") is not None

pytestmark = pytest.mark.nightly("A whole Airflow and four Sparks for some ten minutes.")


class Walk:
    """
    The demo with everything that the dags around a stream ask for.

    :param environment: Beside what the demo has itself.
    """

    def __init__(self, folder: Path, runtime: Path, environment: dict[str, str]) -> None:
        self.say = Progress()
        self.external, self.lineage = folder / "external", folder / "lineage.jsonl"
        checkpoint = self.external / "checkpoint" / "hours"
        given = {"AIRFLOW_VAR_EXTERNAL_CHECKPOINT": str(checkpoint)}
        if HAS_LINEAGE:
            to_file = {"type": "file", "log_file_path": str(self.lineage), "append": True}
            given |= {
                "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(to_file),
                "AIRFLOW__OPENLINEAGE__NAMESPACE": "demo",
                "AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "True",
            }
        self.stage = Stage(
            folder,
            runtime=runtime,
            say=self.say,
            files=synthetic_files(FILES, Shop()),
            stream=STREAM,
            environment={**given, **environment},
        )
        self.sensors = Arrivals(
            folder / "input" / "sensors", FEEDS["sensors"].files(FILES), every=3.0
        )
        self.second = Stream(self.stage.home, SECOND)
        self.notified = Stream(self.stage.home, NOTIFIED)

    def start_external(self) -> None:
        """Start a stream of which the provider knows nothing."""
        clicks = self.external / "clicks"
        clicks.mkdir(parents=True)
        for name, content in FEEDS["clicks"].files(EXTERNAL_FILES):
            (clicks / name).write_text(content)
        conf = {
            "spark.sql.streaming.checkpointLocation": self.external / "checkpoint",
            "spark.sql.shuffle.partitions": 1,
            "spark.ui.enabled": "false",
        }
        options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        job = REPOSITORY / "dags" / "triggers" / "jobs" / "clicks_per_hour.py"
        places = ["--input", clicks, "--output", self.external / "out"]
        runtime = self.stage.runtime / "bin"
        submit = [runtime / "spark-submit", "--master", "local[1]", *options]
        # The program looks for Spark with the first Python of the path.
        program = ["env", f"PYSPARK_PYTHON={runtime / 'python'}", *submit]
        self.stage.start_helper([*program, job, *places, "--trigger", "processing_time"])

    def until(self, condition: Callable[[], bool], what: str) -> float:
        """Wait for it while Airflow works."""
        return wait_for(
            condition, what=what, say=self.say, failing=self.stage.airflow.ended_component
        )

    def outcome(self, dag: str, run: str) -> str:
        """Wait for the end of a run, and return its state."""
        airflow = self.stage.airflow
        state = airflow.await_run(dag, run, self.say)
        self.say(f"{dag} is {state}: {airflow.task_states(dag, run)}")
        return state

    def first_success(self, dag: str) -> str:
        """Wait until a run that nobody asked for has succeeded, and return its id."""
        airflow, found = self.stage.airflow, list[str]()

        def has_succeeded() -> bool:
            runs = airflow.get(f"/api/v2/dags/{dag}/dagRuns")["dag_runs"]
            found[:] = [one["dag_run_id"] for one in runs if one["state"] == "success"]
            return bool(found)

        self.until(has_succeeded, f"a run of {dag}")
        return found[0]

    def told(self) -> list[AlertKind]:
        """Return what was delivered to the notifiers of the stream that has them."""
        home = self.notified.records
        return [one.alert for one in home.alerts() if _is_sent(home, one.number)]

    def events(self) -> list[dict[str, Any]]:
        """Return what was reported to OpenLineage."""
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in self.lineage.read_text().splitlines()]
        return []


def _is_sent(home: Any, number: int) -> bool:
    mark = home.sent(number)
    return mark is not None and mark.outcome == "sent"


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with mail_server() as box:
        yield box


@pytest.fixture
def chat() -> Iterator[Webhook]:
    with webhook_server() as server:
        yield server


@pytest.fixture
def walk(tmp_path: Path, spark_4_3: Path, mailbox: Mailbox, chat: Webhook) -> Walk:
    plain = {"disable_ssl": True, "disable_tls": True, "from_email": "streams@example.org"}
    mail = {"conn_type": "smtp", "host": "127.0.0.1", "port": mailbox.port, "extra": plain}
    hook = {"conn_type": "http", "host": "127.0.0.1", "port": chat.port}
    connections = {"SMTP_DEFAULT": mail, "CHAT": hook}
    environment = {f"AIRFLOW_CONN_{name}": json.dumps(one) for name, one in connections.items()}
    return Walk(tmp_path / "demo", spark_4_3, environment)


def test_every_dag_around_a_stream_does_what_its_page_says(
    walk: Walk, mailbox: Mailbox, chat: Webhook
) -> None:
    stage, airflow = walk.stage, walk.stage.airflow
    walk.start_external()
    with stage:
        walk.sensors.start()
        try:
            launch(stage, walk.say, STREAM)
            for dag in (SECOND, NOTIFIED, "day_consumer"):
                airflow.unpause(dag)
            waiting = airflow.trigger("every_sensor")
            doctor = airflow.trigger("daily_doctor")

            check_sensors(walk, waiting)
            check_doctor(walk, doctor)
            consumed = walk.first_success("day_consumer")
            walk.say(f"day_consumer ran: {consumed}")
            check_alerts(walk, mailbox, chat)
            if HAS_LINEAGE:
                check_lineage(walk)
            check_stopped(walk)
        finally:
            walk.sensors.stop()

    assert stage.leftovers() == []


def check_sensors(walk: Walk, run: str) -> None:
    """Check that every sensor opens, and says what it saw."""
    assert walk.outcome("every_sensor", run) == "success"
    seen = {task: walk.stage.airflow.returned("every_sensor", run, task) for task in SENSORS}
    walk.say(f"The sensors saw {seen}")
    assert seen["batch_3"]["batch"] >= 3
    assert seen["day_complete"]["watermark"] >= "2026-01-06"
    assert seen["external"]["batch"] >= 1
    assert {seen[task]["stream"] for task in SENSORS if task != "external"} == {STREAM}


def check_doctor(walk: Walk, run: str) -> None:
    """Check that the doctor's task fails on a grave risk, and returns its advice without one."""
    records = walk.stage.stream.records
    grave = grave_risks(examine(gather(open_home(walk.stage.home), records, None)), "high")
    walk.say(f"Grave risks: {[one.rule for one in grave]}")
    # The folder of a test is one for temporary files, which is one of them.
    assert walk.outcome("daily_doctor", run) == ("failed" if grave else "success")
    if not grave:
        advice = walk.stage.airflow.returned("daily_doctor", run, "doctor")
        assert "risk" in {one["outcome"] for one in advice}


def check_alerts(walk: Walk, mailbox: Mailbox, chat: Webhook) -> None:
    """Kill the driver of the stream with notifiers, then take its input away and kill it again."""
    stream = walk.notified
    walk.until(stream.is_well, "the stream with notifiers")
    stream.kill_driver()
    walk.until(lambda: AlertKind.RECOVERED in walk.told(), "the alert that it is well again")
    assert walk.told()[-2:] == [AlertKind.RESTARTED, AlertKind.RECOVERED]
    assert len(chat.received) == len(walk.told())
    assert mailbox.mails == []

    walk.sensors.stop()
    folder = walk.stage.folder / "input" / "sensors"
    folder.rename(folder.with_name("gone"))
    with contextlib.suppress(RuntimeError):  # of a driver that has just failed by itself
        stream.kill_driver()
    walk.until(lambda: AlertKind.GAVE_UP in walk.told(), "the alert that it has given up")
    (mail,) = mailbox.mails
    walk.say(f"Mail: {mail['Subject']}; chat: {[body['text'] for _, body in chat.received]}")
    assert NOTIFIED in mail["Subject"]
    assert len(chat.received) == len(walk.told())


def check_lineage(walk: Walk) -> None:
    """Check what the task has reported of its stream, and whose child the driver is."""
    # A second run takes over from the first, which then ends and reports.
    walk.stage.airflow.trigger(STREAM)

    def reported() -> list[dict[str, Any]]:
        of_task = (one for one in walk.events() if one["job"]["name"] == f"{STREAM}.revenue")
        return [one for one in of_task if one.get("outputs")]

    walk.until(lambda: bool(reported()), "a lineage event with datasets")
    event = reported()[-1]
    names = {kind: {one["name"] for one in event[kind]} for kind in ("inputs", "outputs")}
    walk.say(f"OpenLineage: {event['eventType']} {names}")
    assert names == {"inputs": {str(walk.stage.orders)}, "outputs": {walk.stage.stream.output}}
    # The driver is the child of the first run's task, which launched it.
    assert parent_of_driver(walk.stage.stream) in {one["run"]["runId"] for one in walk.events()}


def parent_of_driver(stream: Stream) -> str:
    """Return the run that a driver's own configuration names as its parent."""
    status = stream.status
    assert status is not None
    applications = f"{status.ui_url}/api/v1/applications"
    (application,) = answer_of(applications)
    properties = answer_of(f"{applications}/{application['id']}/environment")["sparkProperties"]
    return str(dict(properties)["spark.openlineage.parentRunId"])


def answer_of(url: str) -> Any:
    """Return what Spark's own page answers."""
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - on the loopback address
        return json.load(answer)


def check_stopped(walk: Walk) -> None:
    """Check the gates on a stream that was stopped."""
    airflow = walk.stage.airflow
    run = airflow.trigger("stream_switch", action="stop", reason="The walk ends.")
    assert walk.outcome("stream_switch", run) == "success"
    waiting = airflow.trigger("every_sensor")

    def has_ended() -> bool:
        states = airflow.task_states("every_sensor", waiting)
        return all(states.get(task) in ENDED for task in ("healthy", "batch_3", "day_complete"))

    walk.until(has_ended, "the sensors of a stopped stream")
    states = airflow.task_states("every_sensor", waiting)
    walk.say(f"Of a stopped stream: {states}")
    assert states["healthy"] == "failed"
    assert (states["batch_3"], states["day_complete"]) == ("success", "success")

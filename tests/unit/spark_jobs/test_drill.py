"""The drill around its Spark, which is a shell script here: what it is given, and how it ends."""

from __future__ import annotations

import hashlib
import json
import stat
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_streaming.checkpoints.backup.records import Backup, QueryBackup
from airflow_streaming.checkpoints.progress import ProgressNow
from airflow_streaming.exceptions import ApplicationNotFound, RuntimeNotFound, SpecError
from airflow_streaming.home.home import Home
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.jobs.drill import (
    SCRATCH_OUTPUT,
    Drilled,
    DrillEvent,
    DrillEventKind,
    DrillOrder,
)
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.spark_jobs import drill as drill_spark
from airflow_streaming.spark_jobs import runner as scratch_spark
from airflow_streaming.spark_jobs.drill import Copy, choose_runtime, drill_copies, runtimes_from
from airflow_streaming.spark_jobs.runner import Program, deployed_program, read_program
from tests.patience import PATIENCE, until
from tests.unit.supervision.builders import a_deployment

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SCRIPT = b"print('hello')\n"

RunDrill = Callable[..., Drilled]


def events(*told: DrillEvent) -> str:
    return "".join(event.to_bytes().decode() for event in told)


DONE = events(
    DrillEvent(told=DrillEventKind.SPARK, text="4.3.0"),
    DrillEvent(told=DrillEventKind.BATCH, batch=1, rows=5),
    DrillEvent(told=DrillEventKind.END),
)


def a_program(**changes: Any) -> Program:
    return Program(**{"application": "/app/job.py", "source": SCRIPT, **changes})


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def run_drill(tmp_path: Path, scratch: Path) -> RunDrill:
    """Drill a stateless checkpoint of two batches with a shell script in the place of Spark."""
    copy = tmp_path / "copy"
    for path, text in {
        "metadata": '{"id":"0-0-0-0-1"}',
        "offsets/0": 'v1\n{}\n{"logOffset":0}',
        "offsets/1": 'v1\n{}\n{"logOffset":1}',
        "commits/0": "v1\n{}",
        "commits/1": "v1\n{}",
    }.items():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_text(text)
    query = QueryBackup(folder="", checkpoint="/ck", query_id="0-0-0-0-1", batch=1, planned=1)

    def run(submit: str, **changes: Any) -> Drilled:
        runtime = a_runtime(tmp_path / "spark", submit)
        given = {"program": a_program(), "scratch": scratch, "timeout": PATIENCE, **changes}
        return drill_copies([Copy(query, copy)], runtime=runtime, **given)

    return run


def a_runtime(home: Path, submit: str) -> Runtime:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "spark-submit"
    program.write_text("#!/bin/sh\n" + textwrap.dedent(submit))
    program.chmod(0o755)
    return Runtime(
        name="spark-4.3",
        spark_home=home,
        python=Path("/usr/bin/python3"),
        java_home=None,
        spark_version="4.3.0",
    )


def telling(text: str, then: str = "") -> str:
    """A Spark that tells something and goes on."""
    # Its working folder is the scratch.
    return f"cat > events.jsonl <<'END'\n{text}END\n{then}\n"


def test_what_spark_tells_is_what_the_drill_found(run_drill: RunDrill, scratch: Path) -> None:
    seen: list[ProgressNow] = []

    def note(now: ProgressNow) -> None:
        seen.append(now)
        (scratch / "noted").touch()

    found = run_drill(telling(DONE, "until [ -e noted ]; do sleep 0.05; done"), progress=note)

    assert found.problems == ()
    assert found.facts["batch"] == "batch 1 ran again, 5 rows of input"
    assert found.facts["state"] == "none: the query has no state"
    assert [now.files for now in seen] == [1, 2, 3]


def test_spark_is_told_what_to_do(run_drill: RunDrill, scratch: Path) -> None:
    run_drill(
        "for last; do :; done; cp $last told.json\n" + telling(DONE),
        program=a_program(arguments=("--to", f"{SCRATCH_OUTPUT}/x")),
    )

    order = DrillOrder.from_bytes((scratch / "told.json").read_bytes())
    assert (order.application, order.seconds) == ("/app/job.py", PATIENCE)
    assert order.arguments == ("--to", f"{scratch}/output/x")
    assert Path(order.source).read_bytes() == SCRIPT
    (query,) = order.queries
    assert (query.runs, query.cut, query.checkpoint) == (1, ("commits/1",), "/ck")


def test_spark_is_small_private_and_tells_production_nothing(
    run_drill: RunDrill, scratch: Path
) -> None:
    program = a_program(
        conf={
            "spark.master": "yarn",
            "spark.driver.memory": "64g",
            "spark.extraListeners": "com.example.Lineage",
            "spark.hadoop.fs.s3a.secret.key": "s3cret",
            "spark.driver.extraJavaOptions": "-Dmine=1",
        },
        jars=("/a.jar", "/b.jar"),
    )

    run_drill('echo "$@" > arguments; env > environment\n' + telling(DONE), program=program)

    path = scratch / "spark.properties"
    properties = dict(line.split("=", 1) for line in path.read_text().splitlines() if line)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert properties["spark.master"] == "local[2]"
    assert properties["spark.driver.memory"] == "1g"
    assert properties["spark.extraListeners"] == ""
    assert properties["spark.hadoop.fs.s3a.secret.key"] == "s3cret"
    assert properties["spark.driver.extraJavaOptions"].startswith("-Dmine\\=1 ")
    assert "--jars /a.jar,/b.jar" in (scratch / "arguments").read_text()
    assert "s3cret" not in (scratch / "arguments").read_text()
    assert "AIRFLOW_STREAMING_DRILL=1" in (scratch / "environment").read_text()


@pytest.mark.parametrize(
    ("submit", "problem"),
    [
        pytest.param(
            "echo 'java.lang.OutOfMemoryError: heap'; exit 3",
            "The Spark of the drill ended with code 3, before Spark was there: "
            "java.lang.OutOfMemoryError: heap",
            id="before it told anything",
        ),
        pytest.param(
            telling(events(DrillEvent(told=DrillEventKind.STARTED, batch=1)), "kill -9 $$"),
            "ended with code -9, while the query ran a batch",
            id="in a batch",
        ),
    ],
)
def test_a_spark_that_dies_is_a_problem(
    run_drill: RunDrill, submit: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In a namespace of its own the first process is a shell, which tells a signal as its code.
    monkeypatch.setenv("AIRFLOW_STREAMING_JOB_ISOLATION", "off")
    found = run_drill(submit)

    assert len(found.problems) == 1
    assert problem in found.problems[0]


def test_a_spark_that_hangs_is_ended_with_all_it_started(
    run_drill: RunDrill, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The processes are looked for by the ids that they see themselves.
    monkeypatch.setenv("AIRFLOW_STREAMING_JOB_ISOLATION", "off")
    hanging = (
        "sleep 600 & echo $! > child\nsetsid sleep 600 & echo $! > runaway\ntouch all\nsleep 600"
    )

    def await_end(*given: Any) -> bool:
        until((scratch / "all").exists, "All that it starts")
        return scratch_spark.await_end(*given)

    monkeypatch.setattr(drill_spark, "await_end", await_end)

    found = run_drill(hanging, timeout=0.5)

    assert "The drill was ended after 0.5 s, before Spark was there." in found.problems[0]
    for name in ("child", "runaway"):
        assert is_gone(int((scratch / name).read_text()))


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_secrets_that_are_not_known_are_told(run_drill: RunDrill) -> None:
    found = run_drill(telling(DONE), program=a_program(left_out=("spark.my.password",)))

    assert found.facts["conf_left_out"] == "spark.my.password"


def test_a_script_is_read_with_its_full_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.py").write_bytes(SCRIPT)
    monkeypatch.chdir(tmp_path)

    program = read_program("job.py", ["--a", "1"])

    assert (program.application, program.source) == (str(tmp_path / "job.py"), SCRIPT)
    assert tuple(program.arguments) == ("--a", "1")
    with pytest.raises(ApplicationNotFound):
        read_program("other.py")


def test_a_deployment_is_drilled_as_it_was_deployed_but_for_its_output(tmp_path: Path) -> None:
    deployment = a_deployment(
        application_sha256=hashlib.sha256(SCRIPT).hexdigest(),
        application_args=("{output}/x", "{checkpoint}"),
        conf={"spark.my.token": "(redacted)", "spark.a": "1"},
        checkpoint="/ck",
    )
    home = Home(LocalStore(str(tmp_path)))
    home.stream(deployment.stream).create_deployment(deployment, SCRIPT)

    program = deployed_program(home, deployment.stream, deployment.number)

    assert program.source == SCRIPT
    assert tuple(program.arguments) == (f"{SCRATCH_OUTPUT}/x", "/ck")
    assert dict(program.conf) == {"spark.a": "1"}
    assert program.left_out == ("spark.my.token",)
    whole = deployed_program(home, deployment.stream, deployment.number, {"spark.my.token": "t"})
    assert whole.conf["spark.my.token"] == "t"
    assert whole.left_out == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, {}, id="not set"),
        pytest.param('{"spark-4.3": "/opt/spark"}', {"spark-4.3": "/opt/spark"}, id="set"),
    ],
)
def test_runtimes_come_from_the_environment(text: str | None, expected: dict[str, str]) -> None:
    environment = {} if text is None else {"AIRFLOW__STREAMING__RUNTIMES": text}

    assert runtimes_from(environment) == expected


@pytest.mark.parametrize("text", ["{", "[]"], ids=["no JSON", "no object"])
def test_runtimes_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="AIRFLOW__STREAMING__RUNTIMES"):
        runtimes_from({"AIRFLOW__STREAMING__RUNTIMES": text})


def test_without_a_runtime_that_fits_the_ones_that_are_known_are_named() -> None:
    backup = Backup(
        id="20260105T120000Z-a1",
        stream="orders",
        begun_at=NOW,
        finished_at=NOW,
        origin=Origin.MANUAL,
        by="kim",
        queries=(),
        bundles=(),
        files=0,
        size=0,
        spark_version="4.2.1",
    )

    with pytest.raises(RuntimeNotFound) as refused:
        choose_runtime({"broken": "/does/not/exist"}, backup)

    assert "wants Spark 4.2.1, which wrote it" in str(refused.value)
    assert "there are: none. Runtime 'broken' is configured at" in str(refused.value)
    assert json.dumps({"spark-4.3": "/opt/spark-4.3"}) in str(refused.value)
    with pytest.raises(RuntimeNotFound, match="/no/such/spark"):
        choose_runtime({}, backup, "/no/such/spark")

"""The rehearsal around its Spark, which is a shell script here."""

from __future__ import annotations

import fcntl
import hashlib
import json
import textwrap
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import Source
from airflow_streaming.checkpoints.copies import (
    OfBackup,
    OfCheckpoints,
    checkpoints_at,
    checkpoints_of,
)
from airflow_streaming.checkpoints.progress import Phase, ProgressNow
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.cli.main import main
from airflow_streaming.exceptions import CheckpointError, NothingYet
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.rehearsal import Rehearsed
from airflow_streaming.home.home import Home
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT
from airflow_streaming.model.jobs.rehearsal import (
    Bounds,
    Ending,
    RehearsalEvent,
    RehearsalOrder,
    Seen,
)
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.spark_jobs import rehearsal
from airflow_streaming.spark_jobs.rehearsal import PREFIX, rehearse
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.spark_jobs.scratch import scratch_folder, sweep
from airflow_streaming.storage.folders import open_folders
from tests.patience import PATIENCE
from tests.unit.supervision.builders import a_deployment

SCRIPT = b"print('hello')\n"
FIGURES = BatchProgress(
    query="counts",
    batch_id=1,
    at="2026-01-05T12:00:00Z",
    input_rows=5,
    input_rows_per_second=None,
    processed_rows_per_second=10.0,
    duration_ms=500,
)


def telling(*events: RehearsalEvent, then: str = "") -> str:
    """A Spark that tells something and goes on."""
    # Its working folder is the scratch.
    text = "".join(event.to_bytes().decode() for event in events)
    return f"cat > events.jsonl <<'END'\n{text}END\n{then}\n"


SPARK = RehearsalEvent(seen=Seen.SPARK, text="4.3.0")
STARTED = RehearsalEvent(seen=Seen.STARTED, query="counts")
BATCH = RehearsalEvent(seen=Seen.BATCH, query="counts", batch=1, rows=2, figures=FIGURES)
ENDED = RehearsalEvent(seen=Seen.ENDED, query="counts", ending=Ending.CAUGHT_UP)
END = RehearsalEvent(seen=Seen.END)
HANGS = "sleep 600"
GOOD = telling(SPARK, STARTED, BATCH, ENDED, END)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A stateless checkpoint of two batches, each with input."""
    folder = tmp_path / "checkpoints" / "counts"
    for path, text in {
        "metadata": '{"id":"f00d0000-0000-4000-8000-000000000001"}',
        "offsets/0": 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n3',
        "offsets/1": 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":2,"conf":{}}\n6',
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "commits/1": 'v1\n{"nextBatchWatermarkMs":0}',
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


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


Run = Callable[..., Rehearsed]


@pytest.fixture
def run(tmp_path: Path, scratch: Path, checkpoint: Path) -> Run:
    def run(
        submit: str, place: Any = None, wanted: Mapping[str, Any] | None = None, **given: Any
    ) -> Rehearsed:
        program = Program(
            application="/app/job.py",
            source=SCRIPT,
            arguments=(f"{SCRATCH_OUTPUT}/x",),
            **(wanted or {}),
        )
        return rehearse(
            place or OfCheckpoints(checkpoints={"counts": str(checkpoint)}),
            program,
            a_runtime(tmp_path / "spark", submit),
            scratch=scratch,
            **given,
        )

    return run


def test_what_spark_tells_is_what_was_rehearsed(run: Run, scratch: Path) -> None:
    seen: list[ProgressNow] = []

    found = run(f"{GOOD}sleep 0.3", progress=seen.append)

    assert found.decision is GateDecision.ALLOWED
    assert (found.queries[0].batches, found.queries[0].output_rows) == (1, 2)
    assert [now.files for now in seen if now.phase is Phase.REHEARSAL] == [0, 0, 1, 1, 0]
    assert (list(scratch.iterdir()), found.leftovers) == ([], "")


def test_spark_gets_a_copy_that_is_cut_back_and_little_of_this_host(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    keep = f"mkdir {told}; cp order.json spark.properties {told}; cp -r checkpoints {told}\n"
    keep += f"env > {told}/environment\n"

    run(keep + GOOD, bounds=Bounds(cores=1, memory_mb=512, seconds=30))

    order = RehearsalOrder.from_bytes((told / "order.json").read_bytes())
    (query,) = order.queries
    assert (query.folder, query.checkpoint, query.batch) == ("counts", str(checkpoint), 1)
    assert (query.runs, query.cut) == (1, ("commits/1",))
    assert (order.bounds.seconds, order.seconds) == (30, 120)
    assert order.arguments == (f"{order.scratch}/output/x",)
    copied = json.loads((told / "checkpoints" / "0" / "metadata").read_text())
    assert copied != json.loads((checkpoint / "metadata").read_text())
    properties = (told / "spark.properties").read_text()
    assert "spark.master=local[1]" in properties
    assert "spark.driver.memory=512m" in properties
    assert "AIRFLOW_STREAMING_REHEARSAL=1" in (told / "environment").read_text()


def test_files_that_the_conf_names_are_added_to_the_programs_own(run: Run, tmp_path: Path) -> None:
    told = tmp_path / "told"
    secret = "https://h/z.py?sig=planted"
    conf = {"spark.jars": "z.jar", "spark.submit.pyFiles": secret}
    keep = f'mkdir {told}; cp spark.properties {told}; echo "$@" > {told}/arguments\n'

    run(keep + GOOD, wanted={"conf": conf, "jars": ("a.jar",), "py_files": ("u.py",)})

    arguments = (told / "arguments").read_text()
    assert "--jars a.jar,z.jar" in arguments
    assert ("--py-files" in arguments, "planted" in arguments) == (False, False)
    assert ".zip,u.py,https" in (told / "spark.properties").read_text()


def test_a_backup_is_rehearsed_as_it_is(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    store = open_backup_store(str(tmp_path / "store"), create=True)
    backup = take_backup(
        [Source(folder="counts", folders=open_folders(str(checkpoint)))],
        store,
        stream="orders",
        origin=Origin.MANUAL,
        by="a test",
        clock=lambda: datetime.now(UTC),
    )

    found = run(GOOD, OfBackup(store=store, backup=backup))

    assert found.decision is GateDecision.ALLOWED
    assert found.subject == f"backup {backup.id} of stream 'orders'"
    assert found.queries[0].replayed


@pytest.mark.parametrize(
    ("submit", "rule", "severity", "message"),
    [
        pytest.param(
            telling(SPARK, then="echo 'java.lang.OutOfMemoryError: heap'; exit 3"),
            "spark_ended",
            GateDecision.NOT_ALLOWED,
            "ended with code 3: java.lang.OutOfMemoryError: heap",
            id="dies",
        ),
        pytest.param(
            "echo 'No space left on device'; exit 3",
            "not_begun",
            GateDecision.UNKNOWN,
            "ended with code 3: No space left on device",
            id="dies before a session",
        ),
        pytest.param(
            telling(
                SPARK,
                then="""printf 'Traceback (most recent call last):\\n  File "/p.zip/"""
                """airflow_streaming/driver/rehearsal/run.py", line 9, in run\\nKeyError: 1\\n'; """
                "exit 1",
            ),
            "not_begun",
            GateDecision.UNKNOWN,
            "KeyError: 1",
            id="dies in our code",
        ),
        pytest.param(HANGS, "spark_ended", GateDecision.UNKNOWN, "It was ended after", id="hangs"),
    ],
)
def test_a_spark_that_comes_to_no_end_is_told(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    submit: str,
    rule: str,
    severity: GateDecision,
    message: str,
) -> None:
    monkeypatch.setattr(rehearsal, "_BEGINNING", 0.2)

    found = run(submit, bounds=Bounds(seconds=0.2 if submit == HANGS else PATIENCE))

    (finding,) = found.findings
    assert (finding.rule, finding.severity) == (f"rehearsal.{rule}", severity)
    assert message in finding.message


def test_a_checkpoint_that_cannot_be_copied_leaves_the_question_open(
    run: Run, checkpoint: Path, scratch: Path
) -> None:
    (checkpoint / "offsets" / "1").write_text("torn")

    found = run(GOOD)

    assert found.decision is GateDecision.UNKNOWN
    assert [finding.rule for finding in found.findings] == ["rehearsal.no_copy"]
    assert list(scratch.iterdir()) == []


def test_a_stream_is_rehearsed_on_the_checkpoints_it_has_now(
    tmp_path: Path, checkpoint: Path
) -> None:
    home = Home(LocalStore(str(tmp_path / "home"))).stream("orders")
    with pytest.raises(NothingYet, match="never started"):
        checkpoints_of(home)
    deployment = a_deployment(
        stream="orders",
        checkpoint=str(checkpoint.parent),
        application_sha256=hashlib.sha256(SCRIPT).hexdigest(),
    )
    home.create_deployment(deployment, SCRIPT)

    assert dict(checkpoints_of(home).checkpoints) == {"counts": str(checkpoint)}
    assert dict(checkpoints_at(str(checkpoint)).checkpoints) == {"": str(checkpoint)}
    with pytest.raises(CheckpointError):
        checkpoints_at(str(tmp_path / "nothing"))


def test_folders_of_killed_owners_are_removed_and_no_others(scratch: Path) -> None:
    killed, making = scratch / f"{PREFIX}killed", scratch / f"{PREFIX}making"
    for folder in (killed, making, scratch / "of-others"):
        folder.mkdir()
    (killed / "held").touch()

    with scratch_folder(scratch, PREFIX) as own:
        assert not killed.exists()
        assert sweep(scratch, PREFIX) == []
        assert own.folder.is_dir()
        with own.held.open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)

    assert sorted(path.name for path in scratch.iterdir()) == [making.name, "of-others"]


@pytest.mark.parametrize(
    ("submit", "options", "code", "shown"),
    [
        pytest.param(GOOD, [], 0, "Result: PASSED\n", id="good"),
        pytest.param(telling(SPARK, STARTED, ENDED, END), [], 1, "rehearsal.no_batch", id="open"),
        pytest.param("exit 3", [], 1, "Result: INCONCLUSIVE\n", id="bad"),
        pytest.param(GOOD, ["--batches", "0"], 2, "", id="a bound that cannot be"),
        pytest.param(GOOD, ["--query", "counts"], 2, "", id="a query of several checkpoints"),
        pytest.param(GOOD, ["--json"], 0, '"decision": "allowed"', id="JSON"),
    ],
)
def test_the_command_answers_by_its_exit_code(
    tmp_path: Path,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    submit: str,
    options: list[str],
    code: int,
    shown: str,
) -> None:
    runtime = a_runtime(tmp_path / "spark", submit)
    monkeypatch.setattr("airflow_streaming.cli.spark.runtime.runtime_named", lambda _: runtime)
    (tmp_path / "job.py").write_bytes(SCRIPT)
    page = tmp_path / "page.md"
    given = ["--checkpoint", str(checkpoint.parent), "--script", str(tmp_path / "job.py")]

    found = main(
        ["rehearse", *given, "--runtime", "spark-4.3", "--report", str(page), *options, "--", "-x"]
    )

    assert found == code
    assert shown in capsys.readouterr().out
    assert page.exists() is (code != 2)


@pytest.mark.parametrize("time", ["nan", "-1", "inf"])
def test_no_time_at_all_is_wrong_use(time: str) -> None:
    with pytest.raises(SystemExit) as left:
        main(
            ["rehearse", "--checkpoint", "/c", "--script", "x", "--runtime", "r", "--seconds", time]
        )
    assert left.value.code == 2


def test_the_command_wants_a_subject_and_a_home(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["rehearse", "--script", "x.py", "--runtime", "r"])
    assert left.value.code == 2
    given = ["--script", "x.py", "--runtime", "r", "--stream", "orders"]
    assert main(["rehearse", *given]) == 2
    assert "Which home?" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_costs_the_exit_code_and_not_the_verdict(
    tmp_path: Path,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runtime = a_runtime(tmp_path / "spark", GOOD)
    monkeypatch.setattr("airflow_streaming.cli.spark.runtime.runtime_named", lambda _: runtime)
    (tmp_path / "job.py").write_bytes(SCRIPT)
    given = ["--checkpoint", str(checkpoint.parent), "--script", str(tmp_path / "job.py")]

    code = main(["rehearse", *given, "--runtime", "r", "--report", "/dev/full"])

    shown = capsys.readouterr()
    assert code == 2
    assert shown.out.startswith("Rehearsal\nResult: PASSED\n")
    assert "The report cannot be written to" in shown.err

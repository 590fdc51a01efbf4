"""
A checkpoint of Spark 4.3 whose commits name sinks (commit log of version 3).

The sample was written with ``spark.sql.streaming.queryEvolution.enableSinkEvolution``: a deduplication in state
checkpoint format 2 wrote two batches to the sink ``lake``, one to ``lake_v2``, and one to ``lake`` again.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.exceptions import RecordError
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.version_gate import gate_version
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.model.spark.logs import NamedSink, parse_commit_log
from airflow_streaming.reports.checkpoint import checkpoint_report
from airflow_streaming.reports.markdown import markdown
from tests.unit.checkpoints.made import NOON
from tests.unit.checkpoints.restoring import back_up, new_store

SAMPLE = Path(__file__).parent / "samples" / "spark-4.3-named-sinks.zip"
PROVIDER = "org.apache.spark.sql.execution.streaming.sinks.FileStreamSink"
SINKS = (
    NamedSink(name="lake", provider=PROVIDER, is_active=True),
    NamedSink(name="lake_v2", provider=PROVIDER, is_active=False),
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    place = tmp_path / "counts"
    with zipfile.ZipFile(SAMPLE) as sample:
        sample.extractall(place)
    return place


def commit(checkpoint: Path, batch: int = 3) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((checkpoint / f"commits/{batch}").read_text()[3:])
    return told


def test_inspect_tells_the_sinks_and_which_is_written_to(checkpoint: Path) -> None:
    found = inspect(str(checkpoint))

    assert (found.problems, found.remarks) == ((), ())
    assert (found.commit_log_version, found.state_format) == (3, 2)
    assert found.sinks == SINKS
    assert found.rollback_batches == (0, 1, 2, 3)
    shown = markdown(checkpoint_report(found))
    assert "lake (FileStreamSink, active)" in shown


def test_a_backup_of_it_verifies_and_restores_whole(checkpoint: Path, tmp_path: Path) -> None:
    store = new_store(tmp_path)
    backup = back_up(store, checkpoint)

    verified = verify(store, backup.id, Level.FULL, by="kim", now=NOON)
    restored = restore(store, backup.id, Place(to=str(tmp_path / "restored")))

    assert verified.problems == ()
    assert backup.queries[0].batch == 3
    found = inspect(str(tmp_path / "restored"))
    assert restored.plan.refusals == ()
    assert found.is_sound
    assert found.sinks == SINKS
    for batch in range(4):
        written = (tmp_path / f"restored/commits/{batch}").read_bytes()
        assert written == (checkpoint / f"commits/{batch}").read_bytes()


@pytest.mark.parametrize(
    ("target", "is_allowed"), [("4.3.0", True), ("4.2.1", True), ("4.1.4", False), ("3.5.9", False)]
)
def test_the_gate_knows_which_spark_reads_it(
    checkpoint: Path, target: str, is_allowed: bool
) -> None:
    report = gate_version(str(checkpoint), "4.3.0", target)

    refused = [one for one in report.findings if "commit log of version 3" in one.message]
    assert bool(refused) is not is_allowed
    assert (report.decision is GateDecision.NOT_ALLOWED) is not is_allowed


def no_sinks(told: dict[str, Any]) -> None:
    del told["sinkMetadataMap"]


def empty(told: dict[str, Any]) -> None:
    told["sinkMetadataMap"] = {}


def two_active(told: dict[str, Any]) -> None:
    told["sinkMetadataMap"]["lake_v2"]["isActive"] = True


def none_active(told: dict[str, Any]) -> None:
    told["sinkMetadataMap"]["lake"]["isActive"] = False


def another_name(told: dict[str, Any]) -> None:
    told["sinkMetadataMap"]["lake"]["sinkName"] = "sea"


def active_as_text(told: dict[str, Any]) -> None:
    told["sinkMetadataMap"]["lake"]["isActive"] = "true"


def no_offset(told: dict[str, Any]) -> None:
    del told["sinkMetadataMap"]["lake"]["commitOffset"]


def no_provider(told: dict[str, Any]) -> None:
    told["sinkMetadataMap"]["lake"]["providerName"] = 7


def a_list(told: dict[str, Any]) -> None:
    told["sinkMetadataMap"]["lake"] = []


@pytest.mark.parametrize(
    "spoil",
    [
        no_sinks,
        empty,
        two_active,
        none_active,
        another_name,
        active_as_text,
        no_offset,
        no_provider,
        a_list,
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_a_commit_that_spark_does_not_write_is_refused(
    checkpoint: Path, spoil: Callable[[dict[str, Any]], None]
) -> None:
    told = commit(checkpoint)
    spoil(told)

    with pytest.raises(RecordError):
        parse_commit_log(f"v3\n{json.dumps(told)}".encode())


def test_a_later_field_of_a_sink_is_passed_over(checkpoint: Path) -> None:
    told = commit(checkpoint)
    told["sinkMetadataMap"]["lake"]["later"] = 1

    assert parse_commit_log(f"v3\n{json.dumps(told)}".encode()).sinks == SINKS


def test_older_versions_name_no_sink(checkpoint: Path) -> None:
    assert parse_commit_log(f"v2\n{json.dumps(commit(checkpoint))}".encode()).sinks == ()

"""The flows of a pipeline are restored where the next update looks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.exceptions import RestoreRefused
from tests.unit.checkpoints.restoring import is_sound_at, run_batches
from tests.unit.launch.restored_stream import Stream

AT = "_checkpoints/spark_catalog/default"
BRONZE, SILVER = "spark_catalog.default.bronze", "spark_catalog.default.late_rows"
FLOWS = {BRONZE: f"{AT}/bronze/bronze/0", SILVER: f"{AT}/silver/late_rows/2"}


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path, FLOWS, application="/dags/pipeline.yml")


def test_a_backup_holds_each_flow_under_its_querys_name(stream: Stream) -> None:
    assert [query.folder for query in stream.backup.queries] == [BRONZE, SILVER]


def test_a_restored_flow_is_where_spark_looks_and_is_claimed(stream: Stream) -> None:
    switched = stream.switch()

    assert stream.checkpoint != stream.old
    assert stream.is_at(1)
    claims = {claim.query: claim.checkpoint for claim in stream.home.claims(2)}
    assert claims == {query: f"file:{stream.checkpoint}/{place}" for query, place in FLOWS.items()}
    assert switched.deployment.application == "/dags/pipeline.yml"


def test_a_restore_can_be_undone(stream: Stream) -> None:
    stream.switch()
    stream.undo()

    assert stream.checkpoint == stream.old
    assert stream.is_at(3)
    assert {claim.query for claim in stream.home.claims(3)} == set(FLOWS)


def test_an_older_version_of_a_flow_is_restored_as_the_version_that_counts(
    stream: Stream,
) -> None:
    """A full refresh has begun a new version since the backup."""
    newer = f"{AT}/bronze/bronze/1"
    run_batches(Path(stream.old) / newer, 0, "n-0-0-0-1")
    stream.deploy(2, checkpoint=stream.old, application="/dags/pipeline.yml")
    stream.claim(BRONZE, "n-0-0-0-1", f"file:{stream.old}/{newer}", deployment=2)

    with pytest.raises(RestoreRefused, match="query_id_differs"):
        stream.switch()
    stream.switch(accept=["query_id_differs"])

    assert is_sound_at(Path(stream.checkpoint) / newer, 1)
    assert not (Path(stream.checkpoint) / FLOWS[BRONZE]).exists()


def test_a_flow_that_the_pipeline_does_not_run_is_not_restored_out_of_sight(tmp_path: Path) -> None:
    stream = Stream(tmp_path, FLOWS, application="/dags/pipeline.yml")
    stream.deploy(2, checkpoint=f"{stream.uri}/fresh", application="/dags/pipeline.yml")

    with pytest.raises(RestoreRefused, match="runs no such flow"):
        stream.switch()

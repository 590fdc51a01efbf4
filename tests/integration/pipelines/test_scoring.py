from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.testing import StreamTester, compare_rows, undo_last_commit
from tests.integration.pipelines.conftest import Feeding

pytestmark = pytest.mark.usefixtures("has_pandas")


@pytest.mark.nightly("Two models and two queries.")
def test_two_ways_to_score_give_what_a_batch_gives_and_a_new_model_is_named(
    stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    jobs, inputs = dags / "scoring" / "jobs", ("--input", tmp_path / "in")
    feed("sensors", tmp_path / "in", range(3))
    for model, limit in (("first", "66000"), ("second", "61000")):
        given = ("--model", tmp_path / model, "--limit", limit)
        stream_tester.run(jobs / "train_model.py", *inputs, *given, checkpoint=tmp_path / "unused")
    first = (*inputs, "--model", tmp_path / "first", "--output")
    feed("sensors", tmp_path / "in", range(3, 5))
    for by in ("mllib", "pandas"):
        given = (*first, tmp_path / by, "--by", by)
        stream_tester.run(jobs / "score_readings.py", *given, checkpoint=tmp_path / f"of_{by}")
    batch = stream_tester.run_batch(jobs / "score_readings.py", *first, tmp_path)["scores"]

    assert 0 < sum(row["score"] > 0.5 for row in batch) < len(batch)
    for by in ("mllib", "pandas"):
        assert not compare_rows(stream_tester.rows(tmp_path / by), batch)

    undo_last_commit(tmp_path / "of_mllib", "scores")
    feed("sensors", tmp_path / "in", range(5, 6))
    second = (*inputs, "--model", tmp_path / "second", "--output", tmp_path / "mllib")
    stream_tester.run(jobs / "score_readings.py", *second, checkpoint=tmp_path / "of_mllib")
    found = stream_tester.rows(tmp_path / "mllib")
    assert not compare_rows([row for row in found if row["model"] == "first"], batch)
    assert {row["model"] for row in found} == {"first", "second"}

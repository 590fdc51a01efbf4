"""The size of a stream does not follow batches whose duration is their interval."""

from __future__ import annotations

from airflow_streaming.supervision.scaling.sizing import measurable
from tests.unit.supervision.builders import a_batch, a_query


def test_batches_of_real_time_mode_are_left_out() -> None:
    queries = (a_query(name="plain"), a_query(name="live", checkpoint_interval_s=30.0))
    progress = [a_batch(query="plain"), a_batch(query="live"), a_batch(query="gone")]

    assert [batch.query for batch in measurable(progress, queries)] == ["plain", "gone"]

"""The group of a pause: a setup, the tasks, and a teardown."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_streaming.orchestration.batch_pause import paused_stream
from airflow_streaming.spec import StreamSpec

STREAM = StreamSpec(
    name="orders", application="/jobs/orders.py", home="/srv/streams", runtime="spark-4.3"
)


def test_the_tasks_run_between_a_setup_and_its_teardown() -> None:
    with DAG("vacuum", schedule=None) as dag:
        with paused_stream(STREAM, longest=timedelta(minutes=30)):
            compact = EmptyOperator(task_id="compact")
            compact >> EmptyOperator(task_id="vacuum")
        begin, end = dag.get_task("paused.begin"), dag.get_task("paused.end")
        vacuum = dag.get_task("paused.vacuum")

    assert begin.is_setup
    assert end.is_teardown
    assert end.on_failure_fail_dagrun
    assert begin.downstream_task_ids == {"paused.compact", "paused.end"}
    assert vacuum.downstream_task_ids == {"paused.end"}
    assert (begin.stream, begin.home) == ("orders", "/srv/streams")
    assert begin.longest == timedelta(minutes=30)

"""
A model is trained by a batch dag and scores a stream; another model goes through blue-green.

``scoring_train`` writes a model and names it in the asset ``sensor_model``. To use it, set the variable
``sensor_model`` and trigger ``scoring_blue_green``: both models score the same readings side by side,
their outputs are compared day by day, and consumers are led to the new one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Asset

from airflow_streaming.options import CutoverOptions, GreenStart, SwitchMethod
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import CompareTerms, HealthRules, ReadyTerms, SoakTerms, StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
INPUT = "{{ var.value.get('streams_input', '/opt/airflow/input') }}"
MODELS = "{{ var.value.get('models', '/opt/airflow/models') }}"
JOBS = Path(__file__).parent / "jobs"

with DAG(
    "scoring_train",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["streaming", "example"],
    doc_md=__doc__,
):
    BashOperator(
        task_id="train",
        # The Python of the Spark runtime: pyspark is never installed beside Airflow.
        bash_command='"$PYTHON" "$JOBS/train_model.py" --input "$INPUT/sensors" --model "$MODEL"',
        env={
            "PYTHON": "{{ var.value.get('spark_python', '/opt/spark-4.3/bin/python') }}",
            "JOBS": str(JOBS),
            "INPUT": INPUT,
            "MODEL": MODELS + "/{{ ts_nodash }}",
        },
        append_env=True,
        outlets=[Asset("sensor_model")],
    )

CUTOVER = CutoverOptions(
    way=SwitchMethod.PARALLEL,
    # Both models score the same readings, and consumers get all of them by one model.
    start=GreenStart.FRESH,
    ready=ReadyTerms(well_for=timedelta(minutes=5), batches=5),
    compare=CompareTerms(
        stream="scoring",
        format="parquet",
        time="ts",
        # A handful of readings come a day late. A bucket of so few would differ with any model.
        bucket=timedelta(days=7),
        # They come in any file, so one side may have them and the other not yet.
        settled=timedelta(hours=25),
        # Another model gives other scores: a quarter of a device's sum may differ, and no row may.
        keys=("device",),
        sums=("score",),
        tolerance=0.25,
    ),
)

globals().update(
    stream_dags(
        StreamSpec(
            name="scoring",
            application="jobs/score_readings.py",
            application_args=[
                *("--input", f"{INPUT}/sensors"),
                *("--model", MODELS + "/{{ var.value.get('sensor_model', 'first') }}"),
                *("--output", "{output}"),
            ],
            home=HOME,
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": 2},
            health=HealthRules.recommended(backlog_files=50),
        ),
        soak=SoakTerms(batches=3, at_least=timedelta(minutes=2), at_most=timedelta(minutes=15)),
        approvers=[],
        cutover=CUTOVER,
    )
)

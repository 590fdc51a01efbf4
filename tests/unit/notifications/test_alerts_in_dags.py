"""Notifiers on an operator pass through everything that Airflow does with a dag."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.http.notifications import HttpNotifier
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.serialization.serialized_objects import DagSerialization

DAG_FILE: Final = """
from datetime import UTC, datetime

from airflow.providers.http.notifications import HttpNotifier
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG

from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import StreamSpec

mail = SmtpNotifier(
    to="on-call@example.com",
    from_email="streams@example.com",
    subject="{{ alert_subject }}",
    html_content="<pre>{{ alert_body | e }}</pre>",
)
webhook = HttpNotifier(http_conn_id="chat", json={"text": "{{ alert_subject }}"})


def page(context):
    print(context["alert_body"])


with DAG("told", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    SparkStreamOperator(
        task_id="orders",
        stream=StreamSpec(
            name="orders", application="/jobs/orders.py", home="/streams", runtime="spark-4.3"
        ),
        on_unhealthy=[mail, webhook],
        on_restart=webhook,
        on_gave_up=[mail, page],
        on_recovered=page,
    )
"""


@pytest.fixture
def dag(tmp_path: Path) -> Any:
    path = tmp_path / "told.py"
    path.write_text(DAG_FILE)
    bag = DagBag(path)
    assert bag.import_errors == {}
    return bag.dags["told"]


def test_a_dag_with_notifiers_is_serialized_without_them(dag: Any) -> None:
    text = json.dumps(DagSerialization.to_dict(dag))

    back = DagSerialization.from_dict(json.loads(text))

    assert back.task_ids == ["orders"]
    assert "on-call@example.com" not in text
    assert "on_unhealthy" not in text


def test_the_task_that_runs_has_its_notifiers(dag: Any) -> None:
    task = dag.get_task("orders")

    assert [type(notifier) for notifier in task.on_unhealthy] == [SmtpNotifier, HttpNotifier]
    assert isinstance(task.on_restart, HttpNotifier)
    assert isinstance(task.on_gave_up[0], SmtpNotifier)
    assert callable(task.on_gave_up[1])
    assert callable(task.on_recovered)


def test_a_copied_task_keeps_its_notifiers(dag: Any) -> None:
    task = copy.deepcopy(dag.get_task("orders"))

    assert [type(notifier) for notifier in task.on_unhealthy] == [SmtpNotifier, HttpNotifier]
    assert task.on_unhealthy[0].subject == "{{ alert_subject }}"

"""
Stop or start a stream by hand, from Airflow's page.

Stopping is remembered in the stream's home: the keep-alive dag stays parked, through its own next
runs and through restarts of Airflow, until a user starts the stream again.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param, task

from airflow_streaming.operators.switch import StartStreamOperator, StopStreamOperator

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"

# [START howto_switch]
with DAG(
    "stream_switch",
    schedule=None,
    catchup=False,
    params={
        "stream": Param(
            "retail_revenue", type="string", title="Stream", description="Name of the stream."
        ),
        "action": Param(
            "stop",
            enum=["stop", "start"],
            title="Action",
            description="Stop it at a batch boundary, or let it run again.",
        ),
        "reason": Param(
            "by hand",
            type="string",
            title="Reason",
            description="Goes into the stream's timeline.",
        ),
    },
    tags=["streaming"],
    doc_md=__doc__,
):

    @task.branch
    def choose(action: str) -> str:
        """Return the task for the action."""
        return f"{action}_stream"

    which = {"home": HOME, "stream": "{{ params.stream }}", "reason": "{{ params.reason }}"}
    choose("{{ params.action }}") >> [
        StopStreamOperator(task_id="stop_stream", **which),
        StartStreamOperator(task_id="start_stream", **which),
    ]
# [END howto_switch]

"""The sentence on a DAG that names another deployment than the live one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.records.deployment import Deviation, Override, difference_to_dag
from airflow_streaming.supervision.stream_status import StreamStatus
from tests.unit.home.make import make_deployment

TO_43 = Override(what="runtime", value="spark-4.3", dag="spark-4.2")
ADDED = Override(what="conf.spark.a", value="1", dag=None)


def deviation(deployment: int, *values: Override) -> Deviation:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return Deviation(number=1, deployment=deployment, values=values, by="kim", at=at)


@pytest.mark.parametrize(
    ("overrides", "recorded", "told"),
    [
        pytest.param((), None, "", id="nothing is known"),
        pytest.param((TO_43,), None, "runtime: live spark-4.3, DAG spark-4.2", id="by a form"),
        pytest.param(
            (TO_43,), deviation(1, ADDED), "runtime: live spark-4.3", id="of an older deployment"
        ),
        pytest.param(
            (TO_43,), deviation(2, ADDED), "spark.a: live 1, DAG not set", id="looked at since"
        ),
        pytest.param((TO_43,), deviation(2), "", id="the DAG follows"),
    ],
)
def test_the_newest_knowledge_of_the_live_deployment_counts(
    overrides: tuple[Override, ...], recorded: Deviation | None, told: str
) -> None:
    found = difference_to_dag(make_deployment(2, overrides=overrides), recorded)

    assert told in found
    assert bool(found) == bool(told)
    assert not found or found.startswith("The DAG names another deployment than the live one (2): ")


@pytest.mark.parametrize("is_live", [True, False])
def test_a_lane_that_is_not_live_is_not_compared_with_the_dag(*, is_live: bool) -> None:
    status = StreamStatus(
        stream="orders.green",
        now=datetime(2026, 3, 1, tzinfo=UTC),
        rules=HealthRules(),
        policy=RestartPolicy(),
        seen=None,
        desired=None,
        circuit=None,
        deployment=make_deployment(2, overrides=(TO_43,)),
        is_live=is_live,
    )

    assert bool(status.dag_differs) is is_live

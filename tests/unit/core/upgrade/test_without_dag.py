"""What of a way back only the dag can do."""

from __future__ import annotations

import pytest

from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts, SinkHabit
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.terms import RollbackPlan, RollbackWay, UpgradeTerms
from airflow_streaming.core.upgrade.without_dag import why_only_dag
from tests.unit.home.make import make_deployment

MADE = frozenset({Stage.BACKED_UP, Stage.STOPPED, Stage.APPLYING, Stage.LAUNCHED})


def terms(habit: SinkHabit, sink: str = "foreachbatch", way: RollbackWay = RollbackWay.REWIND) -> (
    UpgradeTerms
):  # fmt: skip
    return UpgradeTerms(
        change=1,
        proposed=make_deployment(2),
        rollback=RollbackPlan(way=way, reason="So it was found."),
        sinks=(SinkFacts(query="counts", sink=sink, habit=habit),),
    )


@pytest.mark.parametrize(
    ("asked", "stages", "is_dags"),
    [
        pytest.param(terms(SinkHabit.FILE_LOG, "file"), MADE, False, id="files"),
        pytest.param(terms(SinkHabit.OVERWRITES), MADE, False, id="overwrites"),
        pytest.param(terms(SinkHabit.NOTHING, "console"), MADE, False, id="keeps nothing"),
        pytest.param(terms(SinkHabit.APPENDS, "kafka"), MADE, False, id="Kafka, replay accepted"),
        pytest.param(terms(SinkHabit.REMEMBERS), MADE, True, id="remembers"),
        pytest.param(terms(SinkHabit.APPENDS), MADE, True, id="appends"),
        pytest.param(terms(SinkHabit.UNKNOWN), MADE, True, id="nothing is said of it"),
        pytest.param(
            terms(SinkHabit.REMEMBERS, way=RollbackWay.RESUME), MADE, False, id="it resumes"
        ),
        pytest.param(terms(SinkHabit.REMEMBERS), MADE - {Stage.APPLYING}, False, id="not made yet"),
        pytest.param(terms(SinkHabit.REMEMBERS), MADE | {Stage.RESTORED}, False, id="put back"),
        pytest.param(terms(SinkHabit.REMEMBERS), MADE | {Stage.LEFT}, False, id="left"),
    ],
)
def test_a_sink_that_needs_its_authors_function_needs_the_dag(
    asked: UpgradeTerms, stages: frozenset[Stage], is_dags: bool
) -> None:
    assert ("'counts'" in why_only_dag(asked, stages)) == is_dags

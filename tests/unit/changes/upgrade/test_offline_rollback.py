"""What of a way back only the dag can do."""

from __future__ import annotations

import pytest

from airflow_streaming.changes.upgrade.decide import why_only_dag
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.records.upgrade import (
    RollbackMethod,
    RollbackPlan,
    SinkFacts,
    UpgradeTerms,
)
from airflow_streaming.model.records.upgrade_table import Stage
from tests.unit.home.make import make_deployment

MADE = frozenset({Stage.BACKED_UP, Stage.STOPPED, Stage.APPLYING, Stage.LAUNCHED})


def terms(habit: SinkReplaySemantics, sink: str = "foreachbatch", way: RollbackMethod = RollbackMethod.REWIND) -> (
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
        pytest.param(terms(SinkReplaySemantics.FILE_LOG, "file"), MADE, False, id="files"),
        pytest.param(terms(SinkReplaySemantics.OVERWRITES), MADE, False, id="overwrites"),
        pytest.param(
            terms(SinkReplaySemantics.NOTHING, "console"), MADE, False, id="keeps nothing"
        ),
        pytest.param(
            terms(SinkReplaySemantics.APPENDS, "kafka"), MADE, False, id="Kafka, replay accepted"
        ),
        pytest.param(terms(SinkReplaySemantics.REMEMBERS), MADE, True, id="remembers"),
        pytest.param(terms(SinkReplaySemantics.APPENDS), MADE, True, id="appends"),
        pytest.param(terms(SinkReplaySemantics.UNKNOWN), MADE, True, id="nothing is said of it"),
        pytest.param(
            terms(SinkReplaySemantics.REMEMBERS, way=RollbackMethod.RESUME),
            MADE,
            False,
            id="it resumes",
        ),
        pytest.param(
            terms(SinkReplaySemantics.REMEMBERS), MADE - {Stage.APPLYING}, False, id="not made yet"
        ),
        pytest.param(
            terms(SinkReplaySemantics.REMEMBERS), MADE | {Stage.RESTORED}, False, id="put back"
        ),
        pytest.param(terms(SinkReplaySemantics.REMEMBERS), MADE | {Stage.LEFT}, False, id="left"),
    ],
)
def test_a_sink_that_needs_its_authors_function_needs_the_dag(
    asked: UpgradeTerms, stages: frozenset[Stage], is_dags: bool
) -> None:
    assert ("'counts'" in why_only_dag(asked, stages)) == is_dags

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.changes.upgrade.rollback_plan import needs_rewind
from airflow_streaming.checkpoints.read.report import (
    Checkpoint,
    Finding,
    FindingCode,
    Operator,
    StateStore,
    StoreType,
)
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.records.upgrade import SinkFacts

STORE = StateStore(
    name="default", store=StoreType.HDFS, partitions=2, newest_version=6, files=12, size=900
)
OPERATOR = Operator(id=0, name="stateStoreSave", partitions=2, stores=(STORE,), schema_version=2)
BEFORE = Checkpoint(
    uri="/checkpoint",
    query_id="id-1",
    offset_log_version=1,
    commit_log_version=1,
    state_format=1,
    last_planned_batch=5,
    last_committed_batch=5,
    operators=(OPERATOR,),
    is_stateful=True,
    shuffle_partitions=2,
    conf={"spark.sql.shuffle.partitions": "2"},
)


def sink(habit: SinkReplaySemantics) -> SinkFacts:
    return SinkFacts(query="counts", sink="foreachbatch", habit=habit)


def test_nothing_is_put_back_when_the_new_deployment_left_no_trace() -> None:
    assert needs_rewind(BEFORE, BEFORE, sink(SinkReplaySemantics.REMEMBERS)) == ""


def test_more_or_other_files_of_the_same_state_are_no_trace() -> None:
    more = replace(STORE, files=40, size=9000, newest_version=7, store=StoreType.UNKNOWN)
    after = replace(BEFORE, files=90, operators=(replace(OPERATOR, stores=(more,)),))
    assert needs_rewind(BEFORE, after) == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"last_committed_batch": 6, "last_planned_batch": 6}, "has committed batches up to 6"),
        ({"offset_log_version": 2}, "offset_log_version is 2 now and was 1"),
        ({"commit_log_version": 2}, "commit_log_version is 2"),
        ({"state_format": 2}, "state_format is 2"),
        ({"query_id": "id-2"}, "query_id is id-2"),
        ({"shuffle_partitions": 5}, "shuffle_partitions is 5"),
        ({"conf": {**BEFORE.conf, "b": "1"}}, "pins other settings than before: b"),
        ({"operators": (replace(OPERATOR, schema_version=3),)}, "was written anew"),
        ({"operators": (OPERATOR, replace(OPERATOR, id=1))}, "was written anew"),
        (
            {"problems": (Finding(code=FindingCode.SINK_LOG_AHEAD, path="offsets", message="A gap."),)},
            "The checkpoint is damaged: A gap.",
        ),
    ],
    ids=[
        "committed", "offset log", "commit log", "state format", "query", "partitions", "conf",
        "schema", "operator", "damage",
    ],
)  # fmt: skip
def test_every_trace_in_the_checkpoint_is_a_reason(changes: dict[str, Any], said: str) -> None:
    assert said in needs_rewind(
        BEFORE, replace(BEFORE, **changes), sink(SinkReplaySemantics.NOTHING)
    )


@pytest.mark.parametrize(
    ("habit", "is_harmless"),
    [
        (SinkReplaySemantics.FILE_LOG, True),
        (SinkReplaySemantics.OVERWRITES, True),
        (SinkReplaySemantics.NOTHING, True),
        (SinkReplaySemantics.APPENDS, False),
        (SinkReplaySemantics.REMEMBERS, False),
        (SinkReplaySemantics.UNKNOWN, False),
    ],
)
def test_a_batch_that_was_begun_is_run_again_where_the_sink_does_not_mind(
    habit: SinkReplaySemantics, is_harmless: bool
) -> None:
    begun = replace(BEFORE, last_planned_batch=6)
    assert (needs_rewind(BEFORE, begun, sink(habit)) == "") is is_harmless
    # It was planned by the old deployment; the new one may have begun it all the same.
    assert (needs_rewind(begun, begun, sink(habit)) == "") is is_harmless
    assert "may have started batch 6" in needs_rewind(BEFORE, begun)


@pytest.mark.parametrize(
    ("logs", "is_needed"),
    [((5, 5), False), ((6, 6), False), ((5, 6), True), ((None, 0), True), ((None, None), False)],
)
def test_a_sinks_log_with_a_batch_of_the_new_code_is_put_back(
    logs: tuple[int | None, int | None], is_needed: bool
) -> None:
    reason = needs_rewind(
        BEFORE, BEFORE, sink(SinkReplaySemantics.FILE_LOG), sink_before=logs[0], sink_after=logs[1]
    )
    assert bool(reason) is is_needed

"""The real lanes and the real engine of a dag, on a home whose drivers are played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.hooks.stream import SparkStreamHook
from airflow_streaming.operators._cutover.engine import open_engine
from airflow_streaming.operators._cutover.lanes import DagLanes, HomeLanes
from airflow_streaming.operators.cutover import CutoverStepOperator
from airflow_streaming.spec import StreamSpec
from tests.unit.cutover.cutting import Cutting


@pytest.fixture
def stream(tmp_path: Path) -> Cutting:
    """Return a stream whose green runs beside blue."""
    cut = Cutting(tmp_path)
    cut.begin()
    cut.advance(CutoverState.CATCHING_UP)
    return cut


def test_a_word_needs_nothing_but_the_home(stream: Cutting) -> None:
    lanes = HomeLanes(stream.uri, "orders", None, by="ann")

    lanes.say("abort", "Wrong totals.", 1)

    newest = lanes.home.steps(1)[-1]
    assert (newest.after, newest.by) == (CutoverState.ABORTING, "ann")
    with pytest.raises(CutoverRefused):
        lanes.say("promote", "All the same.", 1)


def dag_lanes(stream: Cutting) -> tuple[StreamSpec, DagLanes]:
    spec = StreamSpec(name="orders", application="o.py", home=stream.uri, runtime="spark-4.3")
    return spec, DagLanes({"orders": SparkStreamHook(spec, by="kim")})


def test_the_engine_of_a_task_sees_both_lanes(stream: Cutting) -> None:
    spec, lanes = dag_lanes(stream)
    task = CutoverStepOperator(
        task_id="shadow", until="shadowing", preflight_task_id="preflight", stream=spec
    )
    context: Any = {}
    memory = {"lanes": {}, "errors": {"orders": 2}}

    engine = open_engine(task, lanes, context, memory, {})
    view, _ = engine.look(1)

    assert view.state is CutoverState.CATCHING_UP
    learnt = engine.memory()
    assert learnt["errors"] == {"orders": 2}
    assert set(learnt["lanes"]) >= {"orders", "orders.green"}


def test_a_stream_of_another_dag_is_refused(stream: Cutting) -> None:
    _, lanes = dag_lanes(stream)

    assert lanes.home.name == lanes.leader == "orders"
    assert lanes.open("orders", "orders.green").home.name == "orders.green"
    with pytest.raises(CutoverRefused, match="Go on with the dag that began it"):
        lanes.open("returns", "returns")

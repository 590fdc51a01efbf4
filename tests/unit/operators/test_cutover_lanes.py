"""The real lanes and the real engine of a dag, on a home whose drivers are played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.home.home import open_home
from airflow_streaming.hooks.stream import SparkStreamHook
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverCommand, CutoverState
from airflow_streaming.operators.common.cutover import open_engine
from airflow_streaming.operators.common.cutover_lanes import DagLanes
from airflow_streaming.operators.cutover import CutoverStepOperator
from airflow_streaming.services.changes import command_cutover
from airflow_streaming.spec import StreamSpec
from tests.unit.changes.cutover.cutting import Cutting


@pytest.fixture
def stream(tmp_path: Path) -> Cutting:
    """Return a stream whose green runs beside blue."""
    cut = Cutting(tmp_path)
    cut.begin()
    cut.advance(CutoverState.CATCHING_UP)
    return cut


def test_a_word_needs_nothing_but_the_home(stream: Cutting) -> None:
    home = open_home(stream.uri).stream("orders")

    command_cutover(home, 1, CutoverCommand.ABORT, by="ann", reason="Wrong totals.")

    newest = home.steps(1)[-1]
    assert (newest.after, newest.by) == (CutoverState.ABORTING, "ann")
    with pytest.raises(CutoverRefused):
        command_cutover(home, 1, CutoverCommand.PROMOTE, by="ann", reason="All the same.")
    assert home.steps(1)[-1] == newest


def test_a_refused_command_names_those_that_can_be_given(stream: Cutting) -> None:
    home = open_home(stream.uri).stream("orders")
    can = CUTOVER.commands_in(CutoverState.CATCHING_UP)

    with pytest.raises(CutoverRefused) as refused:
        command_cutover(home, 1, CutoverCommand.KEEP, by="ann", reason="All the same.")

    assert can == ("abort",)
    told = CUTOVER.refusal(1, "orders", CutoverState.CATCHING_UP, "keep")
    assert str(refused.value) == str(told)


def test_every_command_is_one_of_the_command_line_and_of_the_table() -> None:
    assert {command.value for command in CutoverCommand} == set(CUTOVER.commands)


def test_a_word_said_again_changes_nothing_whatever_reason_it_gives(stream: Cutting) -> None:
    home = open_home(stream.uri).stream("orders")
    command_cutover(home, 1, CutoverCommand.ABORT, by="ann", reason="Wrong totals.")
    said = home.steps(1)

    command_cutover(home, 1, CutoverCommand.ABORT, by="bob", reason="They are wrong.")

    assert home.steps(1) == said


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
    learned = engine.memory()
    assert learned["errors"] == {"orders": 2}
    assert set(learned["lanes"]) >= {"orders", "orders.green"}


def test_a_stream_of_another_dag_is_refused(stream: Cutting) -> None:
    _, lanes = dag_lanes(stream)

    assert lanes.home.name == lanes.leader == "orders"
    assert lanes.open("orders", "orders.green").home.name == "orders.green"
    with pytest.raises(CutoverRefused, match="Continue it with the DAG that started it"):
        lanes.open("returns", "returns")

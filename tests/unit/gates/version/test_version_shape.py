from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.checkpoints.read.report import Operator, StoreType
from airflow_streaming.gates.version.shape import shapes_of
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan
from tests.unit.gates.version.cases import (
    a_checkpoint,
    a_store,
    an_operator,
    an_unnamed_join,
    join_schemas,
)
from tests.unit.gates.version.measured import LIKE, measured_checkpoints, plan_of

_JOINS = {
    "inner_join",
    "left_outer_join",
    "right_outer_join",
    "full_outer_join",
    "left_semi_join",
}


def names_of(*operators: Operator) -> set[str]:
    return {shape.name for shape in shapes_of(a_checkpoint(*operators), None)}


def of_variables(*sorts: str, ttl: bool = False, time: str = "NoTime") -> Operator:
    told = [{"stateName": sort, "stateVariableType": sort, "ttlEnabled": ttl} for sort in sorts]
    state = {"stateVariables": told, "timeMode": time}
    return an_operator("transformWithStateInPandasExec", state=state)


@pytest.mark.parametrize(
    ("operators", "names"),
    [
        pytest.param((), {"stateless", "stateless_file_sink"}, id="without state"),
        pytest.param((an_operator("globalLimit"),), {"limit"}, id="named"),
        pytest.param((an_operator("symmetricHashJoin"),), _JOINS, id="a join of unknown type"),
        pytest.param((an_unnamed_join(),), _JOINS, id="a join of Spark 3.5"),
        pytest.param(
            (an_operator("stateStoreSave"), an_operator("dedupe", id=1)),
            {"deduplicate_aggregate"},
            id="a measured chain",
        ),
        pytest.param(
            (an_operator("dedupe"), an_operator("stateStoreSave", id=1)),
            {""},
            id="the same chain the other way round",
        ),
        pytest.param((an_operator(None), an_operator(None, id=1)), {""}, id="a chain of Spark 3.5"),
        pytest.param((an_operator("transformWithStateExec"),), {""}, id="of the Scala side"),
        pytest.param((of_variables("ValueState"),), {"transform_with_state"}, id="without a list"),
        pytest.param(
            (of_variables("MapState", "ListState"),),
            {"transform_with_state_list"},
            id="with a list",
        ),
        pytest.param(
            (of_variables("ValueState", ttl=True, time="ProcessingTime"),),
            {"transform_with_state_ttl"},
            id="with a time to live",
        ),
        pytest.param(
            (of_variables("ValueState", time="EventTime"),),
            {"transform_with_state_timers"},
            id="with timers",
        ),
        pytest.param(
            (of_variables("ListState", time="EventTime"),), {""}, id="with timers and a list"
        ),
        pytest.param(
            (an_operator("transformWithStateInPandasExec", state={"stateVariables": "?"}),),
            {
                "transform_with_state",
                "transform_with_state_list",
                "transform_with_state_timers",
                "transform_with_state_ttl",
            },
            id="that does not tell its variables",
        ),
    ],
)
def test_a_checkpoint_tells_what_shapes_it_may_have(
    operators: tuple[Operator, ...], names: set[str]
) -> None:
    assert names_of(*operators) == names


def test_what_spark_3_5_keeps_in_a_default_store_may_be_many_things() -> None:
    found = names_of(an_operator(None))

    assert {"window_aggregate", "deduplicate", "session_window", "limit"} < found
    assert not found & _JOINS


def test_every_measured_query_is_recognized() -> None:
    for measured in measured_checkpoints():
        shape, _, store = measured.cell.partition("/")
        alone = shapes_of(measured.checkpoint, None, measured.schemas)
        planned = shapes_of(measured.checkpoint, measured.plan)

        # 3.5 does not name the operators of a chain, and a file sink behind state is no shape.
        chains = ("deduplicate_aggregate", "join_aggregate", "aggregate_aggregate")
        is_dark = measured.version == "3.5" and shape in chains
        wanted = shape.removesuffix("_file_sink") if shape.startswith("window") else shape
        wanted = LIKE.get(wanted, wanted)
        assert is_dark or wanted in {each.name for each in alone}, measured.name
        assert wanted in {each.name for each in planned}, measured.name
        assert {each.store for each in (*alone, *planned)} == {store}, measured.name


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (4, {"deduplicate", "deduplicate_watermark"}),
        (5, {"deduplicate_wide", "deduplicate_alike"}),
    ],
)
def test_the_schema_tells_how_many_columns_deduplicate(columns: int, names: set[str]) -> None:
    key = tuple(Column(name=f"c{number}", type="string") for number in range(columns))
    schema = replace(join_schemas(nullable=True)[0], store="default", key=key)

    shapes = shapes_of(a_checkpoint(an_operator("dedupe")), None, [schema])

    assert {shape.name for shape in shapes} == names


def test_a_plan_tells_the_type_of_a_join() -> None:
    shapes = shapes_of(a_checkpoint(an_unnamed_join()), plan_of("left_semi_join"))

    assert [shape.name for shape in shapes] == ["left_semi_join"]


@pytest.mark.parametrize("join_type", ["left_anti", "", "cross"])
def test_a_join_of_a_type_that_was_not_measured_is_like_none(join_type: str) -> None:
    plan = replace(
        plan_of("inner_join"),
        operators=(OperatorPlan(sort=OperatorKind.JOIN, join_type=join_type),),
    )

    assert [shape.name for shape in shapes_of(a_checkpoint(an_unnamed_join()), plan)] == [""]


def test_a_chain_with_an_outer_join_is_like_none() -> None:
    inner = plan_of("join_aggregate")
    outer = tuple(
        replace(each, join_type=each.join_type and "left_outer") for each in inner.operators
    )

    assert [s.name for s in shapes_of(a_checkpoint(), inner)] == ["join_aggregate"]
    assert [s.name for s in shapes_of(a_checkpoint(), replace(inner, operators=outer))] == [""]


@pytest.mark.parametrize(
    ("stores", "state_format", "provider", "store"),
    [
        ((StoreType.HDFS,), 1, "", "hdfs"),
        ((StoreType.ROCKSDB,), 1, "", "rocksdb"),
        ((StoreType.ROCKSDB_CHANGELOG,), 1, "", "rocksdb_changelog"),
        ((StoreType.ROCKSDB_CHANGELOG,), 2, "", "format_2"),
        ((StoreType.ROCKSDB,), 2, "", "rocksdb in format_2"),
        ((StoreType.HDFS, StoreType.ROCKSDB), 1, "", "hdfs+rocksdb"),
        ((StoreType.UNKNOWN,), 1, "x.RocksDBStateStoreProvider", "rocksdb"),
        ((StoreType.UNKNOWN,), 1, "x.HDFSBackedStateStoreProvider", "hdfs"),
        ((StoreType.UNKNOWN,), 1, "com.acme.Provider", "unknown"),
    ],
)
def test_the_store_is_told_by_its_files_and_else_by_its_provider(
    stores: tuple[StoreType, ...], state_format: int, provider: str, store: str
) -> None:
    operator = an_operator(stores=tuple(a_store(f"s{n}", each) for n, each in enumerate(stores)))
    checkpoint = a_checkpoint(
        operator,
        state_format=state_format,
        conf={"spark.sql.streaming.stateStore.providerClass": provider},
    )

    assert {shape.store for shape in shapes_of(checkpoint, None)} == {store}

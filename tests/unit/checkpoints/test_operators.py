"""Operator metadata, and moving what names its files by absolute paths."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_streaming.checkpoints.read.operators import (
    OperatorMetadata,
    OperatorStore,
    parse_operator_metadata,
    with_schema_paths,
)
from airflow_streaming.exceptions import RecordError
from tests.unit.checkpoints.parsers import STATE_VARIABLES

JOIN = (
    b'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"symmetricHashJoin"},"stateStoreInfo":['
    b'{"storeName":"left-keyToNumValues","numColsPrefixKey":0,"numPartitions":3},'
    b'{"storeName":"right-keyToNumValues","numColsPrefixKey":1,"numPartitions":3}]}'
)
SCHEMA = "file:/data/orders/state/0/_stateSchema/default/0_0f52bea6-386a-48c0-bd3c-c51bff4e2053"


@pytest.fixture
def variables() -> bytes:
    return (STATE_VARIABLES / "operator_metadata-4.3.0").read_bytes()


def changed(*steps: str | int, to: Any) -> bytes:
    """Return the metadata of a join with one value changed."""
    about = json.loads(JOIN.partition(b"\n")[2])
    inner = about
    for step in steps[:-1]:
        inner = inner[step]
    inner[steps[-1]] = to
    return b"v2\n" + json.dumps(about).encode()


def test_the_stores_of_an_operator_are_told() -> None:
    left = OperatorStore(name="left-keyToNumValues", prefix_columns=0, partitions=3)
    right = OperatorStore(name="right-keyToNumValues", prefix_columns=1, partitions=3)

    assert parse_operator_metadata(JOIN) == OperatorMetadata(
        version=1, id=0, name="symmetricHashJoin", stores=(left, right)
    )


def test_an_operator_with_state_variables_tells_them(variables: bytes) -> None:
    found = parse_operator_metadata(variables)

    (store,) = found.stores
    assert (found.version, found.name) == (2, "transformWithStateInPandasExec")
    assert store.schema_paths == (SCHEMA,)
    assert found.properties["timeMode"] == "ProcessingTime"
    assert [state["stateName"] for state in found.properties["stateVariables"]] == [
        "mp",
        "zähler",
        "ls",
        "$procTimers_keyToTimestamp",
    ]


def test_paths_are_rewritten_and_nothing_else(variables: bytes) -> None:
    moved = with_schema_paths(
        variables, lambda path: path.replace("file:/data/", "s3a://köln/%20/")
    )

    assert moved == variables.replace(b"file:/data/", "s3a://köln/%20/".encode())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(JOIN, id="version 1"),
        pytest.param(JOIN + b"\n", id="with a line break"),
        pytest.param(changed("stateStoreInfo", 0, "stateSchemaFilePaths", to=None), id="none"),
        pytest.param(changed("stateStoreInfo", 0, "stateSchemaFilePaths", to=[]), id="no path"),
        pytest.param(
            changed("stateStoreInfo", 0, "stateSchemaFilePaths", to=["file:/b"]), id="elsewhere"
        ),
    ],
)
def test_where_there_is_nothing_to_rewrite_the_bytes_stay(data: bytes) -> None:
    assert with_schema_paths(data, lambda path: path.replace("file:/a", "file:/c")) == data


def test_paths_that_no_reader_would_take_are_not_written(variables: bytes) -> None:
    with pytest.raises(RecordError, match="with other paths is larger than"):
        with_schema_paths(variables, lambda path: path * 20_000)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"v3\n{}", "of version v3; this release reads v1 and v2", id="v3"),
        pytest.param(JOIN[:60], "Not valid JSON", id="cut off"),
        pytest.param(b"v1\n{}", "operatorInfo is a NoneType", id="nothing in it"),
        pytest.param(changed("operatorInfo", "operatorId", to=-1), "below zero", id="a number"),
        pytest.param(changed("operatorInfo", "operatorName", to=1), "operatorName is", id="a name"),
        pytest.param(changed("stateStoreInfo", to={}), "stateStoreInfo is a dict", id="stores"),
        pytest.param(changed("stateStoreInfo", 1, to=7), "stateStoreInfo is a int", id="a store"),
        pytest.param(
            changed("stateStoreInfo", 0, "numPartitions", to=True),
            "numPartitions is a bool",
            id="n",
        ),
        pytest.param(
            changed("stateStoreInfo", 0, "stateSchemaFilePaths", to="x"), "is a str", id="paths"
        ),
        pytest.param(
            changed("stateStoreInfo", 0, "stateSchemaFilePaths", to=[1]), "is a int", id="a path"
        ),
        pytest.param(
            changed("operatorPropertiesJson", to={"a": 1}), "PropertiesJson is a dict", id="object"
        ),
        pytest.param(changed("operatorPropertiesJson", to="{"), "Not valid JSON", id="half"),
        pytest.param(changed("operatorPropertiesJson", to="[]"), "Expected a JSON object", id="l"),
        pytest.param(
            changed("operatorPropertiesJson", to='{"a":' * 90 + "1" + "}" * 90),
            "more than 64 deep",
            id="deep",
        ),
    ],
)
def test_metadata_that_is_none_is_refused_with_the_reason(data: bytes, why: str) -> None:
    for read in (parse_operator_metadata, lambda data: with_schema_paths(data, str)):
        with pytest.raises(RecordError, match=why):
            read(data)

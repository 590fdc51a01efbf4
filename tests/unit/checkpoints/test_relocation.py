"""A checkpoint that names its own files by absolute paths is rewritten for its new place, or not moved."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.checkpoints.read.operators import parse_operator_metadata
from airflow_streaming.checkpoints.restore.relocation import (
    moved,
    names_paths,
    relocated,
    spelled_like,
)
from airflow_streaming.exceptions import RestoreRefused

METADATA = "state/0/_metadata/v2/0"
SCHEMA = "state/0/_stateSchema/default/0_1b4c"


def a_metadata(*schemas: str) -> bytes:
    store = {
        "storeName": "default",
        "numColsPrefixKey": 0,
        "numPartitions": 2,
        "stateSchemaFilePaths": list(schemas),
    }
    about = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"},
        "stateStoreInfo": [store],
        "operatorPropertiesJson": '{"timeMode":"NoTime"}',
    }
    return f"v2\n{json.dumps(about)}".encode()


def has(path: str) -> bool:
    return path == SCHEMA


@pytest.mark.parametrize(
    ("old", "new", "spelled"),
    [
        pytest.param("file:/old/ck", "/new/ck", "file:/new/ck", id="as Hadoop writes local paths"),
        pytest.param("file:/old/ck", "file:///new/ck", "file:/new/ck", id="whatever we are given"),
        pytest.param("file:///old/ck", "/new/ck/", "file:///new/ck", id="three slashes stay"),
        pytest.param("/old/ck", "/new/ck", "/new/ck", id="a plain path stays plain"),
        pytest.param("file:/old/ck", "s3://b/ck", "s3a://b/ck", id="to an object store"),
        pytest.param("s3a://b/ck", "/new/ck", "file:/new/ck", id="from an object store"),
        pytest.param("s3a://a/ck", "s3://b/ck", "s3a://b/ck", id="s3a stays s3a"),
        pytest.param("s3://a/ck", "s3a://b/ck", "s3://b/ck", id="a cluster that says s3"),
        pytest.param("abfs://c@x/ck", "abfss://d@y/ck", "abfs://d@y/ck", id="without encryption"),
        pytest.param("hdfs://nn:8020/ck", "hdfs:///new", "hdfs:///new", id="the default name node"),
        pytest.param("/old/ck", "hdfs://nn/new", "hdfs://nn/new", id="a path that names no store"),
    ],
)
def test_a_new_place_is_spelled_as_the_old_one_was(old: str, new: str, spelled: str) -> None:
    assert spelled_like(old, new) == spelled


def test_only_the_paths_of_the_metadata_change() -> None:
    old = a_metadata(f"file:/old/ck/{SCHEMA}")

    new = relocated(METADATA, old, has=has, to="/new place/ck")

    before, after = parse_operator_metadata(old), parse_operator_metadata(new)
    assert after.stores[0].schema_paths == (f"file:/new place/ck/{SCHEMA}",)
    assert (after.name, after.properties) == (before.name, before.properties)


@pytest.mark.parametrize(
    "path", ["offsets/4", "state/0/_metadata/metadata", SCHEMA, "state/0/0/1.delta", "metadata"]
)
def test_a_file_that_names_no_paths_is_left_as_it_is(path: str) -> None:
    assert not names_paths(path)
    assert relocated(path, b"anything", has=has, to="/new") == b"anything"


def test_metadata_that_stays_where_it_is_keeps_its_bytes() -> None:
    old = a_metadata(f"file:/ck/{SCHEMA}")

    assert relocated(METADATA, old, has=has, to="/ck") is old


@pytest.mark.parametrize(
    "named",
    [
        "file:/old/ck/state/0/_stateSchema/default/0_gone",
        "file:/old/elsewhere/schema",
        "",
        "state/0/_stateSchema/default/0_1b4c",
        "file:/old/ck/state/0/_stateSchema/../../../etc/passwd",
    ],
    ids=["a lost file", "no schema", "nothing", "a relative path", "a way out"],
)
def test_what_is_not_a_file_of_the_checkpoint_is_refused(named: str) -> None:
    with pytest.raises(RestoreRefused, match="as its own file and does not have it"):
        relocated(METADATA, a_metadata(named), has=has, to="/new")


def test_metadata_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(RestoreRefused, match=r"state/0/_metadata/v2/0 names files by absolute"):
        relocated(METADATA, b"v2\n{", has=has, to="/new")


def test_a_folder_above_the_checkpoint_may_look_like_a_part_of_it() -> None:
    named = f"file:/x/state/0/_stateSchema/deep/ck/{SCHEMA}"

    assert moved(named, has=has, to="/new") == f"file:/new/{SCHEMA}"


@settings(max_examples=40, deadline=None, database=None)
@given(root=st.from_regex(r"[a-z0-9:/ .@_-]{0,30}", fullmatch=True))
def test_whatever_the_old_place_was_the_new_one_is_the_only_one_named(root: str) -> None:
    new = relocated(METADATA, a_metadata(f"{root}/{SCHEMA}"), has=has, to="/new")

    (path,) = parse_operator_metadata(new).stores[0].schema_paths
    assert path.endswith(f"/new/{SCHEMA}")
    assert path.removesuffix(f"/new/{SCHEMA}") in ("", "file:", "file://")

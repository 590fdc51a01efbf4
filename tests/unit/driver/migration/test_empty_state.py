"""Empty state of an operator: its metadata, and a snapshot of each of its stores."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

from airflow_streaming.checkpoints.read.operators import parse_operator_metadata
from airflow_streaming.driver.migration.empty_state import (
    Snapshot,
    other_files,
    rocksdb_snapshot,
    write_empty,
)
from airflow_streaming.model.jobs.migration import Carry, OperatorMigration

NOTHING = Snapshot(suffix=".snapshot", data=b"nothing")
JOIN = {
    "operatorInfo": {"operatorId": 0, "operatorName": "symmetricHashJoin"},
    "stateStoreInfo": [
        {"storeName": name, "numColsPrefixKey": 0, "numPartitions": 2}
        for name in ("left-keyToNumValues", "right-keyToNumValues")
    ],
}
VARIABLES = {
    "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"},
    "stateStoreInfo": [
        {
            "storeName": "default",
            "numColsPrefixKey": 0,
            "numPartitions": 2,
            "stateSchemaFilePaths": ["file:/a/schema"],
        }
    ],
    "operatorPropertiesJson": json.dumps(
        {"timeMode": "NoTime", "outputMode": "Update", "stateVariables": [{"stateName": "spent"}]}
    ),
}


class Folder:
    """Files of a checkpoint by path, as the writers of state see them."""

    def __init__(self, **files: bytes) -> None:
        self.files = dict(files)

    def exists(self, path: str) -> bool:
        return path in self.files

    def names(self, path: str) -> list[str]:
        return sorted(
            {
                each[len(path) + 1 :].split("/")[0]
                for each in self.files
                if each.startswith(f"{path}/")
            }
        )

    def walk(self, path: str) -> list[str]:
        return sorted(each for each in self.files if each.startswith(f"{path}/"))

    def read(self, path: str) -> bytes:
        return self.files[path]

    def write(self, path: str, data: bytes) -> None:
        assert path not in self.files
        self.files[path] = data


def encoded(known: Any) -> bytes:
    return b"v1\n" + json.dumps(known).encode()


def an_empty(name: str, **changes: Any) -> OperatorMigration:
    return OperatorMigration(operator=0, name=name, carry=Carry.EMPTY, **changes)


def written(folder: Folder, one: OperatorMigration) -> dict[str, bytes]:
    before = set(folder.files)
    write_empty(folder, one, NOTHING, version=5, partitions=2)  # type: ignore[arg-type]
    return {path: data for path, data in folder.files.items() if path not in before}


def test_a_new_operator_has_one_store() -> None:
    found = written(Folder(), an_empty("dedupe"))

    metadata = parse_operator_metadata(found.pop("state/0/_metadata/metadata"))
    assert (metadata.id, metadata.name) == (0, "dedupe")
    assert found == {"state/0/0/5.snapshot": b"nothing", "state/0/1/5.snapshot": b"nothing"}


def test_an_operator_that_starts_anew_has_the_stores_of_the_old_one() -> None:
    old = {"_before/state/0/_metadata/metadata": encoded(JOIN)}
    found = written(Folder(**old), an_empty("symmetricHashJoin"))

    assert found.pop("state/0/_metadata/metadata") == encoded(JOIN)
    assert sorted(found) == [
        f"state/0/{partition}/{side}-keyToNumValues/5.snapshot"
        for partition in (0, 1)
        for side in ("left", "right")
    ]


def test_an_operator_of_another_kind_does_not_take_over_the_stores() -> None:
    old = {"_before/state/0/_metadata/metadata": encoded(JOIN)}
    found = written(Folder(**old), an_empty("dedupe"))

    assert "state/0/1/5.snapshot" in found
    assert parse_operator_metadata(found["state/0/_metadata/metadata"]).name == "dedupe"


@pytest.mark.parametrize(
    ("given", "expected"), [("ProcessingTime", "ProcessingTime"), ("", "NoTime")]
)
def test_the_schemas_of_state_variables_are_forgotten(given: str, expected: str) -> None:
    old = {
        "_before/state/0/_metadata/v2/9": b"v2\nold",
        "_before/state/0/_metadata/v2/10": b"v2\n" + json.dumps(VARIABLES).encode(),
        "_before/state/0/_metadata/v2/.10.crc": b"",
    }
    one = an_empty("transformWithStateInPandasExec", time_mode=given)
    found = written(Folder(**old), one)

    head, _, text = found.pop("state/0/_metadata/v2/4").partition(b"\n")
    known = json.loads(text)
    assert head == b"v2"
    assert known["stateStoreInfo"][0]["stateSchemaFilePaths"] == []
    assert json.loads(known["operatorPropertiesJson"]) == {
        "timeMode": expected,
        "outputMode": "Update",
        "stateVariables": [],
    }
    assert sorted(found) == ["state/0/0/5.snapshot", "state/0/1/5.snapshot"]


@pytest.mark.parametrize(
    ("files", "others"),
    [
        ({"state/0/0/5.snapshot": b"nothing", "state/0/_metadata/metadata": b"x"}, 0),
        ({"state/0/0/5.snapshot": b"nothing", "state/0/1/5.snapshot": b"rows"}, 1),
        ({"state/0/0/5.snapshot": b"nothing", "state/0/0/6.delta": b"rows"}, 1),
        ({}, 1),
    ],
    ids=["empty", "rows", "another version", "no store"],
)
def test_the_proof_counts_files_that_are_not_empty(files: dict[str, bytes], others: int) -> None:
    assert other_files(Folder(**files), an_empty("dedupe"), NOTHING) == others  # type: ignore[arg-type]


def test_an_empty_database_has_no_files() -> None:
    found = rocksdb_snapshot()

    assert found == rocksdb_snapshot()
    with zipfile.ZipFile(io.BytesIO(found.data)) as archive:
        assert archive.namelist() == ["metadata"]
        head, _, text = archive.read("metadata").partition(b"\n")
    assert (head, json.loads(text)) == (b"v1", {"sstFiles": [], "numKeys": 0})

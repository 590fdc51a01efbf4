"""Which stores a checkpoint has, and whose the ids in the commit log are."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.read.report import StoreType
from airflow_streaming.checkpoints.state.stores import (
    StoreRef,
    ids_of,
    parse_name,
    state_files,
    store_type,
    stores,
    versions_beyond,
)
from tests.unit.checkpoints.state.papers import STORE, Paper, golden_paper, paper

JOIN = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)


def refs(*paths: str) -> list[StoreRef]:
    return stores(Paper(dict.fromkeys(paths, b"")).listing)


def test_an_operator_has_a_store_in_each_partition() -> None:
    assert refs("state/0/0/1.delta", "state/0/10/1.delta", "state/0/2/1.delta") == [
        StoreRef(0, 0, "default", "state/0/0"),
        StoreRef(0, 2, "default", "state/0/2"),
        StoreRef(0, 10, "default", "state/0/10"),
    ]


def test_a_join_has_four_stores_in_each_partition() -> None:
    found = stores(golden_paper("4.3.0", "join_rocks").listing)

    assert found == [
        StoreRef(0, partition, name, f"state/0/{partition}/{name}")
        for partition in range(3)
        for name in JOIN
    ]


def test_metadata_and_rocksdbs_files_are_no_stores() -> None:
    paths = [
        "state/0/_metadata/metadata",
        "state/0/_metadata/v2/0",
        "state/0/_stateSchema/default/0_1f",
        "state/0/0/_metadata/schema",
        "state/0/0/SSTs/000008-1f.sst",
        "state/0/0/logs/000004-1f.log",
        "state/0/0/1.zip",
        "state/0/0/.hidden/1.zip",
        "state/x/0/1.zip",
        "state/0/01/1.zip",
        "commits/0",
    ]
    assert refs(*paths) == [STORE]


def test_a_store_that_one_partition_lost_is_listed_all_the_same() -> None:
    kept = [f"state/0/{partition}/{name}/1.delta" for partition in (0, 1) for name in JOIN]

    assert len(refs(*[path for path in kept if path != f"state/0/1/{JOIN[2]}/1.delta"])) == 8


def test_a_partition_that_lost_all_its_files_is_listed_all_the_same() -> None:
    assert [ref.partition for ref in refs("state/0/0/1.delta", "state/0/1/_metadata/schema")] == [
        0,
        1,
    ]


def test_a_checkpoint_without_state_has_no_stores() -> None:
    assert stores(golden_paper("4.3.0", "stateless").listing) == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["1.delta", "1.snapshot"], StoreType.HDFS),
        (["1.zip"], StoreType.ROCKSDB),
        (["1.zip", "2.changelog"], StoreType.ROCKSDB_CHANGELOG),
        ([], StoreType.UNKNOWN),
    ],
)
def test_the_files_tell_how_a_store_keeps_its_state(names: list[str], expected: StoreType) -> None:
    assert store_type(file for name in names if (file := parse_name(name))) == expected


def test_checksums_and_hidden_files_are_no_state_files() -> None:
    listing = paper("1.delta", "1.delta.crc", ".1.delta.crc", "SSTs/1.sst").listing

    assert [file.name for file in state_files(listing, STORE)] == ["1.delta"]


def test_files_of_later_versions_are_from_the_future() -> None:
    listing = paper("9.delta", "10.delta", "11.delta", "11.snapshot", "10.delta.crc").listing

    assert versions_beyond(listing, 10) == ["state/0/0/11.delta", "state/0/0/11.snapshot"]
    assert versions_beyond(listing, 11) == []


def test_files_with_ids_are_never_from_the_future() -> None:
    assert versions_beyond(paper("9_a.zip", "12_b.changelog").listing, 10) == []


def test_without_ids_in_the_commits_it_is_format_1() -> None:
    assert ids_of(STORE, {0: {}, 1: {}}, paper("1.delta").listing) is None
    assert ids_of(STORE, {}, paper("1.delta").listing) is None


def test_a_commit_names_the_ids_of_the_version_after_it() -> None:
    commits = {6: {0: (("a",), ("b",))}, 7: {0: (("c",), ("d",))}}
    second = STORE._replace(partition=1, folder="state/0/1")

    assert ids_of(STORE, commits, paper().listing) == {7: "a", 8: "c"}
    assert ids_of(second, commits, paper().listing) == {7: "b", 8: "d"}


def test_a_commit_that_knows_too_few_partitions_tells_nothing_of_the_others() -> None:
    assert ids_of(STORE._replace(partition=5), {6: {0: (("a",),)}}, paper().listing) == {}


@pytest.mark.parametrize(("index", "name"), list(enumerate(JOIN)))
def test_ids_of_a_join_are_told_apart_by_the_files(index: int, name: str) -> None:
    ids = ["a", "b", "c", "d"]
    ref = StoreRef(0, 0, name, f"state/0/0/{name}")
    other_way_round = paper(f"1_{ids[3 - index]}.zip", folder=ref.folder).listing

    assert ids_of(ref, {0: {0: (ids,)}}, paper().listing) == {1: ids[index]}
    assert ids_of(ref, {0: {0: (ids,)}}, other_way_round) == {1: ids[3 - index]}


def test_ids_of_stores_that_are_not_known_are_not_guessed() -> None:
    ref = StoreRef(0, 0, "another", "state/0/0/another")

    assert ids_of(ref, {0: {0: (("a", "b"),)}}, paper().listing) == {}

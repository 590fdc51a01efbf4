"""The files that load one version, in every shape that a store can have."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.read.report import StoreType
from airflow_streaming.checkpoints.state.chain import Chain, Missing, files_for, loadable_versions
from airflow_streaming.exceptions import RecordError
from tests.unit.checkpoints.state.papers import (
    STORE,
    Paper,
    changelog,
    lz4_stream,
    paper,
    state_zip,
    table,
)


def find(
    files: Paper, version: int, ids: dict[int, str] | None = None, avoid: tuple[str, ...] = ()
) -> Chain | Missing:
    avoided = [f"{STORE.folder}/{name}" for name in avoid]
    return files_for(files.listing, files.read, STORE, version, ids, avoid=avoided)


def names(found: Chain | Missing) -> list[str]:
    assert isinstance(found, Chain), found
    return [path.removeprefix(f"{STORE.folder}/") for path in found.files]


def lost(found: Chain | Missing) -> str:
    assert isinstance(found, Missing), found
    assert not found.is_unknown
    return found.path.removeprefix(f"{STORE.folder}/")


@pytest.mark.parametrize(
    ("there", "version", "expected"),
    [
        pytest.param("1.delta 2.delta 3.delta", 2, "1.delta 2.delta", id="no snapshot yet"),
        pytest.param("9.snapshot 9.delta 10.delta", 10, "9.snapshot 10.delta", id="old ones gone"),
        pytest.param("9.snapshot 10.delta", 9, "9.snapshot", id="just a snapshot"),
        pytest.param(
            "5.snapshot 6.delta 7.delta 7.snapshot", 6, "5.snapshot 6.delta", id="before the newest"
        ),
        pytest.param("1.delta 1.delta.crc", 1, "1.delta 1.delta.crc", id="with its checksum"),
        pytest.param("1.delta .1.delta.crc", 1, "1.delta", id="without a hidden checksum"),
        pytest.param("1.zip 2.zip 3.zip", 3, "3.zip", id="a zip for each version"),
        pytest.param("1.changelog 2.changelog", 2, "1.changelog 2.changelog", id="no zip yet"),
        pytest.param(
            "6.changelog 6.zip 7.changelog", 7, "6.zip 7.changelog", id="changelogs after a zip"
        ),
        pytest.param(
            "5.changelog 6.zip 7.zip 8.changelog",
            8,
            "7.zip 8.changelog",
            id="changelogs switched off and on",
        ),
        pytest.param("1.delta", 0, "", id="the empty state"),
    ],
)
def test_a_version_is_loaded_from_the_newest_snapshot(
    there: str, version: int, expected: str
) -> None:
    assert names(find(paper(*there.split()), version)) == expected.split()


@pytest.mark.parametrize(
    ("there", "version", "expected"),
    [
        pytest.param("1.delta 3.delta", 3, "2.delta", id="a delta between"),
        pytest.param("1.delta 2.delta", 3, "3.delta", id="the newest delta"),
        pytest.param("8.delta 9.delta", 9, "1.delta", id="the snapshot under the deltas"),
        pytest.param("1.zip 2.zip", 3, "3.zip", id="the zip"),
        pytest.param("6.zip 7.changelog 9.changelog", 9, "8.changelog", id="a changelog between"),
        pytest.param("6.zip 7.changelog", 8, "8.changelog", id="the newest changelog"),
        pytest.param("", 1, STORE.folder, id="everything"),
    ],
)
def test_a_version_with_a_file_missing_names_the_file(
    there: str, version: int, expected: str
) -> None:
    files = paper(*there.split())
    found = find(files, version)

    assert lost(found) == expected
    assert expected in found.why
    assert not found.is_damaged


def test_a_zip_brings_its_sst_files_and_logs_first() -> None:
    tables = (("000008-a.sst", 64), ("000009-b.sst", 70))
    files = Paper(
        {
            "state/0/0/6.zip": state_zip(*tables, logs=(("000004-c.log", 5),)),
            "state/0/0/6.zip.crc": b"{}",
            "state/0/0/7.changelog": lz4_stream(b"x"),
            "state/0/0/SSTs/000008-a.sst": table(64),
            "state/0/0/SSTs/000009-b.sst": table(70),
            "state/0/0/SSTs/000010-d.sst": table(70),
            "state/0/0/logs/000004-c.log": b"12345",
        }
    )
    found = find(files, 7)

    assert names(found) == [
        "SSTs/000008-a.sst",
        "SSTs/000009-b.sst",
        "logs/000004-c.log",
        "6.zip",
        "6.zip.crc",
        "7.changelog",
    ]
    assert isinstance(found, Chain)
    assert (found.base_version, found.store_type) == (6, StoreType.ROCKSDB_CHANGELOG)
    assert found.sizes["state/0/0/SSTs/000009-b.sst"] == 70
    assert not found.avoided


ZIP_OF_ONE = state_zip(("000008-a.sst", 64))


@pytest.mark.parametrize(
    ("sst", "zipped", "is_damaged", "expected"),
    [
        pytest.param(None, ZIP_OF_ONE, False, "SSTs/000008-a.sst", id="sst missing"),
        pytest.param(table(63), ZIP_OF_ONE, True, "SSTs/000008-a.sst", id="sst too short"),
        pytest.param(table(64), ZIP_OF_ONE[:-9], True, "6.zip", id="zip cut off"),
        pytest.param(table(64), b"", True, "6.zip", id="zip empty"),
    ],
)
def test_an_older_zip_is_a_chain_that_only_new_sparks_find(
    sst: bytes | None, zipped: bytes, is_damaged: bool, expected: str
) -> None:
    files = paper("4.zip", *[f"{step}.changelog" for step in (4, 5, 6, 7)])
    files = files.having("state/0/0/6.zip", zipped)
    if sst is not None:
        files = files.having("state/0/0/SSTs/000008-a.sst", sst)
    found = find(files, 7)

    assert names(found) == ["4.zip", "5.changelog", "6.changelog", "7.changelog"]
    assert isinstance(found, Chain)
    assert found.avoided
    assert lost(found.avoided[0]) == expected
    assert found.avoided[0].is_damaged == is_damaged
    assert lost(find(files.without("state/0/0/5.changelog"), 7)) == expected


def test_changelogs_from_the_first_make_up_for_a_damaged_zip() -> None:
    files = paper("1.changelog", "2.changelog").having("state/0/0/2.zip", b"PK")

    assert names(find(files, 2)) == ["1.changelog", "2.changelog"]


def test_spark_does_not_replay_more_than_500_changes_for_a_damaged_zip() -> None:
    def with_changes(count: int) -> Paper:
        logs = [f"{step}.changelog" for step in range(1, count + 1)]
        return paper(*logs).having(f"state/0/0/{count}.zip", b"PK")

    assert len(names(find(with_changes(500), 500))) == 500
    assert lost(find(with_changes(501), 501)) == "501.zip"


@pytest.mark.parametrize(
    ("avoid", "expected"),
    [
        pytest.param("2.snapshot", "1.delta 2.delta 3.delta", id="a snapshot"),
        pytest.param("1.delta", "2.snapshot 3.delta", id="a delta that is not needed"),
    ],
)
def test_files_known_to_be_damaged_are_avoided(avoid: str, expected: str) -> None:
    files = paper("1.delta", "2.delta", "2.snapshot", "3.delta")

    assert names(find(files, 3, avoid=(avoid,))) == expected.split()
    assert lost(find(files, 3, avoid=("3.delta",))) == "3.delta"


def test_an_empty_delta_is_damaged() -> None:
    found = find(paper("1.delta", "2.delta").having("state/0/0/1.delta", b""), 2)

    assert lost(found) == "1.delta"
    assert isinstance(found, Missing)
    assert found.is_damaged


def test_a_file_that_vanishes_between_listing_and_reading_is_missing() -> None:
    files = paper("1.zip")

    found = files_for(files.listing, Paper({}).read, STORE, 1)
    assert lost(found) == "1.zip"


# State checkpoint format 2.


def format_2(*logs: tuple[int, str, tuple[tuple[int, str], ...]]) -> Paper:
    return Paper(
        {
            f"state/0/0/{version}_{unique_id}.changelog": changelog(*ancestors)
            for version, unique_id, ancestors in logs
        }
    )


THREE = format_2((1, "a", ()), (2, "b", ((1, "a"),)), (3, "c", ((1, "a"), (2, "b"))))


def test_the_changelog_names_its_ancestors() -> None:
    assert names(find(THREE, 3, {3: "c"})) == ["1_a.changelog", "2_b.changelog", "3_c.changelog"]


def test_files_of_other_attempts_do_not_count() -> None:
    files = THREE.having("state/0/0/2_x.changelog", b"").having("state/0/0/2_y.zip", state_zip())

    assert names(find(files, 3, {3: "c"})) == names(find(THREE, 3, {3: "c"}))


def test_the_newest_zip_among_the_ancestors_is_the_base() -> None:
    files = THREE.having("state/0/0/2_b.zip", state_zip()).having("state/0/0/2_b.zip.crc", b"{}")

    assert names(find(files, 3, {3: "c"})) == ["2_b.zip", "2_b.zip.crc", "3_c.changelog"]


def test_a_zip_of_the_version_itself_needs_no_ancestors() -> None:
    assert names(find(paper("9_z.zip"), 9, {9: "z"})) == ["9_z.zip"]


def test_a_damaged_zip_of_the_version_itself_has_no_chain() -> None:
    files = THREE.having("state/0/0/3_c.zip", b"PK")

    assert lost(find(files, 3, {1: "a", 2: "b", 3: "c"})) == "3_c.zip"


def test_a_changelog_that_goes_back_to_a_lost_zip_has_no_chain() -> None:
    files = format_2((7, "g", ((6, "f"),)), (6, "f", ((1, "a"),)), (1, "a", ()))

    assert lost(find(files, 7, {7: "g", 6: "f", 1: "a"})) == "6_f.zip"


def test_a_lost_ancestor_is_named_with_its_id() -> None:
    files = THREE.without("state/0/0/2_b.changelog")

    assert lost(find(files, 3, {3: "c"})) == "2_b.changelog"


def test_the_wanted_file_is_named_with_its_id() -> None:
    assert lost(find(THREE, 4, {1: "a", 2: "b", 3: "c", 4: "d"})) == "4_d.changelog"


def test_ids_of_the_commit_log_do_where_the_changelog_cannot_be_read() -> None:
    zstd = bytes.fromhex("28b52ffd") + b"whatever"
    files = Paper(dict.fromkeys(THREE.files, zstd))

    assert names(find(files, 3, {1: "a", 2: "b", 3: "c"})) == names(find(THREE, 3, {3: "c"}))
    unknown = find(files, 3, {3: "c"})
    assert isinstance(unknown, Missing)
    assert unknown.is_unknown


def test_a_changelog_that_differs_from_the_commit_log_is_told_and_goes_first() -> None:
    found = find(THREE, 3, {2: "x", 3: "c"})

    assert names(found) == names(find(THREE, 3, {3: "c"}))
    assert isinstance(found, Chain)
    assert "goes back to b for version 2, the commit log to x" in found.conflict


@pytest.mark.parametrize(
    "ids", [pytest.param(None, id="no ids"), pytest.param({2: "b"}, id="no id of the version")]
)
def test_without_the_id_of_a_version_nothing_can_be_said(ids: dict[int, str] | None) -> None:
    found = find(THREE, 3, ids)

    assert isinstance(found, Missing)
    assert found.is_unknown


def test_what_is_too_large_to_be_read_is_unknown() -> None:
    def refuse(path: str, limit: int) -> bytes | None:
        raise RecordError("too large")

    files = THREE
    found = files_for(files.listing, refuse, STORE, 3, {3: "c"})
    assert isinstance(found, Missing)
    assert found.is_unknown


# Versions by name alone.


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param("1.delta 2.delta", {0, 1, 2}, id="from the first"),
        pytest.param("8.delta 9.snapshot 9.delta 10.delta", {0, 9, 10}, id="old ones purged"),
        pytest.param("1.delta 3.delta 5.snapshot", {0, 1, 5}, id="gaps"),
        pytest.param("6.zip 7.zip 8.changelog", {0, 6, 7, 8}, id="RocksDB"),
        pytest.param("3_a.zip 4_b.changelog", {0}, id="ids without commits"),
        pytest.param("", {0}, id="nothing"),
    ],
)
def test_loadable_versions_are_told_by_names(there: str, expected: set[int]) -> None:
    assert loadable_versions(paper(*there.split()).listing, STORE) == expected


def test_in_format_2_only_the_versions_of_the_commits_are_loadable() -> None:
    listing = paper("3_a.zip", "4_b.changelog", "5_c.changelog", "6_x.changelog").listing

    assert loadable_versions(listing, STORE, {5: "c", 6: "d"}) == {0, 5}

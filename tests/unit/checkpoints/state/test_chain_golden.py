"""Chains in checkpoints of real Sparks: complete, and not a file more than needed."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.state.chain import Chain, Missing, loadable_versions
from airflow_streaming.checkpoints.state.file_checks import check_files
from airflow_streaming.checkpoints.state.stores import StoreRef, ids_of, stores, versions_beyond
from tests.unit.checkpoints.state.papers import Paper, golden_paper, golden_paper_with_hidden

SPARKS = ("3.5.9", "4.1.4", "4.3.0")
SHAPES = (
    "agg",
    "agg_rocks",
    "agg_rocks_changelog",
    "agg_rocks_v2",
    "complete",
    "dedup",
    "dedup_rocks_tws",
    "join",
    "join_rocks",
    "session",
)

every_shape = pytest.mark.parametrize("shape", SHAPES)
every_spark = pytest.mark.parametrize("spark", SPARKS)


def newest(paper: Paper) -> int:
    return max(paper.commits) + 1


def whole(paper: Paper, ref: StoreRef, version: int) -> Chain:
    found = paper.chain(ref, version)
    assert isinstance(found, Chain), found
    return found


def is_whole(paper: Paper, ref: StoreRef, version: int) -> bool:
    found = paper.chain(ref, version)
    if isinstance(found, Missing) or found.avoided:
        return False
    return not check_files(found, paper.listing, paper.read)


@every_spark
@every_shape
def test_every_store_loads_what_the_last_commit_left_behind(spark: str, shape: str) -> None:
    paper = golden_paper_with_hidden(spark, shape)
    listing, version = paper.listing, newest(paper)

    found = list(paper.chains(version))
    assert len(found) in (3, 12)
    for ref, _ in found:
        assert not check_files(whole(paper, ref, version), listing, paper.read, thorough=True)
    assert versions_beyond(listing, version) == []


@every_spark
@every_shape
def test_every_version_that_is_loadable_by_name_loads(spark: str, shape: str) -> None:
    paper = golden_paper(spark, shape)
    listing = paper.listing
    for ref in stores(listing)[:2]:
        versions = loadable_versions(listing, ref, ids_of(ref, paper.commits, listing))
        assert max(versions) == newest(paper)
        for version in versions:
            whole(paper, ref, version)


@pytest.mark.parametrize(
    ("spark", "shape"),
    [
        ("3.5.9", "agg"),
        ("3.5.9", "agg_rocks"),
        ("4.1.4", "agg_rocks_changelog"),
        ("4.3.0", "agg_rocks_v2"),
        ("4.3.0", "join_rocks"),
    ],
)
def test_a_chain_needs_each_of_its_files_and_no_other(spark: str, shape: str) -> None:
    paper = golden_paper(spark, shape)
    ref, version = stores(paper.listing)[0], newest(paper)
    chain = whole(paper, ref, version)
    others = [path for path in paper.files if path.startswith("state/") and path not in chain.files]
    alone = paper.without(*others)

    assert others
    assert whole(alone, ref, version) == chain
    for path in chain.files:
        if not path.endswith(".crc"):
            assert not is_whole(alone.without(path), ref, version), path


@pytest.mark.parametrize(
    ("spark", "shape"),
    [
        ("3.5.9", "agg"),
        ("4.1.4", "agg"),
        ("4.3.0", "agg_rocks"),
        ("4.3.0", "agg_rocks_changelog"),
        ("4.1.4", "agg_rocks_v2"),
        ("4.3.0", "agg_rocks_v2"),
    ],
)
def test_no_file_of_a_chain_can_be_cut_off_unseen(spark: str, shape: str) -> None:
    paper = golden_paper(spark, shape)
    ref, version = stores(paper.listing)[0], newest(paper)
    for path in whole(paper, ref, version).files:
        size = len(paper.files[path])
        for kept in {0, 1, 9, 21, 25, size // 2, size - 21, size - 1} & set(range(size)):
            cut = paper.having(path, paper.files[path][:kept])
            assert not is_whole(cut, ref, version), (path, kept)


@pytest.mark.parametrize("shape", ["agg", "agg_rocks", "agg_rocks_changelog", "agg_rocks_v2"])
def test_no_bit_of_a_chain_can_flip_unseen_where_hadoop_keeps_checksums(shape: str) -> None:
    paper = golden_paper_with_hidden("4.3.0", shape)
    ref, version = stores(paper.listing)[0], newest(paper)
    for path in whole(paper, ref, version).files:
        data = bytearray(paper.files[path])
        data[len(data) // 3] ^= 4
        assert not is_whole(paper.having(path, bytes(data)), ref, version), path

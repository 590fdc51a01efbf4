"""State files from nowhere: refused with a sentence or read, and never anything else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.checkpoints.state.chain import Chain, files_for, loadable_versions
from airflow_streaming.checkpoints.state.file_checks import (
    agrees_with_hadoop,
    check_files,
    parse_sidecar,
)
from airflow_streaming.checkpoints.state.lz4 import blocks, decompress
from airflow_streaming.checkpoints.state.rocksdb import parse_zip, verify_zip
from airflow_streaming.checkpoints.state.stores import (
    ids_of,
    lineage,
    parse_name,
    stores,
    versions_beyond,
)
from airflow_streaming.exceptions import RecordError
from tests.unit.checkpoints.damage import damaged
from tests.unit.checkpoints.state.papers import (
    STORE,
    Paper,
    changelog,
    golden_paper,
    sidecar,
    state_zip,
)

Parser = Callable[[bytes], object]

PARSERS: list[tuple[str, Parser, bytes]] = [
    ("lz4", lambda data: decompress(data, 1 << 20), changelog((1, "a"), (2, "b"))),
    ("blocks", lambda data: list(blocks(data)), changelog((1, "a"))),
    ("lineage", lineage, changelog((1, "a"), (2, "b"))),
    ("zip", parse_zip, state_zip(("000008-a.sst", 64), logs=(("000004-b.log", 7),))),
    ("zip in full", verify_zip, state_zip(("000008-a.sst", 64))),
    ("sidecar", parse_sidecar, sidecar(b"data")),
    ("hadoop", lambda data: agrees_with_hadoop(b"x" * 5000, data), b"crc\0\0\0\2\0aaaa"),
]


@pytest.mark.parametrize(
    ("parse", "whole"), [pytest.param(parse, data, id=name) for name, parse, data in PARSERS]
)
def test_damaged_files_are_refused_or_read(parse: Parser, whole: bytes) -> None:
    random = Random(4)
    for _ in range(250):
        _read_or_refuse(parse, damaged(whole, random))


@given(data=st.binary(max_size=200), choice=st.sampled_from(PARSERS))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_refused_or_read(data: bytes, choice: tuple[str, Parser, bytes]) -> None:
    _, parse, whole = choice
    _read_or_refuse(parse, data)
    _read_or_refuse(parse, whole[: len(data)] + data)


@given(names=st.lists(st.text(max_size=12), max_size=8), version=st.integers(0, 10**18))
@settings(max_examples=50, deadline=None)
def test_any_names_are_passed_over(names: list[str], version: int) -> None:
    listing = Paper({f"state/0/0/{name.replace('/', '')}": b"" for name in names}).listing
    for ref in stores(listing):
        loadable_versions(listing, ref)
        files_for(listing, lambda path, limit: None, ref, version)
    versions_beyond(listing, version)
    assert all(parse_name(name) is None or "." in name for name in names)


def test_an_absurd_version_costs_no_time() -> None:
    files = Paper({f"state/0/0/{10**17}.delta": b"x", "state/0/0/1.delta": b"x"})
    for version in (10**17, 10**18):
        found = files_for(files.listing, files.read, STORE, version)
        assert not isinstance(found, Chain)


@pytest.mark.parametrize(
    ("spark", "shape"),
    [("4.3.0", "agg_rocks_v2"), ("4.1.4", "agg_rocks_changelog"), ("4.3.0", "join_rocks")],
)
def test_a_real_checkpoint_with_damaged_files_is_judged(spark: str, shape: str) -> None:
    whole = golden_paper(spark, shape)
    random = Random(7)
    commits = whole.commits
    version = max(commits) + 1
    paths = [path for path in whole.files if path.startswith("state/0/0/")]
    for path in random.choices(paths, k=25):
        broken = whole.having(path, damaged(whole.files[path], random))
        for ref in stores(broken.listing)[:1]:
            ids = ids_of(ref, commits, broken.listing)
            found = files_for(broken.listing, broken.read, ref, version, ids)
            if isinstance(found, Chain):
                check_files(found, broken.listing, broken.read, thorough=True)


def _read_or_refuse(parse: Parser, data: bytes) -> None:
    with suppress(RecordError):
        parse(data)

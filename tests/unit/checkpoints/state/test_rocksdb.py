"""Zips of RocksDB versions."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
from contextlib import nullcontext

import pytest

from airflow_streaming.checkpoints.state.rocksdb import (
    MAX_ENTRIES,
    RocksFile,
    is_table,
    parse_zip,
    verify_zip,
)
from airflow_streaming.exceptions import RecordError
from tests.golden import golden_files
from tests.unit.checkpoints.state.papers import packed, state_zip, table


def with_files(*files: object) -> bytes:
    return packed({"metadata": b"v1\n" + json.dumps({"sstFiles": files}).encode()})


def test_a_zip_names_its_sst_files_and_logs() -> None:
    assert parse_zip(state_zip(("000008-a.sst", 64), logs=(("000004-b.log", 0),))) == (
        RocksFile(local_name="000008.sst", path="SSTs/000008-a.sst", size=64),
        RocksFile(local_name="000004.log", path="logs/000004-b.log", size=0),
    )


def test_an_empty_state_names_none() -> None:
    assert parse_zip(state_zip()) == ()


def test_zips_of_real_sparks_name_files_that_are_there_in_their_size() -> None:
    files = golden_files()
    zips = [path for path in files if path.endswith(".zip")]
    assert len(zips) > 250
    for path in zips:
        verify_zip(files[path])
        for named in parse_zip(files[path]):
            data = files[f"{path.rpartition('/')[0]}/{named.path}"]
            assert len(data) == named.size
            assert is_table(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"PK\x05\x06" + b"\0" * 18, id="no entries"),
        pytest.param(packed({"CURRENT": b"x"}), id="no list"),
        pytest.param(packed({"metadata": b""}), id="an empty list"),
        pytest.param(packed({"metadata": b"v2\n{}"}), id="another version"),
        pytest.param(packed({"metadata": b"v1\n["}), id="no JSON"),
        pytest.param(packed({"metadata": b"v1\n[]"}), id="no object"),
        pytest.param(packed({"metadata": b"\xff"}), id="no text"),
        pytest.param(packed({"metadata": b'v1\n{"sstFiles":7}'}), id="files that are a number"),
        pytest.param(with_files(1), id="a file that is a number"),
        pytest.param(with_files({"localFileName": "1.sst"}), id="a file without a name"),
        pytest.param(state_zip(("../../../metadata", 9)), id="a path that leads out"),
        pytest.param(state_zip(("a/b.sst", 9)), id="a path"),
        pytest.param(state_zip((".hidden", 9)), id="a hidden file"),
        pytest.param(state_zip(("000008-a.sst", -1)), id="a size below zero"),
    ],
)
def test_zips_without_a_proper_list_are_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        parse_zip(data)


def test_a_zip_bomb_is_not_unpacked() -> None:
    bomb = packed({"metadata": b"v1\n" + b" " * (17 * 1024 * 1024)})
    assert len(bomb) < 100_000

    with pytest.raises(RecordError, match="too large"):
        parse_zip(bomb)


@pytest.mark.parametrize(
    ("size", "why"), [(300, ""), (301, "The list of files in the zip is too large.")]
)
def test_a_list_of_files_is_read_up_to_its_limit(
    monkeypatch: pytest.MonkeyPatch, size: int, why: str
) -> None:
    monkeypatch.setattr("airflow_streaming.checkpoints.state.rocksdb._MAX_METADATA", 300)
    zipped = packed({"metadata": b"v1\n{}".ljust(size)})

    with pytest.raises(RecordError, match=why) if why else nullcontext():
        assert parse_zip(zipped) == ()


def test_a_zip_that_lies_about_its_sizes_is_damaged() -> None:
    data = packed({"metadata": b"v1\n{}", "MANIFEST": b"m" * 5000})
    size = (5000).to_bytes(4, "little")
    lying = data.replace(size, (50).to_bytes(4, "little"))
    assert lying != data

    with pytest.raises(RecordError):
        verify_zip(lying)


def test_zips_of_too_many_entries_or_strange_methods_are_refused() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("metadata", b"v1\n{}")
    with pytest.raises(RecordError, match="never uses"):
        parse_zip(target.getvalue())
    with pytest.raises(RecordError, match="entries"):
        verify_zip(packed(dict.fromkeys(map(str, range(MAX_ENTRIES + 1)), b"")))


def directory(entries: int, *, told: int, comment: int = 0, locator: bytes = b"") -> bytes:
    """Return a zip of nothing but a directory."""
    entry = struct.pack(
        "<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 3, 20, *[0] * 8, 1, 0, comment, 0, 0, 0, 0
    )
    listed = (entry + b"a" + b"c" * comment) * entries + locator
    return listed + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, told, told, len(listed), 0, 0)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(directory(50_000, told=50_000), "entries", id="many entries"),
        pytest.param(directory(50_000, told=1), "entries", id="many entries, one told"),
        pytest.param(directory(1, told=MAX_ENTRIES + 1), "entries", id="one entry, many told"),
        pytest.param(directory(100, told=100, comment=60_000), "directory", id="a large directory"),
        pytest.param(
            directory(1, told=1, locator=b"PK\x06\x07" + bytes(16)), "entries", id="a 64-bit zip"
        ),
    ],
)
def test_a_directory_that_is_too_large_is_refused_before_it_is_read(data: bytes, why: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RecordError, match=why):
            parse_zip(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_sst_files_are_told_by_their_end() -> None:
    assert is_table(table())
    assert not is_table(table()[:-1])
    assert not is_table(b"")

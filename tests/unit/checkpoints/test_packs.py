from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import tarfile
import tracemalloc
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.checkpoints.backup.packs import (
    PackBuilder,
    PackedBytes,
    padding,
    read_pack,
    tar_header,
)
from airflow_streaming.checkpoints.backup.records import Bundle, Member
from airflow_streaming.exceptions import BackupDamaged

FILES = {
    "counts/metadata": b"{}",
    "counts/empty": b"",
    "counts/state/0/1/1.delta": b"x" * 512,
    "counts/" + "long/" * 40 + "name": b"y" * 700,
    "counts/ü": b"z" * 513,
}


def a_pack(files: dict[str, bytes] = FILES) -> tuple[Bundle, bytes]:
    builder = PackBuilder()
    for path, data in files.items():
        builder.feed((tar_header(path, len(data)), data, padding(len(data))))
    pack = builder.finish()
    members = tuple(
        Member(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
        for path, data in files.items()
    )
    return Bundle(pack=hashlib.sha256(pack).hexdigest(), pack_size=len(pack), members=members), pack


def in_chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def unpack(bundle: Bundle, pack: bytes, size: int = 100) -> Sequence[PackedBytes]:
    return list(read_pack(bundle, in_chunks(pack, size)))


@pytest.mark.parametrize("size", [1, 7, 512, 10**6])
def test_a_pack_reads_back_in_chunks_of_any_size(size: int) -> None:
    bundle, pack = a_pack()

    assert {one.member.path: one.data for one in unpack(bundle, pack, size)} == FILES


def test_stock_tools_open_a_pack(tmp_path: Path) -> None:
    _, pack = a_pack()
    (tmp_path / "pack.tar.gz").write_bytes(pack)

    subprocess.run(["tar", "xzf", "pack.tar.gz"], cwd=tmp_path, check=True, capture_output=True)

    assert {path: (tmp_path / path).read_bytes() for path in FILES} == FILES


@pytest.mark.parametrize("path", FILES)
def test_headers_are_those_of_the_standard_library(path: str) -> None:
    info = tarfile.TarInfo(path)
    info.size = 12345

    assert tar_header(path, 12345) == info.tobuf(tarfile.GNU_FORMAT, "utf-8")


def test_equal_members_make_equal_packs() -> None:
    assert a_pack() == a_pack()


def test_members_that_are_alone_are_not_looked_for_in_the_pack() -> None:
    bundle, pack = a_pack()
    alone = Member(path="counts/large", size=10**9, sha256="ab" * 32, is_alone=True)
    mixed = Bundle(
        pack=bundle.pack, pack_size=bundle.pack_size, members=(alone, *bundle.members, alone)
    )

    assert [one.number for one in unpack(mixed, pack)] == [1, 2, 3, 4, 5]


def rewritten(change: str) -> bytes:
    files = dict(FILES)
    if change == "other content":
        files["counts/metadata"] = b"[]"
    if change == "other name":
        files = {path.replace("metadata", "metadatA"): data for path, data in FILES.items()}
    if change == "other order":
        files = dict(reversed(FILES.items()))
    if change == "one more":
        files["counts/more"] = b"1"
    if change == "one less":
        files.popitem()
    return a_pack(files)[1]


@pytest.mark.parametrize(
    ("pack", "words"),
    [
        pytest.param(rewritten("other content"), "content of 'counts/metadata'", id="content"),
        pytest.param(rewritten("other name"), "does not have 'counts/metadata'", id="name"),
        pytest.param(rewritten("other order"), "does not have 'counts/metadata'", id="order"),
        pytest.param(rewritten("one more"), "more than the index says", id="one more"),
        pytest.param(rewritten("one less"), "does not have|cut off", id="one less"),
        pytest.param(a_pack()[1][:-1], "cut off", id="truncated"),
        pytest.param(a_pack()[1] + b"x", "behind its end", id="longer"),
        pytest.param(b"", "cut off", id="empty"),
        pytest.param(b"no gzip at all", "decompressed", id="not compressed"),
        pytest.param(
            gzip.compress(gzip.decompress(a_pack()[1])[:-1] + b"x"), "more than", id="bad end"
        ),
        pytest.param(gzip.compress(gzip.decompress(a_pack()[1])), "digest", id="other compression"),
        pytest.param(
            gzip.compress(gzip.decompress(a_pack()[1]).replace(b"{}" + b"\0", b"{}x", 1)),
            "between",
            id="something in the padding",
        ),
    ],
)
def test_a_pack_that_is_not_as_the_index_says_is_damaged(pack: bytes, words: str) -> None:
    bundle, _ = a_pack()

    with pytest.raises(BackupDamaged, match=words):
        unpack(bundle, pack)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_mutated_pack_is_damaged_and_nothing_else(data: st.DataObject) -> None:
    bundle, pack = a_pack()
    changed = bytearray(pack)
    changed[data.draw(st.integers(0, len(pack) - 1))] ^= data.draw(st.integers(1, 255))

    with pytest.raises(BackupDamaged):
        unpack(bundle, bytes(changed))


def test_a_compressed_bomb_takes_no_memory() -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(10**6)
    bomb = b"".join(squeeze.compress(zeros) for _ in range(60)) + squeeze.flush()
    bundle, _ = a_pack()
    tracemalloc.start()

    with pytest.raises(BackupDamaged):
        unpack(bundle, bomb, 10**6)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 10**6


def test_a_bomb_behind_the_members_takes_no_memory() -> None:
    bundle, pack = a_pack()
    tar = gzip.decompress(pack) + bytes(6 * 10**7)

    with pytest.raises(BackupDamaged, match="more than the index says"):
        unpack(bundle, gzip.compress(tar, 1), 10**6)


def test_a_pack_has_no_times_and_no_owners() -> None:
    _, pack = a_pack()

    with tarfile.open(fileobj=io.BytesIO(pack)) as tar:
        assert {(info.mtime, info.uid, info.uname) for info in tar} == {(0, 0, "")}

"""Whatever library compresses, the container is gzip, and Python's own zlib reads it."""

from __future__ import annotations

import gzip
import importlib
import random
import sys
from collections.abc import Iterator

import pytest

from airflow_streaming.checkpoints.backup import squeeze
from airflow_streaming.checkpoints.backup.index import decode_index, encode_index
from airflow_streaming.checkpoints.backup.packs import BLOCK, PackBuilder, padding, tar_header
from airflow_streaming.checkpoints.backup.records import Bundle, Member

LIBRARIES = tuple(squeeze._FASTEST)


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Only one library is installed."""
    name: str = request.param
    pytest.importorskip(name)
    for other in LIBRARIES:
        if other not in {name, "zlib"}:
            monkeypatch.setitem(sys.modules, other, None)
    squeeze._library.cache_clear()
    yield name
    squeeze._library.cache_clear()


def test_it_is_used_where_it_is_installed(library: str) -> None:
    assert squeeze._library()[0] is importlib.import_module(library)


def test_a_pack_is_gzip_that_pythons_zlib_reads(library: str) -> None:
    chance = random.Random(1)
    files = {f"state/0/{n}/1.delta": chance.randbytes(chance.randint(0, 5000)) for n in range(300)}
    builder, plain = PackBuilder(), b""
    for path, data in files.items():
        parts = (tar_header(path, len(data)), data, padding(len(data)))
        builder.feed(parts)
        plain += b"".join(parts)

    packed = builder.finish()

    assert gzip.decompress(packed) == plain + bytes(2 * BLOCK)
    assert len(packed) < len(plain)


def test_equal_packs_have_equal_bytes(library: str) -> None:
    def pack() -> bytes:
        builder = PackBuilder()
        builder.feed([b"abc" * 1000])
        builder.feed([random.Random(2).randbytes(70_000)])
        return builder.finish()

    assert pack() == pack()


def test_an_index_comes_back(library: str) -> None:
    members = tuple(
        Member(path=f"state/0/{n}/1.delta", size=n, sha256=f"{n:064x}", stamp="")
        for n in range(1, 500)
    )
    bundle = Bundle(pack="0" * 64, pack_size=9, members=members)

    assert decode_index(encode_index(bundle)) == bundle

"""LZ4 blocks, in plain Python and with the compiled libraries: both give the same answers."""

from __future__ import annotations

import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.checkpoints.state import lz4
from airflow_streaming.checkpoints.state.lz4 import (
    MAGIC,
    Block,
    blocks,
    decompress,
    unpack,
    xxhash32,
)
from airflow_streaming.checkpoints.state.stores import lineage
from airflow_streaming.exceptions import RecordError
from tests.golden import golden_files
from tests.unit.checkpoints.state.papers import changelog, lz4_stream

SEED = 0x9747B28C
NOT_INSTALLED = "The libraries lz4 and xxhash are missing: pip install -e '.[dev]'."


@pytest.fixture(params=["python", "compiled"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run every test of this module on both paths."""
    if request.param == "python":
        monkeypatch.setattr(lz4, "compiled_lz4", None)
        monkeypatch.setattr(lz4, "compiled_xxhash", None)
    elif lz4.compiled_lz4 is None or lz4.compiled_xxhash is None:
        pytest.skip(NOT_INSTALLED)
    name: str = request.param
    return name


def outcome(payload: bytes, size: int, checksum: int) -> bytes | None:
    """Return what a block decodes to; ``None`` for a damaged one."""
    try:
        return unpack(Block(memoryview(payload), is_packed=True, size=size, checksum=checksum))
    except RecordError:
        return None


@settings(max_examples=300, deadline=None)
@given(
    content=st.lists(st.binary(max_size=40), max_size=30).map(lambda parts: b"".join(parts * 3)),
    damage=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    seed=st.integers(0, 2**32 - 1),
)
def test_both_paths_give_the_same_answer(
    content: bytes, damage: list[tuple[int, int]], seed: int
) -> None:
    block, xxhash = pytest.importorskip("lz4.block", reason=NOT_INSTALLED), lz4.compiled_xxhash
    assert lz4._python_xxhash32(content, seed) == lz4.xxhash32(content, seed)
    payload = bytearray(block.compress(content, store_size=False))
    for place, byte in damage:
        payload[place % len(payload)] = byte
    checksum = lz4._python_xxhash32(content, SEED) & 0x0FFFFFFF
    answers = []
    for compiled in ((block, xxhash), (None, None)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(lz4, "compiled_lz4", compiled[0])
            patched.setattr(lz4, "compiled_xxhash", compiled[1])
            answers.append(outcome(bytes(payload), len(content), checksum))

    assert answers[0] == answers[1]
    assert damage or answers[0] == content


def packed(content: bytes, sequences: bytes, *, size: int | None = None) -> bytes:
    """Return a stream with one packed block that should unpack to this content."""
    checksum = xxhash32(content, SEED) & 0x0FFFFFFF
    said = len(content) if size is None else size
    head = struct.pack("<8sBiiI", MAGIC, 0x26, len(sequences), said, checksum)
    return head + sequences + lz4_stream()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", 0x02CC5D05),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_the_hash_is_that_of_the_reference(content: bytes, expected: int) -> None:
    assert xxhash32(content, 0) == expected


@pytest.mark.parametrize(
    ("content", "sequences"),
    [
        pytest.param(b"abc", b"\x30abc", id="literals only"),
        pytest.param(b"a" * 14, b"\x18a\x01\x00\x10a", id="a byte repeated over itself"),
        pytest.param(b"abcdabcdX", b"\x40abcd\x04\x00\x10X", id="a pattern"),
        pytest.param(b"x" * 300, b"\xf0\xff\x1e" + b"x" * 300, id="a long run of literals"),
        pytest.param(b"ab" * 200, b"\x2fab\x02\x00\xff\x7a\x20ab", id="a long match"),
    ],
)
def test_packed_blocks_unpack(content: bytes, sequences: bytes) -> None:
    stream = packed(content, sequences)

    assert list(blocks(stream))
    assert decompress(stream, 10_000) == content


@pytest.mark.parametrize(
    ("sequences", "size"),
    [
        pytest.param(b"\x00\x01\x00", 4, id="a match before anything"),
        pytest.param(b"\x10a\x02\x00", 5, id="a match from before the beginning"),
        pytest.param(b"\x10a\x00\x00", 5, id="a match of no distance"),
        pytest.param(b"\x1fa\x01\x00" + b"\xff" * 1000, 100, id="a match longer than the block"),
        pytest.param(b"\x1fa\x01\x00\xff", 65536, id="a length without an end"),
        pytest.param(b"\x50abc", 5, id="fewer literals than said"),
        pytest.param(b"\x30abc", 5, id="less than the size"),
        pytest.param(b"\x30abc", 2, id="more than the size"),
    ],
)
def test_broken_blocks_are_refused(sequences: bytes, size: int) -> None:
    with pytest.raises(RecordError):
        decompress(packed(b"", sequences, size=size), 1 << 20)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(struct.pack("<8sBiiI", MAGIC, 0x36, 1, 1, 0), id="method"),
        pytest.param(struct.pack("<8sBiiI", MAGIC, 0x10, 2000, 2000, 0), id="beyond its level"),
        pytest.param(struct.pack("<8sBiiI", MAGIC, 0x16, -1, 5, 0), id="negative length"),
        pytest.param(struct.pack("<8sBiiI", MAGIC, 0x26, 5, -5, 0), id="negative size"),
        pytest.param(struct.pack("<8sBiiI", MAGIC, 0x26, 0, 5, 0), id="something of nothing"),
        pytest.param(struct.pack("<8sBiiI", b"LZ4Blocc", 0x16, 5, 5, 0), id="magic"),
    ],
)
def test_headers_that_spark_would_refuse_are_refused(header: bytes) -> None:
    with pytest.raises(RecordError):
        list(blocks(header + b"12345" * 500))


def test_nothing_is_not_complete() -> None:
    with pytest.raises(RecordError, match="cut off"):
        list(blocks(b""))
    assert list(blocks(lz4_stream()))
    assert list(blocks(lz4_stream(b"one") + lz4_stream(b"two")))


def test_only_the_beginning_is_unpacked() -> None:
    assert decompress(lz4_stream(b"one", b"two", b"three"), 5) == b"onetwo"


def test_state_files_of_real_sparks_unpack_and_hold_their_checksums() -> None:
    streams = [
        data for path, data in golden_files().items() if path.endswith((".delta", ".changelog"))
    ]
    assert len(streams) > 400
    for data in streams:
        assert decompress(data, 1 << 30).endswith((b"\xff\xff\xff\xff", b"\x00"))


# Lineage.


@pytest.mark.parametrize("form", [b"v3", b"v4"])
def test_a_changelog_tells_its_ancestors_oldest_first(form: bytes) -> None:
    assert lineage(changelog((7, "b"), (6, "a-1"), form=form)) == ((6, "a-1"), (7, "b"))
    assert lineage(changelog(form=form)) == ()


@pytest.mark.parametrize("form", [b"v2", b"v5", b"", b"\xff\xff"])
def test_changelogs_of_other_forms_tell_no_ancestors(form: bytes) -> None:
    with pytest.raises(RecordError, match="does not tell"):
        lineage(changelog(form=form))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x00\x02v3", id="no list"),
        pytest.param(b"\x00\x02v3\x00\x09[]", id="a list cut off"),
        pytest.param(b"\x00\x02v3\x00\x02{}", id="no list but an object"),
        pytest.param(b"\x00\x02v3\x00\x03[1]", id="numbers"),
        pytest.param(b"\x00\x02v3\x00\x02\xff\xfe", id="no text"),
        pytest.param(
            b'\x00\x02v3\x00\x2b[{"version":1,"checkpointUniqueId":"../../x"}]', id="a path for id"
        ),
    ],
)
def test_a_broken_lineage_is_refused(content: bytes) -> None:
    with pytest.raises(RecordError):
        lineage(lz4_stream(content))


def test_a_changelog_of_another_codec_tells_no_ancestors() -> None:
    with pytest.raises(RecordError, match="not compressed with LZ4"):
        lineage(bytes.fromhex("28b52ffd"))


def test_repetitions_from_far_back_cost_no_more_than_near_ones() -> None:
    # Each three bytes repeat four: with 65,535 copied for every one, a file of 64 MiB took minutes.
    near, far = (_seconds_of_repeats(distance) for distance in (b"\x08\x00", b"\xff\xff"))

    assert far < 4 * near


def _seconds_of_repeats(distance: bytes) -> float:
    literals = b"\xf0" + b"\xff" * 256 + b"\xf0" + bytes(65_535)
    payload = literals + distance + (b"\x00" + distance) * 60_000 + b"\x10b"
    size = 65_535 + 4 * 60_001 + 1
    block = Block(memoryview(payload), is_packed=True, size=size, checksum=0)
    begun = time.thread_time()
    with pytest.raises(RecordError, match="checksum"):
        unpack(block)
    return time.thread_time() - begun

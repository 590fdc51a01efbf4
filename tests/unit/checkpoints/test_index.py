from __future__ import annotations

import gzip
import hashlib
import tracemalloc
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.checkpoints.backup.index import (
    LARGE,
    MAX_INDEX_BYTES,
    MAX_MEMBERS,
    check_member_path,
    decode_index,
    encode_index,
    from_ranges,
    stamp_digest,
    to_ranges,
)
from airflow_streaming.checkpoints.backup.records import Bundle, Member
from airflow_streaming.exceptions import RecordError

PACK = "ab" * 32


def a_member(path: str = "counts/offsets/17", **changes: object) -> Member:
    sha256 = hashlib.sha256(path.encode()).hexdigest()
    return replace(Member(path=path, size=17, sha256=sha256, stamp=stamp_digest("x")), **changes)


def a_bundle(*members: Member) -> Bundle:
    return Bundle(pack=PACK, pack_size=1000, members=members or (a_member(),))


def an_index(text: str) -> bytes:
    return gzip.compress(text.encode("utf-8", "surrogatepass"), mtime=0)


HEAD = f'{{"format": 1, "pack": "{PACK}", "pack_size": 1000}}\n'
LINE = "counts/offsets/17\t17\t" + "A" * 43 + "\t\t\n"


@pytest.mark.parametrize(
    "bundle",
    [
        pytest.param(a_bundle(), id="one member"),
        pytest.param(
            a_bundle(
                a_member(), a_member("ü/b", stamp=""), a_member("c", is_alone=True, size=LARGE)
            ),
            id="packed and alone",
        ),
        pytest.param(
            Bundle(pack="", pack_size=0, members=(a_member(is_alone=True),)), id="no pack"
        ),
    ],
)
def test_an_index_reads_back_as_it_was_written(bundle: Bundle) -> None:
    assert decode_index(encode_index(bundle)) == bundle


def test_an_index_is_a_table_that_stock_tools_show() -> None:
    lines = gzip.decompress(encode_index(a_bundle())).decode().splitlines()

    assert lines[0].startswith('{"format": 1')
    assert lines[1].split("\t")[:2] == ["counts/offsets/17", "17"]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no gzip", id="not compressed"),
        pytest.param(encode_index(a_bundle())[:-1], id="cut off"),
        pytest.param(encode_index(a_bundle()) + b"x", id="something behind it"),
        pytest.param(an_index(HEAD), id="no member"),
        pytest.param(an_index(HEAD + LINE[:-1]), id="last line not ended"),
        pytest.param(an_index(HEAD + LINE + LINE), id="one path twice"),
        pytest.param(an_index("{}\n" + LINE), id="no format"),
        pytest.param(an_index(HEAD.replace("1,", "2,") + LINE), id="format of the future"),
        pytest.param(an_index(HEAD.replace("1,", "true,") + LINE), id="format is no number"),
        pytest.param(an_index(HEAD.replace(PACK, "../x") + LINE), id="pack is no digest"),
        pytest.param(an_index(HEAD.replace("1000", "-1") + LINE), id="pack of negative size"),
        pytest.param(an_index(HEAD + LINE.replace("17\t17", "17\t-1")), id="negative size"),
        pytest.param(an_index(HEAD + LINE.replace("17\t17", "17\t017")), id="size with a zero"),
        pytest.param(
            an_index(HEAD + LINE.replace("17\t17", "17\t1048576")), id="too large to pack"
        ),
        pytest.param(an_index(HEAD + LINE.replace("AAA\t", "AA\t")), id="short digest"),
        pytest.param(
            an_index(HEAD + LINE.replace("AAA\t", "A!A\t")), id="digest of strange letters"
        ),
        pytest.param(an_index(HEAD + LINE.replace("\t\t\n", "\t\t2\n")), id="unknown flag"),
        pytest.param(an_index(HEAD + LINE.replace("\t\t\n", "\tstamp\t\n")), id="no stamp"),
        pytest.param(an_index(HEAD + LINE.replace("\t\t\n", "\t\t1\n")), id="pack without members"),
        pytest.param(an_index(HEAD + "one\tfield too many\t" + LINE), id="too many fields"),
        pytest.param(an_index(HEAD + LINE.replace("counts", "..")), id="path that leads out"),
        pytest.param(an_index("[" * 500 + "\n" + LINE), id="deep header"),
    ],
)
def test_what_is_no_index_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_index(data)


def test_more_members_than_a_bundle_has_are_refused() -> None:
    lines = "".join(LINE.replace("17\t17", f"{n}\t1") for n in range(MAX_MEMBERS + 1))

    with pytest.raises(RecordError, match="more than 16384"):
        decode_index(an_index(HEAD + lines))


def test_a_bomb_of_empty_lines_is_refused_before_it_is_split() -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = squeeze.compress(b"\n" * MAX_INDEX_BYTES) + squeeze.flush()

    tracemalloc.start()
    try:
        with pytest.raises(RecordError):
            decode_index(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 3 * MAX_INDEX_BYTES


def test_a_compressed_bomb_is_not_unpacked() -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(1024 * 1024)
    bomb = b"".join(squeeze.compress(piece) for _ in range(MAX_INDEX_BYTES // len(piece) + 1))

    with pytest.raises(RecordError):
        decode_index(bomb + squeeze.flush())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_mutated_index_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    text = bytearray(gzip.decompress(encode_index(a_bundle(a_member(), a_member("b")))))
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))

    try:
        bundle = decode_index(gzip.compress(bytes(text)))
    except RecordError:
        return
    assert all(check_member_path(member.path) for member in bundle.members)


@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "a//b", "a/", ".", "..", "a/../b", "./a", "a/.", "a\nb", "a\tb", "a\0b",
        "a\x7fb", "a\x85b", "a\udc80", "x" * 1025,
    ],
)  # fmt: skip
def test_a_path_that_is_not_plainly_below_its_folder_is_refused(path: str) -> None:
    with pytest.raises(RecordError, match="cannot be the path"):
        check_member_path(path)


@pytest.mark.parametrize(
    "path", ["a", "a/b", ".hidden", "a/..b", "a/...", "ü/é", "a b", "x" * 1024]
)
def test_a_usual_path_is_taken(path: str) -> None:
    assert check_member_path(path) == path


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, 300), min_size=1))
def test_numbers_survive_as_ranges(numbers: set[int]) -> None:
    assert from_ranges(to_ranges(numbers), 301) == tuple(sorted(numbers))


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "1-", "01", "3-1", "2,1", "1,1", "1,2", "1-2,3", "1 ,3", "5", "0-5", "1-1", "9" * 30],
)  # fmt: skip
def test_another_spelling_of_ranges_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match="does not choose"):
        from_ranges(text, 5)


BOMB_HEAD = b'{"format": 1, "pack": "", "pack_size": 0}\n'
BOMB_LINE = b"a" * 1000 + b"\t1\t" + b"A" * 43 + b"\t\t1\n"


@pytest.mark.parametrize(
    ("head", "piece", "times"),
    [
        pytest.param(b"", b"a", 60_000_000, id="one_line"),
        pytest.param(BOMB_HEAD, b"a", 60_000_000, id="one_member"),
        pytest.param(BOMB_HEAD, b"\n", 60_000_000, id="empty_lines"),
        pytest.param(BOMB_HEAD, BOMB_LINE, 60_000, id="too_many_members"),
        pytest.param(b"\n" * MAX_MEMBERS, b"a", 40_000_000, id="lines_then_one"),
    ],
)
def test_a_bomb_costs_little_memory(head: bytes, piece: bytes, times: int) -> None:
    bomb = gzip.compress(head + piece * times, 1, mtime=0)
    tracemalloc.start()
    try:
        with pytest.raises(RecordError):
            decode_index(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # As much as the largest index that is one: 16,384 members of a thousand bytes.
    assert peak < 40_000_000

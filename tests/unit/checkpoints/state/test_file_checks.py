"""Damage that shows in a file by itself, and what is no damage."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.read.report import Finding, FindingCode
from airflow_streaming.checkpoints.state.chain import Chain, files_for
from airflow_streaming.checkpoints.state.file_checks import check_files
from airflow_streaming.exceptions import RecordError
from tests.unit.checkpoints.state.papers import (
    STORE,
    Paper,
    hadoop_crc,
    lz4_stream,
    sidecar,
    state_zip,
    table,
)

ZSTD = bytes.fromhex("28b52ffd") + b"...."
SNAPPY = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
GOOD = lz4_stream(b"\xff\xff\xff\xff")


def store(**files: bytes) -> Paper:
    """Return a checkpoint with these files; ``_`` in a name stands for a dot."""
    return Paper({f"state/0/0/{name.replace('_', '.')}": data for name, data in files.items()})


def check(
    files: Paper, version: int, ids: dict[int, str] | None = None, *, thorough: bool = False
) -> list[Finding]:
    chain = files_for(files.listing, files.read, STORE, version, ids)
    assert isinstance(chain, Chain)
    return check_files(chain, files.listing, files.read, thorough=thorough)


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def rocks(sst: bytes) -> Paper:
    files = {
        "state/0/0/6.zip": state_zip(("000008-a.sst", len(sst))),
        "state/0/0/SSTs/000008-a.sst": sst,
    }
    return Paper(files)


def test_whole_files_have_no_findings() -> None:
    files = store(
        **{"1_delta": GOOD, "1_delta_crc": sidecar(GOOD), "_1_delta_crc": hadoop_crc(GOOD)}
    )
    files = files.having("state/0/0/.1.delta.crc.crc", hadoop_crc(sidecar(GOOD)))

    assert check(files, 1, thorough=True) == []
    assert check(rocks(table()), 6, thorough=True) == []


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        pytest.param("1.delta", GOOD[:-1], "cut off", id="the end mark is torn"),
        pytest.param("1.delta", GOOD[:-21], "end mark is missing", id="the end mark is missing"),
        pytest.param("1.delta", GOOD[:30], "cut off", id="a header is torn"),
        pytest.param("1.delta", GOOD[:5], "cut off", id="the first magic is torn"),
        pytest.param("1.delta", GOOD + b"more", "cut off", id="bytes after the end mark"),
        pytest.param("1.delta", GOOD + b"\0" * 40, "header at byte 46", id="zeros after it"),
        pytest.param("1.snapshot", GOOD[:-1], "cut off", id="a snapshot"),
        pytest.param("1.changelog", GOOD[:-1], "cut off", id="a changelog"),
    ],
)
def test_a_torn_file_is_damaged(name: str, data: bytes, said: str) -> None:
    finding = only(check(Paper({f"state/0/0/{name}": data}), 1))

    assert finding.code is FindingCode.STATE_FILE_DAMAGED
    assert finding.path == f"state/0/0/{name}"
    assert finding.path in finding.message
    assert said in finding.message
    assert "CANNOT_LOAD_STATE_STORE" in finding.message


def test_an_sst_that_does_not_end_as_one_is_damaged() -> None:
    finding = only(check(rocks(b"\0" * 64), 6))

    assert finding.path == "state/0/0/SSTs/000008-a.sst"


def test_a_bit_within_a_zip_is_damage() -> None:
    files = rocks(table())
    data = bytearray(files.files["state/0/0/6.zip"])
    data[data.index(b"CURRENT") + len("CURRENT") + 2] ^= 1

    assert only(check(files.having("state/0/0/6.zip", bytes(data)), 6)).path == "state/0/0/6.zip"


@pytest.mark.parametrize("head", [ZSTD, SNAPPY, b"ZV\x01\x00\x05"])
def test_a_codec_that_is_not_known_here_is_no_damage(head: bytes) -> None:
    assert check(store(**{"1_delta": head}), 1, thorough=True) == []


def test_a_file_of_no_codec_is_no_damage_by_itself_but_among_others_that_have_one() -> None:
    custom = b"whatever some codec of theirs writes"

    assert check(store(**{"1_delta": custom, "2_delta": custom}), 2) == []
    finding = only(check(store(**{"1_delta": GOOD, "2_delta": custom}), 2))
    assert finding.path == "state/0/0/2.delta"


def test_a_file_that_differs_from_hadoops_checksum_is_damaged() -> None:
    files = store(**{"1_delta": GOOD, "_1_delta_crc": hadoop_crc(GOOD[::-1])})

    assert "Hadoop" in only(check(files, 1)).message


def test_a_checksum_file_of_hadoop_that_is_torn_tells_nothing() -> None:
    assert check(store(**{"1_delta": GOOD, "_1_delta_crc": b"crc\0"}), 1) == []


def test_a_file_of_another_size_than_sparks_checksum_file_says_is_damaged() -> None:
    files = store(**{"1_delta": GOOD, "1_delta_crc": sidecar(GOOD, size=len(GOOD) + 1)})

    assert "checksum file" in only(check(files, 1)).message


def test_a_flipped_bit_shows_in_sparks_checksum_when_looked_at_thoroughly() -> None:
    files = store(**{"1_delta": GOOD, "1_delta_crc": sidecar(GOOD, value=1)})

    assert check(files, 1) == []
    assert "Spark keeps" in only(check(files, 1, thorough=True)).message


def test_a_flipped_bit_shows_in_the_block_when_looked_at_thoroughly() -> None:
    flipped = bytearray(GOOD)
    flipped[22] ^= 1
    files = store(**{"1_delta": bytes(flipped)})

    assert check(files, 1) == []
    assert "checksum" in only(check(files, 1, thorough=True)).message


def test_another_algorithm_than_crc32c_is_only_compared_by_size() -> None:
    said = sidecar(GOOD, value=1).replace(b"CRC32C", b"SHA-0")
    assert check(store(**{"1_delta": GOOD, "1_delta_crc": said}), 1, thorough=True) == []


def test_a_torn_checksum_file_of_spark_is_damaged_itself() -> None:
    files = store(**{"1_delta": GOOD, "1_delta_crc": sidecar(GOOD)[:-3]})

    assert only(check(files, 1)).path == "state/0/0/1.delta.crc"


def test_a_file_of_the_chain_that_is_gone_is_missing() -> None:
    files = store(**{"1_delta": GOOD, "2_delta": GOOD})
    chain = files_for(files.listing, files.read, STORE, 2)
    assert isinstance(chain, Chain)
    gone = files.without("state/0/0/1.delta")

    finding = only(check_files(chain, gone.listing, gone.read))
    assert (finding.code, finding.path) == (
        FindingCode.STATE_VERSION_MISSING,
        "state/0/0/1.delta",
    )


def test_what_the_search_for_the_chain_found_is_not_told_again() -> None:
    files = store(**{"1_changelog": GOOD, "2_changelog": GOOD, "2_zip": b"PK"})

    assert check(files, 2) == []


def test_what_cannot_be_read_as_it_grew_is_no_damage() -> None:
    files = store(**{"1_delta": GOOD})
    chain = files_for(files.listing, files.read, STORE, 1)
    assert isinstance(chain, Chain)

    def refuse(path: str, limit: int) -> bytes | None:
        raise RecordError("larger than asked for")

    assert check_files(chain, files.listing, refuse) == []

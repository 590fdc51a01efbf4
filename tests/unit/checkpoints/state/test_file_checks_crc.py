"""Checksum files of Hadoop and of Spark."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.state.file_checks import (
    Sidecar,
    agrees_with_hadoop,
    crc32c,
    parse_sidecar,
)
from airflow_streaming.exceptions import RecordError
from tests.golden import golden_files
from tests.unit.checkpoints.state.papers import golden_paper_with_hidden, hadoop_crc, sidecar


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_crc32c_is_that_of_the_standard(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_spark_agrees_about_crc32c() -> None:
    files = golden_files()
    sidecars = [path for path in files if path.endswith((".delta.crc", ".changelog.crc"))]
    assert len(sidecars) > 150
    for path in sidecars:
        said = parse_sidecar(files[path])
        data = files[path.removesuffix(".crc")]
        assert (said.checksum, said.size) == (crc32c(data), len(data)), path


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="torn"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(b"{}", id="no fields"),
        pytest.param(sidecar(b"x", size=-1), id="a size below zero"),
        pytest.param(sidecar(b"x").replace(b'"value": ', b'"value": "'), id="another type"),
        pytest.param(b" " * 70_000, id="too large"),
    ],
)
def test_other_files_are_no_checksum_files(data: bytes) -> None:
    with pytest.raises(RecordError):
        parse_sidecar(data)


def test_negative_numbers_of_java_are_read() -> None:
    assert parse_sidecar(sidecar(b"x", value=0xFFFFFFFE)) == Sidecar(
        algorithm="CRC32C", checksum=0xFFFFFFFE, size=1
    )


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 2000])
def test_a_file_agrees_with_its_own_hidden_checksums_only(size: int) -> None:
    data = bytes(size)
    assert agrees_with_hadoop(data, hadoop_crc(data))
    assert not agrees_with_hadoop(data + b"\1", hadoop_crc(data))
    assert size <= 512 or not agrees_with_hadoop(data[:-512], hadoop_crc(data))


@pytest.mark.parametrize("checksums", [b"", b"crc\0", b"CRC\0\0\0\2\0", b"crc\0\0\0\0\0"])
def test_hidden_checksums_without_a_head_tell_nothing(checksums: bytes) -> None:
    assert agrees_with_hadoop(b"data", checksums)


@pytest.mark.parametrize("spark", ["3.5.9", "4.1.4", "4.3.0"])
def test_hadoop_agrees_about_every_file_of_a_real_checkpoint(spark: str) -> None:
    files = golden_paper_with_hidden(spark, "agg_rocks_v2").files
    hidden = [path for path in files if path.rpartition("/")[2].startswith(".")]
    assert len(hidden) > 40
    for path in hidden:
        folder, _, name = path.rpartition("/")
        data = files[f"{folder}/{name[1:-4]}".removeprefix("/")]
        assert agrees_with_hadoop(data, files[path]), path

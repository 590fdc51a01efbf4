"""Places and pinned settings as the doctor reads them."""

from __future__ import annotations

import pytest

from airflow_streaming.advice.checkpoint_risks import place
from airflow_streaming.advice.examined import pinned_conf
from airflow_streaming.exceptions import RecordError


@pytest.mark.parametrize(
    ("uri", "same"),
    [
        ("/data/c/", "file:/data//./c"),
        ("file:///data/c", "/data/c"),
        ("s3://bucket/c", "s3a://bucket/c"),
        ("S3A://bucket/c", "s3a://bucket/c"),
        ("gcs://bucket/c", "gs://bucket/c"),
    ],
)
def test_spellings_of_one_place_are_equal(uri: str, same: str) -> None:
    assert place(uri) == place(same)


def test_places_in_different_stores_differ() -> None:
    assert len({place(uri) for uri in ("/b/c", "s3://b/c", "gs://b/c", "hdfs://b/c")}) == 4


class TestPinnedConf:
    def test_is_the_second_line_of_a_file_of_the_offset_log(self) -> None:
        data = b'v1\n{"batchWatermarkMs":0,"conf":{"spark.a":"1","spark.n":2}}\n{"logOffset":1}'

        assert pinned_conf(data) == {"spark.a": "1"}

    def test_may_be_missing_in_old_files(self) -> None:
        assert pinned_conf(b'v1\n{"batchWatermarkMs":0}\n-') == {}

    @pytest.mark.parametrize(
        "data",
        [b"", b"v1", b"v9\n{}", b'{"a":1}', b"v1\nnot json", b"v1\n[]", b'v1\n{"conf":[1]}'],
    )
    def test_of_anything_else_is_refused(self, data: bytes) -> None:
        with pytest.raises(RecordError):
            pinned_conf(data)

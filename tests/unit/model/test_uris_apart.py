"""Places that lie apart, by their spelling."""

from __future__ import annotations

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.uris import check_apart, is_same_place


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("/ck", "/ck/backups"),
        ("/ck/state/copy", "/ck"),
        ("/ck/", "file:///ck/./a//b"),
        ("//data/ck", "/data/ck/x"),
        ("s3a://bucket/ck", "s3://bucket/ck/x"),
        ("s3://bucket", "s3n://bucket/ck"),
        ("gcs://b/ck", "gs://b/ck"),
        ("memory://b/ck", "memory://b/ck/"),
    ],
)
def test_a_place_inside_another_is_refused_whichever_it_is(first: str, second: str) -> None:
    for one, two in ((first, second), (second, first)):
        with pytest.raises(SpecError, match=r"checkpoint .* store") as refused:
            check_apart(one, two, what="checkpoint", other="store")
        assert first in str(refused.value)
        assert second in str(refused.value)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("/ck", "/ck2"),
        ("/data/a", "/data/b"),
        ("s3://bucket/ck", "gs://bucket/ck/x"),
        ("s3://one/ck", "s3://two/ck/x"),
        ("/bucket/ck", "s3://bucket/ck/x"),
        ("s3://bucket/ck", "s3://bucket/ck-backups"),
    ],
)
def test_places_beside_each_other_lie_apart(first: str, second: str) -> None:
    check_apart(first, second, what="checkpoint", other="store")
    check_apart(second, first, what="checkpoint", other="store")


def test_one_place_may_be_spelled_in_several_ways() -> None:
    assert is_same_place("file:///data/ck/", "/data/./ck")
    assert not is_same_place("/data/ck", "/data/ck/x")

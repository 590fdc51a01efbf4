"""One place has one spelling for Airflow's side and one for Spark's, and never a password."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.uris import (
    check_uri,
    in_full,
    is_local,
    join,
    local_path,
    scheme_of,
    to_fsspec,
    to_hadoop,
)

ABFSS = "abfss://box@account.dfs.core.windows.net/streams"

SPELLINGS = [
    # (as given, for fsspec, for Hadoop)
    ("s3://bucket/streams", "s3://bucket/streams", "s3a://bucket/streams"),
    ("s3a://bucket/streams", "s3://bucket/streams", "s3a://bucket/streams"),
    ("s3n://bucket/streams", "s3://bucket/streams", "s3n://bucket/streams"),
    ("S3://Bucket/Streams", "s3://Bucket/Streams", "s3a://Bucket/Streams"),
    ("gs://bucket/streams", "gs://bucket/streams", "gs://bucket/streams"),
    ("gcs://bucket/streams", "gs://bucket/streams", "gs://bucket/streams"),
    (ABFSS, ABFSS, ABFSS),
    ("az" + ABFSS[5:], "az" + ABFSS[5:], ABFSS),
    ("abfs" + ABFSS[5:], "abfs" + ABFSS[5:], "abfs" + ABFSS[5:]),
    ("hdfs://nn:8020/streams", "hdfs://nn:8020/streams", "hdfs://nn:8020/streams"),
    ("hdfs:///streams", "hdfs:///streams", "hdfs:///streams"),
    ("webhdfs://nn:9870/streams", "webhdfs://nn:9870/streams", "webhdfs://nn:9870/streams"),
    ("/data/streams", "/data/streams", "file:///data/streams"),
    ("file:///data/streams", "/data/streams", "file:///data/streams"),
    ("FILE:///data/streams", "/data/streams", "file:///data/streams"),
    ("file:///data/a:b", "/data/a:b", "file:///data/a:b"),
    ("local:///data/streams", "/data/streams", "file:///data/streams"),
    ("/data/my streams", "/data/my streams", "file:///data/my streams"),
]


@pytest.mark.parametrize(("given", "fsspec", "hadoop"), SPELLINGS, ids=[s[0] for s in SPELLINGS])
def test_a_place_is_spelled_for_each_side(given: str, fsspec: str, hadoop: str) -> None:
    assert check_uri(given, "home") == given
    assert to_fsspec(given) == fsspec
    assert to_hadoop(given) == hadoop


@pytest.mark.parametrize(("given", "fsspec", "hadoop"), SPELLINGS, ids=[s[0] for s in SPELLINGS])
def test_a_spelling_translated_twice_stays_the_same_place(
    given: str, fsspec: str, hadoop: str
) -> None:
    assert to_fsspec(fsspec) == fsspec
    assert to_hadoop(hadoop) == hadoop
    assert to_hadoop(fsspec) == hadoop.replace("s3n://", "s3a://")
    assert scheme_of(to_fsspec(hadoop)) == scheme_of(fsspec).replace("az", "abfss")


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        ("/data/streams/", "/data/streams"),
        ("file:///data///", "file:///data"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket", "s3://bucket"),
        ("hdfs://nn:8020/", "hdfs://nn:8020"),
        ("/data//streams", "/data//streams"),
        ("file:/data/streams/", "file:///data/streams"),
        ("FILE:/data", "file:///data"),
        ("/data/a:b@c", "/data/a:b@c"),
        ("s3://bucket/a=1,b=ü", "s3://bucket/a=1,b=ü"),
    ],
)
def test_a_folder_is_returned_without_trailing_slash(given: str, returned: str) -> None:
    assert check_uri(given, "home") == returned


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("", "is empty"),
        (" /data", "has spaces around it"),
        ("/data\n", "has spaces around it"),
        ("/da\0ta", "characters that cannot be printed"),
        ("/da\x1bta", "characters that cannot be printed"),
        ("/da\u2028ta", "characters that cannot be printed"),
        ("data/streams", "is relative. Give an absolute path"),
        ("./data", "is relative"),
        ("~/streams", "is relative"),
        ("file://data/streams", "names a host"),
        ("file://", "names a host"),
        ("file:data/streams", "lacks '//' after its scheme"),
        ("file:/", "is the root of a file system"),
        ("word:/data", "a relative path with a colon begins with './'"),
        ("s3:bucket/streams", "lacks '//' after its scheme"),
        ("/data/s3://bucket", "has '://' in a path"),
        ("://bucket/x", "is relative"),
        ("/", "is the root of a file system"),
        ("file:///", "is the root of a file system"),
        ("hdfs:///", "is the root of a file system"),
        ("hdfs://", "is the root of a file system"),
        ("s3://", "is the root of a file system"),
        ("s3:///streams", "names no bucket. Write s3://bucket/folder"),
        ("/data/../etc", "has '..' in it"),
        ("/data/..", "has '..' in it"),
        ("s3://bucket/a/../b", "has '..' in it"),
        ("s3://../b", "has '..' in it"),
        ("s3://bucket//streams", "has '//' or '/./' in it"),
        ("s3://bucket/./streams", "has '//' or '/./' in it"),
    ],
    ids=lambda value: repr(value),
)
def test_what_is_no_folder_is_refused_with_a_sentence(uri: str, sentence: str) -> None:
    with pytest.raises(SpecError) as refusal:
        check_uri(uri, "checkpoint")

    assert str(refusal.value).startswith("The checkpoint ")
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:hunter2@bucket/streams",
        "s3://key:hun/ter2hunter2@bucket/streams",
        "s3a://key:hunter2@bucket/../x",
        "hdfs://user:hunter2@nn:8020/",
        "https://user:hunter2@host/x",
        "file://user:hunter2@host/x",
        "s3:/key:hunter2@bucket",
        " s3://key:hunter2@bucket",
        "s3://key:hunter2\x01@bucket",
        "s3://[key:hunter2@bucket",
        "user:hunter2@host/streams",
        "abfss://box@account.dfs.core.windows.net/streams?sig=hunter2",
        "s3://bucket/streams#hunter2",
        "/data/streams?token=hunter2",
    ],
)
def test_credentials_are_refused_and_never_repeated(uri: str) -> None:
    with pytest.raises(SpecError, match="may not carry credentials") as refusal:
        check_uri(uri, "home")

    assert "hunter2" not in str(refusal.value)


@settings(max_examples=150, deadline=None, database=None)
@given(st.text(alphabet="s3a:/.@?#x \n\0é", max_size=20))
def test_any_text_is_a_folder_or_a_spec_error(text: str) -> None:
    try:
        uri = check_uri(text, "home")
    except SpecError:
        return
    assert ".." not in uri.split("/")
    assert not is_local(uri) or local_path(uri).startswith("/")
    assert check_uri(join(uri, "orders"), "home") == join(uri, "orders")
    assert to_hadoop(to_fsspec(uri)) == to_hadoop(uri)


def test_hadoops_short_spelling_of_a_local_place_is_understood_everywhere() -> None:
    assert is_local("file:/data/ck")
    assert local_path("file:/data/ck") == to_fsspec("file:/data/ck") == "/data/ck"
    assert to_hadoop("file:/data/ck") == in_full("file:/data/ck") == "file:///data/ck"
    assert in_full("/data/file:/ck") == "/data/file:/ck"


def test_parts_are_joined_with_one_slash() -> None:
    assert join("s3://bucket/streams/", "orders", "epochs") == "s3://bucket/streams/orders/epochs"
    assert join("/data") == "/data"

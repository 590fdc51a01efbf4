"""What the API server opens, and where it leads a browser."""

from __future__ import annotations

import pytest

from airflow_streaming.exceptions import HomeNotAllowed
from airflow_streaming.plugins.access.trust import check_home, ui_address

CHAINS = (
    "zip://*.zip::http://169.254.169.254/latest",
    "simplecache::s3://bucket/streams",
    "/srv/streams::http://inside",
    "s3://bucket/a::http:/inside",
)
ELSEWHERE = (
    "http://169.254.169.254/latest/meta-data",
    "https://inside.example.com/streams",
    "ftp://inside:21/streams",
    "sftp://inside/streams",
    "smb://inside/share/streams",
    "github://org:repo@main/streams",
    "reference://bucket/streams",
    "hdfs://inside:22/streams",
    "webhdfs://inside:9870/streams",
    "memory://streams/home",
)
NO_HOME = ("", "streams", "/", "s3://", "s3://key:secret@bucket/x", "/srv/../etc", "***", "/a\nb")


@pytest.mark.parametrize("home", [*CHAINS, *ELSEWHERE, *NO_HOME])
def test_without_a_list_even_a_dag_file_cannot_name(home: str) -> None:
    with pytest.raises(HomeNotAllowed):
        check_home(home, written=home, allowed=())


@pytest.mark.parametrize(
    "home",
    ["/srv/streams", "file:///srv/streams", "s3://b/streams", "s3a://b/s", "gs://b/s", "az://c/s"],
)
def test_without_a_list_a_home_is_opened_that_the_dag_file_spells_out(home: str) -> None:
    check_home(home, written=home, allowed=())

    for written in (None, "{{ params.home }}", f"{home}/other"):
        with pytest.raises(HomeNotAllowed):
            check_home(home, written=written, allowed=())


@pytest.mark.parametrize(
    ("home", "entry", "may_open"),
    [
        ("s3://b/streams", "s3://b/streams", True),
        ("s3a://b/streams/", "s3://b/streams", True),
        ("s3://b/streams/team", "s3://b/streams", True),
        ("s3://b/streams-of-others", "s3://b/streams", False),
        ("s3://b", "s3://b/streams", False),
        ("s3://b/streams/../other", "s3://b/streams", False),
        ("gs://b/streams", "s3://b/streams", False),
        ("/srv/streams/a", "/srv/streams", True),
        ("file:///srv/streams", "/srv/streams/", True),
        ("/srv//streams/./a", "/srv/streams", True),
        ("/srv/streamsish", "/srv/streams", False),
        ("hdfs://nn:8020/streams", "hdfs://nn:8020/streams", True),
        ("hdfs://other:22/streams", "hdfs://nn:8020/streams", False),
        ("webhdfs://nn/streams::http://x", "webhdfs://nn/streams", False),
    ],
)
def test_with_a_list_it_alone_counts(home: str, entry: str, may_open: bool) -> None:
    allowed = ("/elsewhere", entry)
    if may_open:
        check_home(home, written=None, allowed=allowed)
        return
    with pytest.raises(HomeNotAllowed):
        check_home(home, written=home, allowed=allowed)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://worker-1:4040", "http://worker-1:4040"),
        ("https://WORKER-1:4040/", "https://worker-1:4040/"),
        ("http://worker-1:4040/proxy/x?next=http://evil#f", "http://worker-1:4040/proxy/x"),
        ("http://worker-1:4040/history/app-1/", "http://worker-1:4040/history/app-1/"),
        ("http://worker-1:4040/auth/logout", None),
        ("http://worker-1:8080/proxy/a/b", None),
        ("http://worker-1:22", None),
        ("http://worker-1", "http://worker-1"),
        ("https://worker-1:443", "https://worker-1:443"),
        ("http://spark.example.com:81/ui/driver-1", "http://spark.example.com:81/ui/driver-1"),
        ("http://10.1.2.3:4040", "http://10.1.2.3:4040"),
        ("http://[fd00::7]:4040", "http://[fd00::7]:4040"),
        ("http://a.workers.internal:4040", "http://a.workers.internal:4040"),
        ("http://spark.example.com", "http://spark.example.com"),
        ("http://evil.example.com", None),
        ("http://worker-1.evil.com:4040", None),
        ("http://evilworkers.internal", None),
        ("http://worker-1@evil.com", None),
        ("http://evil.com\\@worker-1:4040", None),
        ("http://11.1.2.3:4040", None),
        ("http://127.0.0.1:4040", None),
        ("http://worker-1:99999", None),
        ("javascript:alert(1)//worker-1", None),
        ("//worker-1:4040", None),
        ("ftp://worker-1", None),
        ("", None),
        (None, None),
    ],
)
def test_a_browser_is_led_only_to_hosts_that_are_known(
    url: str | None, expected: str | None
) -> None:
    allowed = ("spark.example.com", ".workers.internal", "10.0.0.0/8", "fd00::/8")

    assert ui_address(url, hosts=("worker-1",), allowed=allowed) == expected

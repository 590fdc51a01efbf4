"""Settings that are plain lists refuse JSON: one bad entry would allow nothing and say nothing."""

from __future__ import annotations

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.settings import read_settings

LISTED = ("homes", "ui_hosts", "clusters", "metrics_endpoints")


@pytest.mark.parametrize("option", LISTED)
@pytest.mark.parametrize(
    "text", ['["s3://a/b", "s3://c"]', "['/data']", "[]", '{"a": 1}', '"/data"']
)
def test_json_is_refused(option: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AIRFLOW__STREAMING__{option.upper()}", text)

    with pytest.raises(SpecError, match=rf"\[streaming\] {option} is .* not JSON"):
        read_settings()


@pytest.mark.parametrize(
    ("option", "text", "entries"),
    [
        ("homes", "s3://a/b, /data/my home,", ("s3://a/b", "/data/my home")),
        ("ui_hosts", "[::1], .example.com", ("[::1]", ".example.com")),
        ("clusters", "k8s://one  yarn", ("k8s://one", "yarn")),
        (
            "metrics_endpoints",
            "http://a:1, http://b:2 http://c:3",
            ("http://a:1", "http://b:2", "http://c:3"),
        ),
        ("homes", "", ()),
    ],
)
def test_a_plain_list_is_split(
    option: str, text: str, entries: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AIRFLOW__STREAMING__{option.upper()}", text)

    assert getattr(read_settings(), option) == entries

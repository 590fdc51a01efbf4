"""How a store is reached, told in options alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

from airflow_streaming.exceptions import SpecError
from airflow_streaming.hooks.home import access_options

CHECKPOINT = "s3://bucket/checkpoints"


class Positional(AbstractFileSystem):  # type: ignore[misc]
    """Made of something that has no name."""

    def __init__(self, secret: str) -> None:
        super().__init__()
        self.secret = secret


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, sort in (("OURS", "stream_home"), ("OTHER", "aws")):
        stored = {"conn_type": sort, "login": "key", "password": "hidden"}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(stored))


def provider_makes(monkeypatch: pytest.MonkeyPatch, filesystem: Any) -> None:
    monkeypatch.setattr("airflow.sdk.io.fs.get_fs", lambda *_: filesystem)


def test_a_connection_of_ours_is_options() -> None:
    assert access_options(CHECKPOINT, "ours") == {"key": "key", "secret": "hidden"}
    assert access_options(CHECKPOINT, None) is None


def test_what_another_provider_makes_is_told_by_what_it_was_made_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider_makes(monkeypatch, LocalFileSystem(auto_mkdir=True))
    assert access_options(CHECKPOINT, "other") == {"auto_mkdir": True}


def test_what_cannot_be_told_in_options_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    provider_makes(monkeypatch, Positional("hidden"))
    with pytest.raises(SpecError, match="connection 'other' of another provider") as told:
        access_options(CHECKPOINT, "other")
    assert "hidden" not in str(told.value)

"""From a connection to a backup store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.exceptions import CheckpointError, SpecError
from airflow_streaming.hooks.checkpoint import BackupStoreHook
from airflow_streaming.hooks.home import access

STORE = "s3://bucket/backups"


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {
        "conn_type": "stream_home",
        "login": "key",
        "password": "hidden",
        "extra": json.dumps({"endpoint_url": "http://s3.internal:8333", "anon": True}),
    }
    monkeypatch.setenv("AIRFLOW_CONN_OURS", json.dumps(stored))


def test_a_store_is_made_in_an_empty_folder_only_when_that_is_asked_for(tmp_path: Path) -> None:
    hook = BackupStoreHook(str(tmp_path / "store"))

    with pytest.raises(CheckpointError, match="is not a backup store"):
        hook.get_conn()
    assert hook.get_conn(create=True).backups() == []
    assert hook.get_conn().backups() == []


def test_a_connection_of_our_type_gives_the_options_that_are_known() -> None:
    assert access(STORE, "ours") == {
        "storage_options": {
            "key": "key",
            "secret": "hidden",
            "client_kwargs": {"endpoint_url": "http://s3.internal:8333"},
        },
        "filesystem": None,
    }


@pytest.mark.parametrize(
    ("uri", "conn_id"),
    [
        pytest.param(STORE, None, id="without a connection"),
        pytest.param("/data/backups", "ours", id="for a local folder"),
    ],
)
def test_the_environment_is_used(uri: str, conn_id: str | None) -> None:
    assert access(uri, conn_id) == {"storage_options": None, "filesystem": None}


def test_a_scheme_that_a_connection_cannot_hold_credentials_for_is_refused() -> None:
    with pytest.raises(SpecError, match="cannot hold credentials for 'ftp'"):
        access("ftp://host/backups", "ours")


def test_no_secret_is_in_what_is_shown_of_a_store() -> None:
    opened = BackupStoreHook(STORE, "ours")

    assert "hidden" not in repr(vars(opened))

"""Who only looks shares a client of the store; who writes has one of his own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.hooks.home import StreamHomeHook

HOME = "s3://bucket/streams"


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, secret in (("one", "first"), ("same", "first"), ("other", "second")):
        stored = {"conn_type": "stream_home", "login": "key", "password": secret}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(stored))


def test_those_who_look_share_a_store_by_home_and_credentials() -> None:
    first, again = (StreamHomeHook(HOME, "one", looks_only=True).get_conn() for _ in range(2))
    same = StreamHomeHook(HOME, "same", looks_only=True).get_conn()

    assert first.store is again.store is same.store


@pytest.mark.parametrize(
    ("home", "connection"),
    [
        pytest.param(HOME, "other", id="other credentials"),
        pytest.param(HOME, None, id="credentials of the environment"),
        pytest.param("s3://bucket/others", "one", id="another home"),
    ],
)
def test_a_store_is_not_shared_with(home: str, connection: str | None) -> None:
    first = StreamHomeHook(HOME, "one", looks_only=True).get_conn()

    assert StreamHomeHook(home, connection, looks_only=True).get_conn().store is not first.store


def test_a_store_is_given_up_with_its_last_user() -> None:
    from airflow_streaming.hooks import home

    opened = StreamHomeHook("s3://bucket/short", "one", looks_only=True).get_conn()
    known = [key for key in home._stores if key[0] == "s3://bucket/short"]

    del opened

    assert len(known) == 1
    assert not set(known) & set(home._stores)


def test_no_secret_is_kept_in_the_names_of_shared_stores() -> None:
    from airflow_streaming.hooks import home

    opened = StreamHomeHook(HOME, "one", looks_only=True).get_conn()

    assert opened.store in home._stores.values()
    assert not any("first" in part for key in home._stores for part in key)


def test_who_writes_to_a_local_home_proves_its_store_first(tmp_path: Path) -> None:
    StreamHomeHook(str(tmp_path / "looked"), looks_only=True).get_conn()
    StreamHomeHook(str(tmp_path / "written")).get_conn()

    assert not (tmp_path / "looked").exists()
    assert (tmp_path / "written" / "_store" / "000001.json").exists()

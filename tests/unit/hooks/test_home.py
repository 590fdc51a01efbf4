"""Who only looks shares a client of the store; who writes has one of his own."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_streaming.exceptions import HomeNotInitialized, HomeUnavailable
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


@pytest.mark.parametrize("home", ["memory://of-hooks/streams", "{tmp_path}/home"])
def test_only_an_initialized_home_is_opened_to_write(tmp_path: Path, home: str) -> None:
    hook = StreamHomeHook(home.format(tmp_path=tmp_path))
    found = "there is no such folder" if tmp_path.name in hook.home else "nothing is stored there"

    StreamHomeHook(hook.home, looks_only=True).get_conn()
    with pytest.raises(HomeNotInitialized, match=f"{hook.home}.* is not a home: {found}"):
        hook.get_conn()
    assert list(tmp_path.iterdir()) == []

    hook.init()
    assert hook.get_conn().streams() == []


def test_who_remembers_a_home_opens_the_empty_folder_in_its_place(tmp_path: Path) -> None:
    home = StreamHomeHook(str(tmp_path), has_seen_home=True).get_conn()

    assert home.streams() == []
    assert list(tmp_path.iterdir()) == []


def made_by_airflow(conn_id: str) -> StreamHomeHook:
    """Make a hook as Airflow's connection form does: of the connection alone."""
    return StreamHomeHook(**{StreamHomeHook.conn_name_attr: conn_id})


def test_the_form_opens_the_home_that_the_connection_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = {"conn_type": "stream_home", "extra": {"home": str(tmp_path)}}
    monkeypatch.setenv("AIRFLOW_CONN_HERE", json.dumps(stored))
    (tmp_path / "orders" / "deployments").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))

    is_well, said = made_by_airflow("here").test_connection()

    assert is_well
    assert "1 streams" in said
    assert sorted(tmp_path.rglob("*")) == before


def test_the_form_says_when_the_connection_names_no_home() -> None:
    is_well, said = made_by_airflow("one").test_connection()

    assert not is_well
    assert "'Home'" in said


@pytest.fixture
def silent() -> Iterator[str]:
    """Return the address of a server that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_look_at_a_store_that_does_not_answer_ends_soon(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_streaming.storage.fsspec_store.LOOK_SECONDS", 0.2)
    extra = {"endpoint_url": silent, "region": "eu-1"}
    stored = {"conn_type": "stream_home", "login": "k", "password": "s", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SILENT", json.dumps(stored))
    home = StreamHomeHook(HOME, "silent", looks_only=True).get_conn()
    begun = time.monotonic()

    with pytest.raises(HomeUnavailable):
        home.streams()

    assert time.monotonic() - begun < 10


def test_only_who_looks_gives_up_soon_and_what_the_operator_has_set_wins() -> None:
    from airflow_streaming.storage.fsspec_store import LOOK_SECONDS, LOOK_TRIES, open_store

    mine = {"config_kwargs": {"read_timeout": 7, "s3": {"addressing_style": "path"}}}
    looking = open_store(HOME, mine, looks_only=True)._fs  # type: ignore[attr-defined]
    writing = open_store(HOME, mine)._fs  # type: ignore[attr-defined]

    assert looking.config_kwargs["connect_timeout"] == LOOK_SECONDS
    assert looking.config_kwargs["read_timeout"] == 7
    assert looking.config_kwargs["s3"] == {"addressing_style": "path"}
    assert looking.retries == LOOK_TRIES
    assert writing.config_kwargs == mine["config_kwargs"]
    assert writing.retries > LOOK_TRIES

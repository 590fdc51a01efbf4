from __future__ import annotations

import argparse
import os
from functools import cache
from pathlib import Path

import pytest

from airflow_streaming.cli.common import HOME_VARIABLE
from airflow_streaming.cli.main import main
from airflow_streaming.cli.parser import build_parser
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.storage.probe import ensure_exclusive
from tests.unit.cli.host import FakeHost, Run
from tests.unit.home.make import SCRIPT, make_deployment


@cache
def _parser(_home: str | None) -> argparse.ArgumentParser:
    return build_parser()


@pytest.fixture(autouse=True)
def one_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command builds its parser once, and here hundreds of commands are one process."""
    # The home in the environment is a default of it.
    monkeypatch.setattr(
        "airflow_streaming.cli.main.build_parser", lambda: _parser(os.environ.get(HOME_VARIABLE))
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose store was tried, and that has no stream yet."""
    store = LocalStore(str(tmp_path))
    ensure_exclusive(store, creators=2, rounds=1)
    return Home(store)


@pytest.fixture
def stream(home: Home) -> StreamHome:
    """A stream with a deployment that has never run."""
    stream = home.stream("orders")
    stream.create_deployment(make_deployment(), SCRIPT)
    return stream


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def run(
    home: Home,
    host: FakeHost,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Run the command on the test's home; return exit code, output and error output."""
    monkeypatch.setattr("airflow_streaming.cli.status.WATCH_SECONDS", 0.0)
    monkeypatch.setenv("LOGNAME", "ada")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["--home", home.store.uri, *arguments], probe=host.probe)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run

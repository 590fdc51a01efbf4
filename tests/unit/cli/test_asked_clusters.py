"""A command asks no address that only the records of a home name."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from airflow_streaming.cli import status as look
from airflow_streaming.cli.main import main
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.cluster_policy import CLUSTERS_VARIABLE
from airflow_streaming.model.records.epoch import Host
from airflow_streaming.model.spark.launchers import STANDALONE, YARN
from tests.unit.home.make import make_epoch, make_launch

PLACES = {STANDALONE: "spark://{}", YARN: "yarn://http://{}"}


class Listening:
    """A port that counts connections and answers nothing."""

    def __init__(self) -> None:
        self.socket, self.connections = socket.create_server(("127.0.0.1", 0)), 0
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                client, _ = self.socket.accept()
                self.connections += 1
                client.close()
        except OSError:
            return


@pytest.fixture
def listening() -> Iterator[Listening]:
    found = Listening()
    yield found
    found.socket.close()


@pytest.fixture(params=PLACES)
def place(
    request: pytest.FixtureRequest,
    stream: StreamHome,
    listening: Listening,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Return the cluster on which a record says that the driver runs."""
    monkeypatch.setattr(look, "WATCH_SECONDS", 0.0)
    kind: str = request.param
    host = Host(name=PLACES[kind].format(listening.address))
    handle = {"submission": "driver-1", "application": "application_1_1"}
    stream.create_epoch(make_epoch(launcher=kind, host=host))
    stream.record_launch(make_launch(host=host, handle=handle))
    return host.name


@pytest.mark.parametrize(
    "command",
    [("status", "orders"), ("list",), ("top", "--once"), ("log", "orders")],
    ids=" ".join,
)
def test_a_cluster_that_only_a_record_names_is_not_asked(
    stream: StreamHome,
    place: str,
    listening: Listening,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    monkeypatch.setenv(CLUSTERS_VARIABLE, "spark://own:6066")

    main(["--home", stream.store.uri, *command])

    assert place
    assert listening.connections == 0


def test_a_cluster_that_the_environment_lists_is_asked(
    stream: StreamHome, place: str, listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CLUSTERS_VARIABLE, f"spark://own:6066 {place}")

    main(["--home", stream.store.uri, "status", "orders"])

    assert listening.connections > 0

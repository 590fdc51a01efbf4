"""The doctor's input: which files it reads of the streams beside the examined one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_streaming.advice.gathering import gather
from airflow_streaming.home.home import Home, open_home
from airflow_streaming.model.names import Layout
from tests.unit.home.make import SCRIPT, make_deployment, make_epoch, make_status


class Counted:
    """A store that notes the folders and files that a user of it asks for."""

    def __init__(self, store: Any) -> None:
        self._store, self.calls = store, list[tuple[str, str]]()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name not in ("read", "names"):
            return real

        def call(path: str) -> Any:
            self.calls.append((name, path))
            return real(path)

        return call


def make_stream(home: Home, name: str) -> None:
    stream = home.stream(name)
    stream.create_deployment(make_deployment(stream=name, checkpoint=f"/data/{name}"), SCRIPT)
    for number in (1, 2):
        stream.create_epoch(make_epoch(number, stream=name))
        status = make_status(number, stream=name)
        stream.store.replace(Layout(name).epoch(number, "status.json"), status.to_bytes())


def test_of_another_stream_two_folders_and_two_files_are_read(tmp_path: Path) -> None:
    uri = str(tmp_path)
    for name in ("orders", "sales"):
        make_stream(open_home(uri), name)
    store: Any = Counted(open_home(uri).store)
    home = Home(store)

    found = gather(home, home.stream("orders"), None)

    assert [(one.name, one.folder) for one in found.others] == [("sales", "/data/sales")]
    assert all(one.checkpoints for one in found.others)
    assert [call for call in store.calls if call[1].startswith("sales")] == [
        ("names", "sales/deployments"),
        ("read", "sales/deployments/000001.json"),
        ("names", "sales/epochs"),
        ("read", "sales/epochs/000002/status.json"),
    ]


def test_a_stream_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    home = open_home(str(tmp_path))
    for name in ("orders", "sales", "trips"):
        make_stream(home, name)
    (tmp_path / "sales" / "deployments" / "000001.json").write_text("{")

    found = gather(home, home.stream("orders"), None)

    assert [one.name for one in found.others] == ["trips"]
    assert [why for why in found.unread if "Stream sales, which may share a checkpoint" in why]

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.driver.order import (
    Order,
    check_newest,
    forget_properties,
    read_assignment,
    read_epoch,
)
from airflow_streaming.exceptions import DriverRefusal, FencedError
from airflow_streaming.files.local import LocalStore
from tests.unit.driver.fakes import LAYOUT, make_deployment, make_epoch

SOURCE = b"print('orders')\n"
ORDER = Order(home="/home", stream="orders", epoch=1, token="token")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(str(tmp_path))
    deployment = make_deployment(SOURCE)
    store.create(LAYOUT.record("epochs", 1), make_epoch().to_bytes())
    store.create(LAYOUT.record("deployments", 1), deployment.to_bytes())
    store.create(LAYOUT.application(1, deployment.application_sha256), SOURCE)
    return store


def test_the_command_line_is_read() -> None:
    words = ["--home", "/home", "--stream", "orders", "--epoch", "1", "--token", "token"]
    assert Order.parse(words) == ORDER


def test_a_wrong_command_line_ends_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        Order.parse(["--home", "/home"])
    assert leaving.value.code == 2
    assert "--stream" in capsys.readouterr().err


def test_a_complete_assignment_is_read(store: LocalStore) -> None:
    epoch = read_epoch(store, LAYOUT, ORDER)
    assignment = read_assignment(store, LAYOUT, ORDER, epoch)
    assert assignment.source == SOURCE
    assert assignment.deployment == make_deployment(SOURCE)


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        pytest.param({"token": "another"}, "not that of epoch 1", id="foreign token"),
        pytest.param({"epoch": 9}, r"epochs/000009\.json does not exist", id="no such epoch"),
    ],
)
def test_a_driver_that_nobody_began_is_refused(
    store: LocalStore, order: dict[str, object], sentence: str
) -> None:
    asked = {"home": "/home", "stream": "orders", "epoch": 1, "token": "token", **order}
    with pytest.raises(DriverRefusal, match=sentence):
        read_epoch(store, LAYOUT, Order(**asked))  # type: ignore[arg-type]


def test_an_epoch_that_has_ended_starts_no_second_driver(store: LocalStore) -> None:
    store.create(LAYOUT.epoch(1, "exit.json"), b"{}")
    with pytest.raises(DriverRefusal, match="has ended already"):
        read_epoch(store, LAYOUT, ORDER)


def test_a_script_that_was_changed_in_the_home_is_refused(store: LocalStore) -> None:
    digest = make_deployment(SOURCE).application_sha256
    store.replace(LAYOUT.application(1, digest), b"print('something else')\n")
    with pytest.raises(DriverRefusal, match="its digest differs"):
        read_assignment(store, LAYOUT, ORDER, make_epoch())


def test_only_the_newest_epoch_may_run(store: LocalStore) -> None:
    check_newest(store, LAYOUT, 1)
    store.create(LAYOUT.record("epochs", 2), make_epoch(2).to_bytes())
    with pytest.raises(FencedError, match="Epoch 2 of stream 'orders' exists, so epoch 1 may not"):
        check_newest(store, LAYOUT, 1)


def test_the_properties_file_is_deleted_but_nothing_else(tmp_path: Path) -> None:
    secret, link, folder = tmp_path / "conf", tmp_path / "link", tmp_path / "folder"
    secret.touch()
    link.symlink_to(secret)
    folder.mkdir()

    for path in (link, folder, tmp_path / "missing"):
        forget_properties(str(path))
    forget_properties(None)
    assert secret.exists()
    assert link.is_symlink()

    forget_properties(str(secret))
    assert not secret.exists()

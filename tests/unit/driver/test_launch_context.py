from __future__ import annotations

from pathlib import Path
from urllib.parse import quote_plus

import pytest

from airflow_streaming.driver.launch_context import (
    DriverArgs,
    check_newest,
    forget_properties,
    read_assignment,
    read_epoch,
)
from airflow_streaming.exceptions import DriverRefusal, FencedError
from airflow_streaming.launch.environment import properties_text
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, mark_of
from airflow_streaming.model.spark.failures import presentable
from airflow_streaming.model.storage import LocalStore
from tests.unit.driver.fakes import LAYOUT, make_deployment, make_epoch

SOURCE = b"print('orders')\n"
TOKEN = mark_of("token")
ORDER = DriverArgs(home="/home", stream="orders", epoch=1, token=TOKEN)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(str(tmp_path))
    deployment = make_deployment(SOURCE)
    store.create(LAYOUT.place(Epoch, number=1), LAYOUT.bytes_of(make_epoch()))
    store.create(LAYOUT.place(Deployment, number=1), LAYOUT.bytes_of(deployment))
    store.create(LAYOUT.application(1, deployment.application_sha256), SOURCE)
    return store


def test_the_command_line_is_read() -> None:
    words = ["--home", "/home", "--stream", "orders", "--epoch", "1", "--token", TOKEN]
    assert DriverArgs.parse(words) == ORDER


def test_a_wrong_command_line_ends_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        DriverArgs.parse(["--home", "/home"])
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
        pytest.param({"token": "another"}, "does not match epoch 1", id="foreign token"),
        pytest.param({"token": "token"}, "does not match epoch 1", id="the token itself"),
        pytest.param({"epoch": 9}, r"epochs/000009\.json does not exist", id="no such epoch"),
    ],
)
def test_a_driver_that_nobody_began_is_refused(
    store: LocalStore, order: dict[str, object], sentence: str
) -> None:
    asked = {"home": "/home", "stream": "orders", "epoch": 1, "token": TOKEN, **order}
    with pytest.raises(DriverRefusal, match=sentence):
        read_epoch(store, LAYOUT, DriverArgs(**asked))  # type: ignore[arg-type]


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
    store.create(LAYOUT.place(Epoch, number=2), LAYOUT.bytes_of(make_epoch(2)))
    with pytest.raises(FencedError, match="Epoch 2 of stream 'orders' exists, so epoch 1 may not"):
        check_newest(store, LAYOUT, 1)


def test_secrets_of_the_properties_file_are_hidden_in_texts_from_then_on(tmp_path: Path) -> None:
    conf = {
        "spark.es.net.http.auth.pass": "gree\u00dfe: = # ! canary-1",
        "spark.driver.extraJavaOptions": "-Xmx1g -Dtrust.password=canary-2 -Da=b",
        "spark.sink.url": "postgresql://me:canary-3@db/x",
        "spark.kafka.sasl.jaas.config": 'Login required username="u" password="canary-4";',
        "spark.my.key.pem": "-----BEGIN KEY-----\ncanary-5-canary-5\n",
        "spark.sql.shuffle.partitions": "2",
    }
    secret = tmp_path / "conf"
    secret.write_text(properties_text(conf, defaults="# site\nspark.site.token  canary-6"))
    secret.with_suffix(".java").write_text('"-Dtrust.password=canary-7"\n')

    forget_properties(str(secret))

    values = [f"canary-{n}" for n in (2, 3, 4, 6, 7)]
    said = f"cannot log in as {conf['spark.es.net.http.auth.pass']} {values} canary-5-canary-5"
    assert list(tmp_path.iterdir()) == []
    assert "canary" not in presentable(said)
    assert "canary" not in presentable(repr(said))
    assert "canary" not in presentable(quote_plus(said))
    assert presentable("2 partitions of u in x at db") == "2 partitions of u in x at db"


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

"""Every act of the page in a real browser: what it does, in whose name, and what it asks before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.model.records.control import CircuitState, DesiredState
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage
from airflow_streaming.model.records.upgrade_table import UpgradeEvent as E
from airflow_streaming.services import streams
from tests.page.chrome import Page, chromium
from tests.page.homes import write_home
from tests.page.open_changes import write_upgrade
from tests.page.server import AirflowApi

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(chromium() is None, reason="Chromium is not installed; no page is opened."),
]
JUDGED = (
    *(E.BACKUP_HOLDS, E.OLD_STOPPED, E.APPLY, E.DEPLOYMENT_MADE, E.NEW_STARTED, E.SOAK_ENDED),
)


def stream_of(home: Path, name: str) -> StreamHome:
    return open_home(str(home)).stream(name)


def opened(browser: Page, address: str, name: str, *, tab: str = "timeline") -> None:
    browser.open(f"{address}?dag={name}&stream={name}&tab={tab}")
    browser.until("document.querySelector('.facts dd')")


def chosen(browser: Page, label: str) -> None:
    """Choose an act of the menu by the keys alone."""
    browser.eval("document.querySelector('.menu > button').focus()")
    browser.press("Enter")
    browser.until("document.activeElement.getAttribute('role') === 'menuitem'")
    count = browser.eval("document.querySelectorAll('[role=menuitem]').length")
    for _ in range(count):
        if browser.eval("document.activeElement.textContent") == label:
            break
        browser.press("ArrowDown")
    assert browser.eval("document.activeElement.textContent") == label
    browser.press("Enter")
    browser.until("document.querySelector('dialog[open]')")


def confirmed(browser: Page, *, reason: str = "", name: str = "") -> None:
    if reason:
        browser.until("document.activeElement.name === 'reason'")
        browser.type(reason)
    browser.press("Enter")
    if name:
        browser.until("document.activeElement.name === 'confirm'")
        assert browser.eval("document.querySelector('dialog button[type=submit]').disabled")
        browser.type(name)
        browser.until("!document.querySelector('dialog button[type=submit]').disabled")
        browser.press("Enter")
    browser.until("document.querySelector('.toast')")


def nothing(home: Path) -> None:
    """Leave the home as it is."""


def stopped(home: Path) -> None:
    streams.stop(stream_of(home, "orders_eu"), by="ann", reason="before")


def out_of_sight(home: Path) -> None:
    write_home(home, {"prices_eu": "hung"}, hours=1, batch=60)


def upgrading(*events: E) -> Callable[[Path], None]:
    def write(home: Path) -> None:
        write_upgrade(stream_of(home, "orders_eu"), *events)

    return write


def upgrade_is(stage: Stage) -> Callable[[StreamHome], bool]:
    def check(home: StreamHome) -> bool:
        change = home.newest_change()
        assert change is not None
        steps = home.upgrade_steps(change.number)
        return UPGRADE.state_of(steps) is stage and steps[-1].by == "editor"

    return check


def cutover_did(event: str) -> Callable[[StreamHome], bool]:
    return lambda home: (home.steps(1)[-1].event.value, home.steps(1)[-1].by) == (event, "editor")


def wants(state: DesiredState) -> Callable[[StreamHome], bool]:
    def check(home: StreamHome) -> bool:
        desired = home.desired()
        return desired is not None and (desired.state, desired.by) == (state, "editor")

    return check


def circuit_is_closed(home: StreamHome) -> bool:
    circuit = home.circuit()
    return circuit is not None and circuit.state is CircuitState.CLOSED


RECORDS = [
    ("Start", "orders_eu", stopped, False, wants(DesiredState.RUNNING)),
    ("Stop", "orders_eu", nothing, True, wants(DesiredState.STOPPED)),
    ("Start", "clicks_eu", nothing, False, circuit_is_closed),
    (
        "Declare driver dead",
        *("prices_eu", out_of_sight, True),
        lambda home: home.aftermath(2).death is not None,
    ),
    ("Upgrade: abort", "orders_eu", upgrading(), True, upgrade_is(Stage.ABORTED)),
    ("Upgrade: keep", "orders_eu", upgrading(*JUDGED), True, upgrade_is(Stage.KEPT)),
    ("Upgrade: roll back", "orders_eu", upgrading(*JUDGED), True, upgrade_is(Stage.ROLLING_BACK)),
    ("Cutover: look again", "fraud_eu", nothing, False, cutover_did("look_again")),
    ("Cutover: abort", "fraud_eu", nothing, True, cutover_did("abort")),
]
"""Label, stream, what is so before, whether the name is asked for, and what is so afterwards."""


@pytest.mark.parametrize(
    ("label", "name", "before", "is_grave", "is_done"), RECORDS, ids=[one[0] for one in RECORDS]
)
def test_an_act_that_is_a_record_is_done_in_the_users_name(
    browser: Page,
    address: str,
    home: Path,
    label: str,
    name: str,
    before: Callable[[Path], None],
    is_grave: bool,
    is_done: Callable[[StreamHome], bool],
) -> None:
    before(home)
    opened(browser, address, name)
    chosen(browser, label)
    confirmed(browser, reason="a test", name=name if is_grave else "")
    assert is_done(stream_of(home, name))


def test_a_promotion_without_a_verdict_is_refused_with_the_reason_and_nothing_is_done(
    browser: Page, address: str, home: Path
) -> None:
    opened(browser, address, "fraud_eu")
    chosen(browser, "Cutover: promote")
    browser.type("a test")
    browser.press("Enter")
    browser.until("document.activeElement.name === 'confirm'")
    browser.type("fraud_eu")
    before = stream_of(home, "fraud_eu").steps(1)
    browser.press("Enter")
    browser.until("!document.querySelector('dialog [role=alert]').hidden")
    assert stream_of(home, "fraud_eu").steps(1) == before


RUNS: list[tuple[str, str, dict[str, Any], bool]] = [
    ("Back up now", "backup", {}, False),
    ("Upgrade …", "upgrade", {}, False),
    ("Blue-green cutover …", "blue_green", {}, False),
    ("Rescale …", "rescale", {"executors": 6}, False),
    ("Rescale …", "rescale", {"executors": 6, "dry_run": False}, True),
    ("Apply the dag's edited spec", "", {"restart": True}, True),
]
"""Label, the end of the dag's id, what the run is given, and whether the name is asked for."""


@pytest.mark.parametrize(("label", "act", "conf", "is_grave"), RUNS)
def test_an_act_that_is_a_run_is_triggered_through_airflow_as_the_user(
    browser: Page,
    address: str,
    airflow_api: AirflowApi,
    label: str,
    act: str,
    conf: dict[str, Any],
    is_grave: bool,
) -> None:
    dag = f"orders_eu_{act}" if act else "orders_eu"
    airflow_api.paused.add(dag)
    opened(browser, address, "orders_eu")
    chosen(browser, label)
    if "executors" in conf:
        browser.eval("document.querySelector('[name=\"param.executors\"]').focus()")
        browser.type("6")
    if conf.get("dry_run") is False:
        browser.eval("document.querySelector('[name=\"param.dry_run\"]').click()")
    browser.eval("document.querySelector('dialog button[type=submit]').focus()")
    confirmed(browser, name="orders_eu" if is_grave else "")
    assert airflow_api.calls == [
        ("PATCH", dag, "editor", {"is_paused": False}),
        ("POST", dag, "editor", {"logical_date": None, "conf": conf}),
    ]


def backup_id(home: Path) -> str:
    [found] = [
        path.stem for path in (home / "_backups").rglob("*") if "orders_eu" in path.parts[-1]
    ]
    return found


@pytest.mark.parametrize("act", ["Verify …", "Restore …"])
def test_a_backup_is_verified_and_restored_by_a_run(
    browser: Page, address: str, airflow_api: AirflowApi, act: str
) -> None:
    opened(browser, address, "orders_eu", tab="backups")
    browser.until("document.querySelector('.acts button')")
    browser.eval(
        f"[...document.querySelectorAll('.acts button')].find((b) => b.textContent === '{act}').click()"
    )
    browser.until("document.querySelector('dialog[open]')")
    says = browser.eval("document.querySelector('dialog p').textContent")
    shown = browser.eval("document.querySelector('[name=\"param.backup_id\"]').value")
    is_restore = act.startswith("Restore")
    assert ("batches run again" in says) is is_restore
    browser.eval("document.querySelector('dialog button[type=submit]').focus()")
    confirmed(browser, name="orders_eu" if is_restore else "")
    [(method, dag, user, body)] = airflow_api.calls
    assert (method, dag, user) == ("POST", "orders_eu_restore", "editor")
    assert body["conf"] == {"backup_id": shown, **({"dry_run": False} if is_restore else {})}
    assert shown


def test_a_run_that_airflow_refuses_leaves_the_dialog_with_the_reason(
    browser: Page, address: str, airflow_api: AirflowApi
) -> None:
    opened(browser, address, "orders_eu")
    chosen(browser, "Back up now")
    browser.cookie(address, "user", "viewer")
    try:
        browser.press("Enter")
        browser.until("!document.querySelector('dialog [role=alert]').hidden")
        assert airflow_api.calls == []
    finally:
        browser.cookie(address, "user", "editor")


def test_the_restore_of_a_backup_is_not_offered_to_a_viewer(browser: Page, address: str) -> None:
    browser.open(address)
    browser.cookie(address, "user", "viewer")
    try:
        opened(browser, address, "orders_eu", tab="backups")
        browser.until("document.querySelector('.list td')")
        assert browser.eval("document.querySelectorAll('.acts button').length") == 0
        browser.eval("document.querySelector('.menu > button').click()")
        items = "[...document.querySelectorAll('[role=menuitem]')].map((b) => b.textContent)"
        assert browser.eval(items) == ["Open the dag"]
    finally:
        browser.cookie(address, "user", "editor")


def test_runs_are_listed_with_the_question_that_waits_for_an_answer(
    browser: Page, address: str, airflow_api: AirflowApi
) -> None:
    airflow_api.asking.add("orders_eu_upgrade")
    opened(browser, address, "orders_eu", tab="changes")
    browser.until("document.querySelectorAll('.runs tr').length === 3")
    tags = browser.eval(
        "[...document.querySelectorAll('.runs .tag')].map((one) => one.textContent)"
    )
    assert tags == ["waits for an answer", "failed", "success"]
    assert "orders_eu <b>now</b>?" in browser.eval("document.querySelector('.runs').innerText")
    assert browser.eval("document.querySelectorAll('.runs button').length") == 4

"""The page in a real browser: it shows what the home holds, and a hostile stream harms nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.home.home import open_home
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import DesiredState, Event, EventKind
from tests.page.chrome import Page, chromium

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(chromium() is None, reason="Chromium is not installed; no page is opened."),
]
EVIL = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'>\u202eevil"


def test_the_fleet_shows_every_stream_the_worst_first(browser: Page, address: str) -> None:
    browser.events.clear()
    browser.open(address)
    browser.until(
        "document.querySelectorAll('tr.row').length === 3 && !document.querySelector('.pill.busy')"
    )
    names = browser.eval("[...document.querySelectorAll('a.name')].map((one) => one.textContent)")
    assert names[0] == "clicks_eu"
    assert sorted(names) == ["clicks_eu", "fraud_eu", "orders_eu"]
    assert browser.troubles() == []


def test_a_search_is_kept_in_the_address(browser: Page, address: str) -> None:
    browser.open(address)
    browser.until("document.querySelectorAll('tr.row').length === 3")
    browser.press("/")
    browser.type("orders")
    browser.until("document.querySelectorAll('tr.row').length === 1")
    assert "q=orders" in browser.eval("location.search")
    browser.open(browser.eval("location.href"))
    browser.until("document.querySelectorAll('tr.row').length === 1")


def test_a_stream_is_opened_and_left_by_keyboard_alone(browser: Page, address: str) -> None:
    browser.open(address)
    browser.until("document.querySelectorAll('tr.row').length === 3")
    browser.press("j")
    browser.press("Enter")
    browser.until("document.querySelectorAll('.u-over').length >= 6")
    assert "stream=" in browser.eval("location.search")
    browser.press("Escape")
    browser.until("document.querySelectorAll('tr.row').length === 3")


def test_rules_of_a_driver_that_is_gone_are_shown_with_their_age(
    browser: Page, address: str
) -> None:
    browser.open(f"{address}?dag=clicks_eu&stream=clicks_eu")
    browser.until("document.querySelector('.facts dd')")
    browser.until(
        "[...document.querySelectorAll('.rail h2')]"
        ".some((one) => /^Rules as last seen .* ago$/.test(one.textContent))"
    )


FIGURES = {
    "Rows per second": {
        "input_rate": lambda row: row.input_rows_per_second,
        "processing_rate": lambda row: row.processed_rows_per_second,
    },
    "Batch duration by phase": {
        f"phase.{phase}": lambda row, phase=phase: row.phases_ms[phase]
        for phase in ("addBatch", "queryPlanning", "latestOffset", "getBatch", "walCommit")
    },
    "Backlog in records": {"backlog_records.0": lambda row: row.sources[0].backlog_records},
    "Watermark delay": {"watermark_delay_s": lambda row: row.watermark_delay_s},
    "State rows": {"state_rows": lambda row: row.state_rows},
    "State memory": {"state_bytes": lambda row: row.state_bytes},
    "State commit per store": {"state_commit_ms": lambda row: row.state_commit_ms},
    "Rows dropped behind the watermark": {"dropped_rows": lambda row: row.dropped_rows},
    "Executors": {"executors": lambda row: row.executors},
    "Gets and puts per batch": {
        "state.rocksdbGetCount": lambda row: row.state_metrics["rocksdbGetCount"],
        "state.rocksdbPutCount": lambda row: row.state_metrics["rocksdbPutCount"],
    },
    "Get and put time per batch": {
        "state.rocksdbGetLatency": lambda row: row.state_metrics["rocksdbGetLatency"],
        "state.rocksdbPutLatency": lambda row: row.state_metrics["rocksdbPutLatency"],
    },
    "Bytes read and written": {
        "state.rocksdbTotalBytesRead": lambda row: row.state_metrics["rocksdbTotalBytesRead"],
        "state.rocksdbTotalBytesWritten": lambda row: row.state_metrics["rocksdbTotalBytesWritten"],
    },
    "Block cache misses": {"cache_miss_share": lambda row: row.cache_miss_share},
    "Commit: flush, compaction, checkpoint, file sync": {
        f"state.rocksdbCommit{name}": lambda row, name=name: row.state_metrics[
            f"rocksdbCommit{name}"
        ]
        for name in ("FlushLatency", "CompactLatency", "CheckpointLatency", "FileSyncLatencyMs")
    },
    "Files copied and reused": {
        "state.rocksdbFilesCopied": lambda row: row.state_metrics["rocksdbFilesCopied"],
        "state.rocksdbFilesReused": lambda row: row.state_metrics["rocksdbFilesReused"],
    },
    "Writer stall": {
        "state.rocksdbWriterStallLatencyMs": lambda row: row.state_metrics[
            "rocksdbWriterStallLatencyMs"
        ]
    },
    "quality.rows": {"observed.quality.rows": lambda row: row.observed["quality.rows"]},
    "quality.bad_rows": {"observed.quality.bad_rows": lambda row: row.observed["quality.bad_rows"]},
}
"""By the title of a chart and the name of its line: the figure of a batch that it shows."""


def test_every_chart_shows_the_figures_that_the_home_holds(
    browser: Page, address: str, home: Path
) -> None:
    browser.events.clear()
    browser.open(f"{address}?dag=orders_eu&stream=orders_eu&range=1h")
    browser.until("document.querySelectorAll('.u-over').length >= 6")
    for _ in range(2):
        browser.eval("document.querySelector('.group button[aria-expanded=false]').click()")
        browser.until("document.querySelectorAll('.group button[aria-expanded=false]').length < 2")
    browser.until(f"document.querySelectorAll('.chart:not([hidden])').length >= {len(FIGURES)}")
    browser.until(
        "[...document.querySelectorAll('.chart:not([hidden])')].every((c) => c.dataset.newest)"
    )
    found = json.loads(
        browser.eval(
            "JSON.stringify(Object.fromEntries([...document.querySelectorAll('.chart:not([hidden])')]"
            ".map((c) => [c.querySelector('h2').textContent, JSON.parse(c.dataset.newest)])))"
        )
    )
    newest = open_home(str(home)).stream("orders_eu").read_progress(2, limit=1)[0]
    assert found.keys() == FIGURES.keys()
    for title, lines in FIGURES.items():
        for name, figure in lines.items():
            assert found[title][name] == pytest.approx(figure(newest), rel=0.001), (title, name)
    assert browser.troubles() == []


def test_an_open_cutover_shows_how_far_green_is_behind_blue(browser: Page, address: str) -> None:
    browser.events.clear()
    browser.open(f"{address}?dag=fraud_eu&stream=fraud_eu&tab=changes")
    browser.until(
        "[...document.querySelectorAll('.change th')].some((head) => head.textContent === 'Distance to blue')"
    )
    cells = browser.eval(
        "[...document.querySelectorAll('.change td[data-name=\"Distance to blue\"]')].map((one) => one.textContent)"
    )
    assert len(cells) == 1
    assert "blue" in cells[0]
    assert browser.troubles() == []


def test_a_stream_is_stopped_after_a_second_word(browser: Page, address: str, home: Path) -> None:
    browser.open(f"{address}?dag=orders_eu&stream=orders_eu")
    browser.until("document.querySelector('.menu button') && document.querySelector('.facts dd')")
    browser.eval("document.querySelector('.menu > button').click()")
    browser.eval(
        "[...document.querySelectorAll('[role=menuitem]')].find((b) => b.textContent === 'Stop').click()"
    )
    browser.until("document.querySelector('dialog[open]')")
    browser.type("maintenance")
    browser.press("Enter")
    browser.until("document.activeElement.name === 'confirm'")
    stream = open_home(str(home)).stream("orders_eu")
    assert stream.desired() is None
    browser.type("orders_eu")
    browser.until("!document.querySelector('dialog button[type=submit]').disabled")
    browser.press("Enter")
    browser.until("document.querySelector('.toast')")
    desired = stream.desired()
    assert desired is not None
    assert (desired.state, desired.reason) == (DesiredState.STOPPED, "maintenance")


def test_a_viewer_is_offered_no_act(browser: Page, address: str) -> None:
    browser.call("Network.enable")
    browser.cookie(address, "user", "viewer")
    try:
        browser.open(f"{address}?dag=orders_eu&stream=orders_eu")
        browser.until("document.querySelector('.facts dd')")
        browser.eval("document.querySelector('.menu > button').click()")
        items = browser.eval(
            "[...document.querySelectorAll('[role=menuitem]')].map((b) => b.textContent)"
        )
        assert "Stop" not in items
        assert "Back up now" not in items
    finally:
        browser.cookie(address, "user", "editor")


def test_a_user_without_rights_is_told_so(browser: Page, address: str) -> None:
    browser.call("Network.enable")
    browser.cookie(address, "user", "stranger")
    try:
        browser.open(f"{address}?dag=orders_eu&stream=orders_eu")
        browser.until("document.querySelector('.blank h2')")
        assert browser.eval("document.querySelector('.blank h2').textContent") == "No access"
        browser.open(address)
        browser.until("document.querySelector('.blank h2')")
        assert browser.eval("document.querySelector('.blank h2').textContent") == "No stream yet"
    finally:
        browser.cookie(address, "user", "editor")


def test_a_hostile_stream_harms_nothing(browser: Page, address: str, home: Path) -> None:
    stream = open_home(str(home)).stream("orders_eu")
    status = stream.status(2)
    assert status is not None
    query = status.queries[0]
    assert query.progress is not None
    worst = replace(
        query,
        message=EVIL,
        error=EVIL + "x" * 300_000,
        progress=replace(
            query.progress,
            watermark="9999-12-31T23:59:59Z",
            observed={EVIL[:90]: 1e308},
            input_rows_per_second=-1e300,
            at="2999-01-01T00:00:00Z",
        ),
    )
    path = Layout("orders_eu").epoch(2, "status.json")
    stream.store.replace(
        path, replace(status, queries=(worst,), ui_url=f"javascript:{EVIL}").to_bytes()
    )
    chunk = f"{Layout('orders_eu').progress(2)}/000099.jsonl"
    stream.store.replace(chunk, b'{"query": NaN}\n' + b"[" * 9000 + b"\n\xff\xfe\n{}\n")
    for number in range(3):
        told = EVIL * (1000 if number else 1)
        stream.add_event(Event(event=EventKind.BLOCKED, at=status.at, by=EVIL, message=told))
    browser.events.clear()
    for query_text in (
        "",
        "?dag=orders_eu&stream=orders_eu&range=1h",
        "?dag=orders_eu&stream=orders_eu&tab=deployments",
    ):
        browser.open(address + query_text)
        browser.until("document.querySelector('tr.row') || document.querySelector('.list td')")
        assert browser.eval("window.hacked") is None
        assert browser.eval("document.querySelectorAll('main script, main img').length") == 0
        assert "\u202e" not in browser.eval("document.body.innerText")
    assert browser.troubles() == []


def test_text_can_be_read_in_light_and_in_dark(browser: Page, address: str) -> None:
    program = """(() => {
      const lum = (text) => {
        const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((v) => {
          const c = v / 255;
          return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const back = (node) => {
        for (let at = node; at; at = at.parentElement) {
          const found = getComputedStyle(at).backgroundColor;
          if (!/, 0\\)$/.test(found) && found !== "transparent") return found;
        }
        return "rgb(255, 255, 255)";
      };
      const bad = [];
      for (const node of document.querySelectorAll("main *")) {
        if (![...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim())) continue;
        const [one, two] = [lum(getComputedStyle(node).color), lum(back(node))].sort((a, b) => b - a);
        const ratio = (one + 0.05) / (two + 0.05);
        if (ratio < 4.5) bad.push(`${node.className} ${node.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
      }
      return bad;
    })()"""
    for dark in (False, True):
        browser.open(address, dark=dark)
        browser.until("document.querySelectorAll('tr.row').length === 3")
        assert browser.eval(program) == []

"""A headless Chromium, steered over its debugging protocol; nothing but a socket is needed."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--remote-debugging-port=0", "--hide-scrollbars"),
)


def chromium() -> str | None:
    """Return the browser of this machine; ``None`` when there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Page:
    """One page of the browser."""

    socket: Any
    number: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            told: dict[str, Any] = json.loads(self.socket.recv(timeout=PATIENCE))
            if told.get("id") != self.number:
                self.events.append(told)
            elif "error" in told:
                raise AssertionError(f"{method}: {told['error']}")
            else:
                return dict(told["result"])

    def open(self, url: str, *, width: int = 1440, height: int = 900, dark: bool = False) -> None:
        """Open an address and wait until the page has something to show."""
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")
        self.call("Network.enable")
        self.size(width, height)
        scheme = "dark" if dark else "light"
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def cookie(self, url: str, name: str, value: str) -> None:
        """Set a cookie."""
        self.call("Network.setCookie", url=url, name=name, value=value)

    def eval(self, expression: str) -> Any:
        """Return the value of an expression in the page; promises are awaited."""
        told = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in told:
            raise AssertionError(f"{expression}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        wrapped = f"(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()"
        while not self.eval(wrapped):
            if time.monotonic() > end:
                shown = str(self.eval("document.body.innerText"))[:2000]
                raise AssertionError(f"The page never came to {expression}. It shows: {shown}")
            time.sleep(0.1)

    def press(self, key: str, text: str = "") -> None:
        """Press and release a key."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38}
        more: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        if key == "Enter":
            text = "\r"
        if text or len(key) == 1:
            more["text"] = text or key
        self.call("Input.dispatchKeyEvent", type="keyDown", **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def type(self, text: str) -> None:
        """Put text where the focus is."""
        self.call("Input.insertText", text=text)

    def shot(self, file: Path, *, whole: bool = False) -> None:
        """Write what is seen, or the whole page, as a PNG."""
        if whole:
            box = self.call("Page.getLayoutMetrics")["cssContentSize"]
            self.size(int(box["width"]), int(min(box["height"], 6000)))
            time.sleep(0.5)
        told = self.call("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(told["data"]))

    def troubles(self) -> list[str]:
        """Return what the page complained about: errors, refused contents, exceptions."""
        self.eval("1")
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:500])
            entry = params.get("entry", {})
            if event.get("method") == "Log.entryAdded" and entry.get("level") == "error":
                found.append(f"{entry.get('text')} {entry.get('url')}")
        return found


@contextmanager
def browsing() -> Iterator[Page]:
    """Start a browser with a profile of its own; give its page."""
    from websockets.sync.client import connect

    program = chromium()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port = _port(Path(folder) / "DevToolsActivePort")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as reply:
                pages = [one for one in json.load(reply) if one["type"] == "page"]
            # Events nobody reads yet fill its queue, so pings would go unanswered for as long.
            address, size = pages[0]["webSocketDebuggerUrl"], 64 * 2**20
            with connect(address, max_size=size, max_queue=None, ping_interval=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _port(file: Path) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if file.exists() and (lines := file.read_text().split()):
            return lines[0]
        time.sleep(0.1)
    raise AssertionError("The browser did not open its debugging port.")

"""A user of the Streams page in a browser: opens a stream, fills in forms, confirms, and waits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.page.chrome import Page


@dataclass
class Visitor:
    """
    Acts on the page of an Airflow as a user does.

    :param page: The browser's page.
    :param url: Address of Airflow.
    """

    page: Page
    url: str

    def sign_in(self) -> None:
        """Open Airflow once, which signs a user of the demo in."""
        self.page.open(f"{self.url}/")
        self.page.until("document.querySelector('nav, [data-testid]')")

    def fleet(self) -> None:
        """Open the list of streams."""
        self.page.open(f"{self.url}/streaming/app/")
        self.page.until("document.querySelector('tr.row')")

    def open(self, stream: str, *, tab: str = "", **look: Any) -> None:
        """Open the page of one stream."""
        more = f"&tab={tab}" if tab else ""
        name = quote(stream)
        self.page.open(f"{self.url}/streaming/app/?dag={name}&stream={name}{more}", **look)
        self.page.until("document.querySelector('.facts dd')")

    def click(self, text: str, *, within: str = "") -> None:
        """Click the button with that text, once it is there and can be clicked."""
        found = (
            f"[...document.querySelectorAll({json.dumps(within + ' button')})]"
            f".find((one) => one.textContent === {json.dumps(text)} && !one.disabled)"
        )
        self.page.until(found)
        self.page.eval(f"{found}.click()")

    def choose(self, act: str) -> None:
        """Choose one of the acts of the stream that is open."""
        self.page.eval("document.querySelector('.menu > button').click()")
        self.click(act, within="[role=menu]")
        self.page.until("document.querySelector('dialog[open]')")

    def fill(self, **fields: Any) -> None:
        """Fill in fields of the form that is open, by their names."""
        for name, value in fields.items():
            field = f"document.querySelector('dialog [name=\"param.{name}\"]')"
            if isinstance(value, bool):
                self.page.eval(f"{field}.checked === {json.dumps(value)} || {field}.click()")
            else:
                self.page.eval(f"{field}.focus(); {field}.select?.()")
                self.page.type(value if isinstance(value, str) else json.dumps(value))

    def confirm(self, *, reason: str = "", name: str = "") -> str:
        """Send the form that is open, with the stream's name where it is asked for."""
        if reason:
            self.page.eval("document.querySelector('dialog [name=reason]').focus()")
            self.page.type(reason)
        send = "document.querySelector('dialog button[type=submit]')"
        self.page.eval(f"{send}.click()")
        if name:
            self.page.until("document.activeElement.name === 'confirm'")
            self.page.type(name)
            self.page.until(f"!{send}.disabled")
            self.page.eval(f"{send}.click()")
        self.page.until(
            "document.querySelector('.toast') || !document.querySelector('dialog [role=alert]').hidden"
        )
        problem = self.page.eval("document.querySelector('dialog [role=alert]')?.textContent ?? ''")
        assert not problem, problem
        told: str = self.page.eval("document.querySelector('.toast').textContent")
        return told

    def shot(self, file: Path) -> None:
        """Take a picture of what is seen, once the charts are drawn."""
        self.page.until("!document.querySelector('.skeleton')")
        self.page.shot(file)

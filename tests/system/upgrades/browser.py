"""
A person in front of Airflow's pages: a real browser that reads, fills in, clicks, and takes pictures.

It needs playwright and a Chromium, which nothing else here does; ``--browser`` names the program.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from demo.waiting import PATIENCE

QUIET: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
PATIENCE_MS: Final = 1000 * PATIENCE


class Person:
    """
    Looks at one Airflow.

    :param page: A page of playwright.
    :param pictures: Folder of the pictures.
    """

    def __init__(self, page: Any, url: str, pictures: Path) -> None:
        self._page, self._url, self._pictures = page, url, pictures
        pictures.mkdir(parents=True, exist_ok=True)

    def picture(self, name: str) -> Path:
        """Take a picture of what is seen."""
        path = self._pictures / f"{name}.png"
        self._page.wait_for_timeout(1500)  # drawings of the page move
        self._page.screenshot(path=str(path))
        return path

    def open(self, path: str) -> None:
        """Open a page of Airflow."""
        self._page.goto(f"{self._url}{path}")
        self._page.wait_for_load_state("networkidle")

    def start_upgrade(self, dag: str, runtime: str) -> None:
        """Open a dag, fill in the form of its upgrade and start it."""
        page = self._page
        self.open(f"/dags/{dag}")
        self.picture("01_dag")
        page.get_by_test_id("trigger-dag-button").click()
        form = page.get_by_role("dialog")
        form.locator("[name=element_runtime]").wait_for(state="attached")
        self.picture("02_form")
        form.locator("input[role=combobox]").first.click()
        page.get_by_role("option", name=runtime).click()
        # The switch itself is a label; its input is hidden.
        form.locator("[name=element_dry_run]").evaluate("e => e.parentElement.click()")
        self.picture("03_form_filled")
        page.get_by_test_id("trigger-dag-submit").click()
        form.wait_for(state="hidden")

    def approve(self, dag: str, run: str, task: str) -> None:
        """Read what a person is asked about, in Airflow's own list of such questions, and say yes."""
        page = self._page
        self.open("/required_actions")
        self.picture("04_required_actions")
        self.open(f"/dags/{dag}/runs/{run}/tasks/{task}/required_actions")
        page.get_by_role("button", name="Approve").wait_for()
        self.picture("05_report")
        page.get_by_role("button", name="Approve").click()
        page.wait_for_timeout(2000)
        self.picture("06_approved")

    def graph(self, dag: str, run: str, name: str) -> None:
        """Look at the graph of a run, with the tasks of its groups."""
        page = self._page
        self.open(f"/dags/{dag}/runs/{run}")
        page.keyboard.press("g")
        page.wait_for_timeout(1500)
        page.get_by_test_id("expand-all-button").click()
        self.picture(name)


@contextlib.contextmanager
def person(url: str, pictures: Path, browser: str) -> Iterator[Person]:
    """Open a browser at an Airflow; raises ``ImportError`` without playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=[*QUIET])
        try:
            page = chromium.new_page(viewport={"width": 1440, "height": 1300})
            page.set_default_timeout(PATIENCE_MS)
            yield Person(page, url, pictures)
        finally:
            chromium.close()

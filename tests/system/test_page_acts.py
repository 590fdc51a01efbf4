"""What the Streams page triggers, carried through to the driver: by a browser, a real Airflow and a real Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.model.records.control import ChangeOutcome
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade_table import UPGRADE
from airflow_streaming.model.records.upgrade_table import Stage as UpgradeStage
from demo.events import Shop, synthetic_files
from demo.stage import APPLICATION, Stage
from demo.story import launch
from demo.waiting import Progress, wait_for
from demo.walkthrough import SHOP, write_versions
from tests.page.chrome import browsing, chromium
from tests.page.visitor import Visitor

pytestmark = [
    pytest.mark.nightly("A whole Airflow for ten minutes."),
    pytest.mark.skipif(chromium() is None, reason="Chromium is not installed; no page is opened."),
]
FILES = 2_000
"""More than are read meanwhile, so that there always is a next batch."""


@dataclass
class Shown:
    """One stream on the stage, and a visitor of its page."""

    stage: Stage
    visitor: Visitor
    say: Progress

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something can be seen in the home or by Airflow's API."""
        stream = self.stage.stream
        failing = self.stage.airflow.ended_component
        wait_for(condition, what=what, say=self.say, failing=failing, seen=stream.table)

    def wait_for_run(self, dag: str) -> None:
        """Wait until the newest run of a dag has succeeded."""

        def newest() -> Any:
            runs = self.stage.airflow.get(f"/api/v2/dags/{dag}/dagRuns?order_by=-run_after&limit=1")
            return runs["dag_runs"][0]["state"]

        self.wait(lambda: newest() in ("success", "failed"), f"the run of {dag}")
        assert newest() == "success"

    def wait_for_batches(self, more: int = 2) -> None:
        """Wait until the driver that is there has committed more batches and all is well."""
        stream = self.stage.stream
        before = stream.progress.batch_id if stream.progress else -1

        def has_gone_on() -> bool:
            progress = stream.progress
            return stream.is_well() and progress is not None and progress.batch_id >= before + more

        self.wait(has_gone_on, f"{more} more batches")

    def deployment(self) -> Deployment:
        """Return the newest deployment."""
        found = self.stage.stream.records.newest_deployment()
        assert found is not None
        return found

    def outcome(self) -> ChangeOutcome | None:
        """Return how the newest change ended, ``None`` while it is open."""
        change = self.stage.stream.records.newest_change()
        end = self.stage.stream.records.change_end(change.number) if change else None
        return end.outcome if end else None

    def stage_of_upgrade(self) -> UpgradeStage | None:
        """Return how far the open upgrade is."""
        records = self.stage.stream.records
        change = records.unfinished_change()
        return UPGRADE.state_of(records.upgrade_steps(change.number)) if change else None


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, spark_4_3: Path) -> Iterator[Shown]:
    say = Progress()
    stage = Stage(
        tmp_path_factory.mktemp("acts"),
        runtime=spark_4_3,
        files=synthetic_files(FILES, Shop()),
        every=1.0,
        stream=SHOP,
        say=say,
    )
    with stage, browsing() as page:
        launch(stage, say, SHOP)
        visitor = Visitor(page, stage.airflow.url)
        visitor.sign_in()
        yield Shown(stage, visitor, say)


def test_acts_of_the_page_reach_the_driver(shown: Shown) -> None:
    visitor, stream = shown.visitor, shown.stage.stream

    visitor.open(SHOP)
    visitor.choose("Back up now")
    visitor.confirm()
    shown.wait_for_run(f"{SHOP}_backup")

    first = shown.deployment()
    visitor.open(SHOP)
    visitor.choose("Rescale …")
    visitor.fill(take_advice=False, executor_memory="600m", dry_run=False)
    visitor.confirm(name=SHOP)
    shown.wait(lambda: shown.outcome() is not None, "the end of the rescale")
    resized = shown.deployment()
    assert shown.outcome() is ChangeOutcome.DONE
    assert resized.conf["spark.executor.memory"] == "600m"
    assert first.differences(resized) == ["conf"]
    shown.wait_for_batches()

    larger = write_versions(APPLICATION, shown.stage.folder / "versions")["larger_batches"]
    visitor.open(SHOP)
    visitor.choose("Upgrade …")
    visitor.fill(application=str(larger), dry_run=False, approval_begin="auto", soak_minutes=15)
    visitor.confirm(name=SHOP)
    shown.wait(lambda: shown.stage_of_upgrade() is UpgradeStage.LAUNCHED, "the new driver")
    upgraded = shown.deployment()
    visitor.open(SHOP)
    visitor.choose("Upgrade: roll back")
    visitor.confirm(reason="carried through by a test", name=SHOP)
    shown.wait(lambda: shown.outcome() is ChangeOutcome.ROLLED_BACK, "the way back")
    back = shown.deployment()
    assert upgraded.application_sha256 != resized.application_sha256
    assert back.application_sha256 == resized.application_sha256
    shown.wait_for_batches()

    visitor.open(SHOP)
    visitor.choose("Stop")
    visitor.confirm(reason="to be restored", name=SHOP)
    shown.wait(stream.is_gone, "the driver to stop")
    visitor.open(SHOP, tab="backups")
    visitor.click("Restore …")
    visitor.page.until("document.querySelector('dialog[open]')")
    # It keeps state, and Spark executes no batch that the sink has.
    visitor.fill(rewind=True)
    visitor.confirm(name=SHOP)
    shown.wait_for_run(f"{SHOP}_restore")
    assert shown.deployment().checkpoint != back.checkpoint
    visitor.open(SHOP)
    visitor.choose("Start")
    visitor.confirm(reason="restored")
    shown.wait_for_batches()
    assert shown.stage.drivers.most == 1

    stream.stop(shown.say)
    shown.stage.arrivals.stop()
    found = shown.stage.compare()
    assert (found["doubled"], found["wrong"]) == (0, 0), found

"""Who says how an upgrade ends, when several could: people, checks, other runs of the dag."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.changes.upgrade.commands import UpgradeCommands
from airflow_streaming.changes.upgrade.engine import UpgradeInPlace
from airflow_streaming.exceptions import UpgradeRefused
from airflow_streaming.model.codec import encode
from airflow_streaming.model.records.upgrade_table import UpgradeCommand
from tests.unit.changes.upgrade.upgrading import Upgraded, end_of
from tests.unit.operators.upgrades import SETTLE, SHORT, Run


@pytest.fixture
def stream(tmp_path: Path) -> Upgraded:
    return Upgraded(tmp_path)


def nobody_was_disturbed(stream: Upgraded) -> bool:
    return not stream.home.changes() and stream.running() == 1 and stream.deployment.number == 1


def test_a_person_on_call_who_rolls_it_back_is_followed(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch)
    run.report()
    run.go_all("back_up", "switch")
    UpgradeCommands(stream.home, by="ann").give(
        stream.home.changes()[0], UpgradeCommand.ROLL_BACK, "It looks odd."
    )

    became = run.go_all("soak", "settle")

    assert "It looks odd." in became["soak"]
    assert "It looks odd." in became[SETTLE]
    assert stream.running() == 3


def test_another_run_goes_on_where_one_was_left(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Run(stream, monkeypatch)
    left.report()
    left.go_all("back_up", "switch")
    run = Run(stream, monkeypatch, run_id="run-2")
    run.leave({"resumes": 1, "fingerprint": "x"})

    assert run.task("approve").execute(run.context("approve")) is None
    became = run.go_all()

    assert set(became.values()) == {"done"}
    assert len(stream.home.changes()) == 1
    assert stream.running() == 2


@pytest.mark.parametrize("ended_by", ["preflight", "approve"])
def test_a_run_that_only_looks_touches_no_upgrade_that_it_finds_open(
    ended_by: str, stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Run(stream, monkeypatch)
    left.report()
    left.go_all("back_up", "switch")
    run = Run(stream, monkeypatch, run_id="run-2")
    run.leave({"resumes": 1, "fingerprint": "x"})
    if ended_by == "preflight":
        run.xcoms["upgrade.preflight", "ended"] = "This was a dry run."
    approve = run.task("approve")
    approve.is_dry_run = "True"

    with pytest.raises(AirflowSkipException, match="dry run"):
        approve.execute(run.context("approve"))
    with pytest.raises(AirflowSkipException, match="dry run"):
        run.go(SETTLE)

    assert end_of(stream) is None
    assert "rolling_back" not in stream.stages()
    assert set(left.go_all("soak", "settle").values()) == {"done"}


def test_a_driver_that_ends_while_the_checks_run_is_not_kept(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch, checks=[lambda _: None])
    run.report()
    run.go_all("back_up", "switch", "soak")
    stream.code = "fails at once"
    stream.tick()

    became = run.go_all("checks", "settle")

    assert became["checks"] == "done"
    assert "was rolled back" in became[SETTLE]
    assert "After a good soak its driver ended" in became[SETTLE]
    assert stream.running() == 3


def test_checks_that_only_an_edited_xcom_calls_passed_do_not_keep_a_deployment(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch, checks=[lambda _: "Totals differ."])
    run.report()
    run.go_all("back_up", "switch", "soak", "checks")
    run.xcoms["upgrade.checks", "passed"] = True

    became = run.go_all("settle")

    assert "was rolled back" in became[SETTLE]
    assert "Totals differ." in became[SETTLE]


def test_a_word_that_comes_in_the_last_moment_is_followed(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch)
    run.report()
    run.go_all("back_up", "switch", "soak")
    give = UpgradeCommands.give

    def late(words: UpgradeCommands, change: Any, command: UpgradeCommand, reason: str) -> None:
        other = UpgradeCommands(stream.home, by="ann")
        give(other, change, UpgradeCommand.ROLL_BACK, "Wrong totals.")
        give(words, change, command, reason)

    monkeypatch.setattr(UpgradeCommands, "give", late)

    became = run.go_all("settle")

    assert "was rolled back" in became[SETTLE]
    assert "Wrong totals." in became[SETTLE]
    assert stream.running() == 3


def test_what_ended_a_step_is_the_reason_of_the_rollback(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch)
    run.report()
    run.go_all("back_up", "switch")

    def refuses(*_: Any, **__: Any) -> None:
        raise UpgradeRefused("The store is of another stream.")

    with monkeypatch.context() as patch:
        patch.setattr(UpgradeInPlace, "advance", refuses)
        with pytest.raises(AirflowFailException, match="another stream"):
            run.go("soak")
    became = run.go_all("settle")

    assert "was rolled back" in became[SETTLE]
    assert "The store is of another stream." in became[SETTLE]


def test_a_deployment_that_starts_only_one_of_its_queries_does_not_soak_well(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch)
    run.report(soak=encode(replace(SHORT, queries=("counts", "totals"))))

    became = run.go_all()

    assert "Not started yet: totals" in became["soak"]
    assert "was rolled back" in became[SETTLE]
    assert stream.running() == 3


def test_a_new_run_after_an_end_begins_a_change_of_its_own(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Run(stream, monkeypatch)
    first.report()
    first.go_all()
    stream.new_script = b"# it works better\n"
    second = Run(stream, monkeypatch, run_id="run-2")
    second.report()

    second.go_all()

    assert [change.number for change in stream.home.changes()] == [1, 2]
    assert stream.deployment.number == 3

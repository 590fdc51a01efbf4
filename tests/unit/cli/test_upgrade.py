"""A person on call sees how far an upgrade is, and gives it a word that its task follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand
from tests.unit.changes.upgrade.upgrading import Upgraded


@pytest.fixture
def stream(tmp_path: Path) -> Upgraded:
    made = Upgraded(tmp_path)
    made.begin(keeps_by_itself=False)
    return made


def upgrade(stream: Upgraded, *arguments: str) -> int:
    return main(["--home", stream.uri, "upgrade", *arguments])


def test_it_shows_every_stage_with_its_reason(
    stream: Upgraded, capsys: pytest.CaptureFixture[str]
) -> None:
    stream.drive(Stage.LAUNCHED)
    assert upgrade(stream, "status", "orders") == 0
    shown = capsys.readouterr().out
    assert "from deployment 1 to 2, in progress" in shown
    assert "launched      The new driver was started. It is epoch 3. (kim)" in shown

    assert upgrade(stream, "status", "orders", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["stage"], told["outcome"]) == ("launched", None)
    assert told["waits_for"].startswith("the soak: 3 batches of every query and 1 min without")
    assert f"  Waits for {told['waits_for']}." in shown
    assert told["stages"][-1]["facts"] == {"epoch": "3"}


@pytest.mark.parametrize(
    ("verb", "until", "end"),
    [
        ("keep", Stage.JUDGED, Stage.KEPT),
        ("roll-back", Stage.JUDGED, Stage.ROLLED_BACK),
        ("roll-back", Stage.BACKED_UP, Stage.ABORTED),
        ("abort", Stage.STOPPED, Stage.ABORTED),
    ],
)
def test_the_task_follows_a_word(verb: str, until: Stage, end: Stage, stream: Upgraded) -> None:
    stream.drive(until)
    assert upgrade(stream, verb, "orders", "--reason", "I say so.", "--by", "kim") == 0
    progress = stream.drive()
    assert (progress.state, "I say so." in progress.reason) == (end, True)


def test_a_word_that_comes_too_early_or_too_late_is_refused(
    stream: Upgraded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert upgrade(stream, "keep", "orders") == 1
    assert "`keep` is possible in launched, judged" in capsys.readouterr().err
    stream.drive(Stage.DEPLOYED)
    assert upgrade(stream, "abort", "orders") == 1
    assert "Available: roll-back" in capsys.readouterr().err
    stream.engine().command(UpgradeCommand.ROLL_BACK, "So it is.")
    stream.drive()
    assert upgrade(stream, "roll-back", "orders") == 1
    assert "no upgrade in progress" in capsys.readouterr().err


def test_abandoning_a_restore_leaves_an_upgrade_alone(
    stream: Upgraded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoint", "abandon", "--home", stream.uri, "orders"]) == 1
    assert "is an upgrade in progress" in capsys.readouterr().err
    assert stream.home.open_upgrade() is not None


def test_a_status_without_an_upgrade_says_so_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Upgraded(tmp_path)
    for more in ([], ["--json"]):
        assert upgrade(stream, "status", "orders", *more) == 1
        told = capsys.readouterr()
        assert "'orders' was never upgraded in place" in told.err
    assert "was never upgraded" in json.loads(told.out)["error"]


@pytest.mark.parametrize("option", ["--by", "--reason"])
@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_name_or_reason_is_refused(
    stream: Upgraded, option: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--home", stream.uri, "upgrade", "abort", "orders", option, text])
    assert ended.value.code == 2
    assert "is empty" in capsys.readouterr().err
    assert stream.home.upgrade_steps(1) == []


@pytest.mark.parametrize("kind", ["upgrade", "cutover"])
def test_who_only_looks_is_not_asked_who_acts(stream: Upgraded, kind: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--home", stream.uri, kind, "status", "orders", "--reason", "curious"])
    assert ended.value.code == 2


def test_a_damaged_record_of_the_store_is_named_and_hides_no_upgrade(
    stream: Upgraded, capsys: pytest.CaptureFixture[str]
) -> None:
    record = Path(stream.uri) / "_store/000001.json"
    record.parent.mkdir(exist_ok=True)
    record.write_text("{")

    assert upgrade(stream, "status", "orders") == 1
    told = capsys.readouterr()
    assert str(record) in told.err
    assert "Change 1 of orders" in told.out
    assert upgrade(stream, "abort", "orders") == 1
    assert stream.home.upgrade_steps(1) == [], "nothing is written beside a damaged record"

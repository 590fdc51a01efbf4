"""The tasks of an upgrade: they do nothing without a yes, and leave nothing without its end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.model.records.control import ChangeOutcome
from airflow_streaming.operators.common.upgrade import UpgradeTask
from airflow_streaming.options import Soaked
from tests.unit.changes.upgrade.upgrading import Upgraded, end_of
from tests.unit.operators.upgrades import ALL, SETTLE, Run, hook_of


@pytest.fixture
def stream(tmp_path: Path) -> Upgraded:
    return Upgraded(tmp_path)


def nobody_was_disturbed(stream: Upgraded) -> bool:
    return not stream.home.changes() and stream.running() == 1 and stream.deployment.number == 1


def test_a_deployment_that_works_is_kept(stream: Upgraded, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(stream, monkeypatch)
    run.report()

    became = run.go_all()

    assert set(became.values()) == {"done"}
    end = end_of(stream)
    assert end is not None
    assert end.outcome is ChangeOutcome.DONE
    assert (stream.deployment.number, stream.running()) == (2, 2)
    assert run.xcoms["upgrade.settle", "return_value"]["stage"] == "kept"


def test_what_was_approved_pre_warmed_is_warm_before_the_task_that_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Upgraded(tmp_path, warmth="warms")
    run = Run(stream, monkeypatch)
    run.report(prewarm=True)
    run.go("back_up")
    assert stream.stages()[-1] == "ready"
    run.go("switch")
    assert stream.epoch.promotes == 1


def test_nothing_is_kept_before_the_last_task_says_so(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch)
    run.report()

    run.go_all("back_up", "switch", "soak")
    for _ in range(4):
        stream.tick()

    assert end_of(stream) is None
    assert "kept" not in stream.stages()


@pytest.mark.parametrize("code", ["fails at once", "fails after two", "falls behind"])
def test_a_bad_deployment_fails_the_soak_and_the_old_one_comes_back(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Upgraded(tmp_path, code)
    run = Run(stream, monkeypatch, checks=[lambda _: None])
    run.report()

    became = run.go_all()

    assert "orders" in became["soak"]
    assert "checks" not in became
    assert became["soak"].partition(" is not good: ")[2] in became[SETTLE]
    assert "was rolled back, and the old deployment runs" in became[SETTLE]
    end = end_of(stream)
    assert end is not None
    assert end.outcome is ChangeOutcome.ROLLED_BACK
    assert stream.running() == 3


def says_wrong(_: Soaked) -> str:
    return "Revenue is negative."


def says_no(_: Soaked) -> bool:
    return False


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        pytest.param(says_wrong, "Check 'says_wrong': Revenue is negative.", id="a sentence"),
        pytest.param(says_no, "Check 'says_no': it returned False.", id="a no"),
    ],
)
def test_a_check_that_finds_something_wrong_has_it_rolled_back(
    check: Any, sentence: str, stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch, checks=[lambda _: True, check])
    run.report()

    became = run.go_all()

    assert became["checks"] == sentence
    assert "was rolled back" in became[SETTLE]
    assert sentence in became[SETTLE]
    assert stream.running() == 3


def test_a_check_that_comes_to_no_end_counts_as_wrong(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_: Soaked) -> None:
        raise OSError("no database")

    run = Run(stream, monkeypatch, checks=[breaks])
    run.report()
    run.go_all("back_up", "switch", "soak")
    with pytest.raises(OSError, match="no database"):
        run.go("checks")

    with pytest.raises(AirflowFailException, match="was rolled back") as failed:
        run.go(SETTLE)

    assert "Check 'breaks' raised OSError: no database" in str(failed.value)

    assert stream.running() == 3


def test_a_check_is_told_what_was_deployed_in_the_place_of_what(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Soaked] = []
    run = Run(stream, monkeypatch, checks=[seen.append])
    run.report()

    run.go_all()

    (soaked,) = seen
    assert (soaked.stream, soaked.change) == ("orders", 1)
    assert (soaked.replaced.number, soaked.deployment.number) == (1, 2)


@pytest.mark.parametrize(
    ("killed", "code"),
    [
        ("back_up", "works"),
        ("switch", "works"),
        ("soak", "works"),
        ("checks", "works"),
        ("settle", "works"),
        ("switch", "fails after two"),
        ("settle", "fails after two"),
    ],
)
def test_a_task_that_is_killed_again_and_again_comes_to_the_same_end(
    killed: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Upgraded(tmp_path, code)
    run = Run(stream, monkeypatch, checks=[lambda _: None])
    run.report()

    became = run.go_all(killed=killed)

    end = end_of(stream)
    assert end is not None
    assert len(stream.home.changes()) == 1
    assert (became[SETTLE] == "done", stream.running()) == (
        (True, 2) if code == "works" else (False, 3)
    )


@pytest.mark.parametrize("task", ["back_up", "switch", "soak", "checks", "settle"])
def test_a_home_that_is_away_for_a_while_is_waited_for(
    task: str, stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch, checks=[lambda _: None])
    run.report()
    before = ALL[: ALL.index(task)]
    assert set(run.go_all(*before).values()) <= {"done"}
    answers = iter([True, True, False])

    def hook(*_: Any) -> Any:
        if next(answers, False):
            raise HomeUnavailable("The home does not answer.")
        return hook_of(stream)

    monkeypatch.setattr(UpgradeTask, "hook", hook)

    assert run.go_all(*ALL[len(before) :])[SETTLE] == "done"
    assert stream.running() == 2


def test_a_home_that_is_not_mounted_when_it_is_settled_is_waited_for(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch)
    run.report()
    run.go_all(*ALL[:-1])
    task, home = run.task(SETTLE), Path(stream.uri)
    home.rename(f"{home}.away")

    with pytest.raises(TaskDeferred):
        task.execute(run.context(SETTLE))

    Path(f"{home}.away").rename(home)
    assert run.go(SETTLE)["stage"] == "kept"


def test_a_run_that_only_looks_begins_nothing(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch)
    run.report()
    approve = run.task("approve")
    approve.is_dry_run = "True"

    with pytest.raises(AirflowSkipException, match="dry run"):
        approve.execute(run.context("approve"))
    with pytest.raises(AirflowSkipException, match="dry run"):
        run.go(SETTLE)

    assert nobody_was_disturbed(stream)


def test_a_no_leaves_everything_as_it_was(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch)
    run.report()
    approve, context = run.task("approve"), run.context("approve")
    monkeypatch.setattr(type(approve), "skip", lambda *_, **__: None)
    context["task"] = approve

    approve.execute_complete(
        context,
        {
            "chosen_options": ["Reject"],
            "params_input": {},
            "responded_at": datetime.now(UTC),
            "responded_by_user": {"id": "7", "name": "ann"},
            "timedout": False,
        },
    )
    with pytest.raises(AirflowSkipException, match="ann rejected it"):
        run.go(SETTLE)

    assert nobody_was_disturbed(stream)


def test_silence_is_a_no(stream: Upgraded, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(stream, monkeypatch)

    assert run.task("approve").defaults == ["Reject"]


def test_what_failed_before_anything_was_begun_fails_the_run(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch)

    with pytest.raises(AirflowFailException, match="ended before it changed anything"):
        run.go(SETTLE)

    assert nobody_was_disturbed(stream)


def test_a_task_that_died_before_it_could_say_what_it_had_begun_is_found_and_given_up(
    stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch)
    run.report()
    stream.begin(key=run.key, keeps_by_itself=False)

    with pytest.raises(AirflowFailException, match="aborted before it changed anything"):
        run.go(SETTLE)

    end = end_of(stream)
    assert end is not None
    assert end.outcome is ChangeOutcome.ABANDONED
    assert stream.running() == 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        pytest.param({"fingerprint": "other"}, "is not approved", id="edited since"),
        pytest.param({"replaced": 7}, "runs another deployment", id="replaced since"),
    ],
)
def test_only_what_was_approved_is_deployed(
    changes: dict[str, Any],
    sentence: str,
    stream: Upgraded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(stream, monkeypatch)
    run.report(**changes)

    with pytest.raises(AirflowFailException, match=sentence):
        run.go("back_up")

    assert nobody_was_disturbed(stream)

"""A cutover from its dag's tasks: forward, killed, given up, rolled back, and settled."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.records.cutover_table import CutoverCommand
from airflow_streaming.operators.common.cutover_checks import CheckFailed
from airflow_streaming.operators.cutover_preflight import what_is_given_up
from airflow_streaming.options import SideBySide
from airflow_streaming.reports.markdown import markdown
from airflow_streaming.reports.report import Paragraph, report_of
from tests.unit.changes.cutover.cutting import Cutting
from tests.unit.operators.cutovers import ALL, BEFORE, SETTLE, Run, another_script

WAYS = pytest.mark.parametrize("way", list(SwitchMethod), ids=str)


@WAYS
def test_a_good_green_is_live_in_the_end_and_nothing_is_lost_or_doubled(
    way: SwitchMethod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path, way)
    run = Run(stream, monkeypatch)
    run.report()

    became = run.go_all()

    assert set(became.values()) == {"done"}
    assert stream.live_lane() == "orders.green"
    assert stream.history()[-1] == "finalized"
    assert stream.faults() == []
    assert stream.running("orders") is None


@WAYS
def test_killed_workers_cost_nothing_but_time(
    way: SwitchMethod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path, way)
    run = Run(stream, monkeypatch)
    run.report()

    became = run.go_all(killed=ALL)

    assert set(became.values()) == {"done"}
    assert (stream.live_lane(), stream.history()[-1]) == ("orders.green", "finalized")
    assert stream.faults() == []


def test_several_streams_switch_in_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Cutting(tmp_path, streams=("orders", "returns"))
    run = Run(stream, monkeypatch)
    run.report()

    became = run.go_all()

    assert set(became.values()) == {"done"}
    assert [stream.live_lane(name) for name in stream.streams] == ["orders.green", "returns.green"]


@pytest.mark.parametrize("green", ["fails at once", "hangs"])
def test_a_green_that_does_not_work_leaves_blue_as_it_was(
    green: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path, green=green)
    run = Run(stream, monkeypatch, deadlines={"catching_up": timedelta(minutes=5)})
    run.report(deadlines={"catching_up": timedelta(minutes=5)})

    became = run.go_all()

    assert "was aborted before the switch, and blue is unchanged" in became[SETTLE]
    assert "switch" not in became
    assert (stream.live_lane(), stream.history()[-1]) == ("orders", "aborted")
    assert stream.running("orders") == 1
    assert stream.faults() == []


@WAYS
def test_a_green_that_fails_once_it_is_live_is_rolled_back(
    way: SwitchMethod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path, way, green="fails later")
    run = Run(stream, monkeypatch)
    run.report()

    became = run.go_all()

    assert "was rolled back, and blue is live again" in became[SETTLE]
    assert (stream.live_lane(), stream.history()[-1]) == ("orders", "rolled_back")
    assert stream.running("orders") is not None


def test_what_fails_on_the_way_is_given_up_by_the_task_that_settles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = Run(stream, monkeypatch)
    run.report()
    run.go_all("start_green")
    run.xcoms["blue_green.catch_up", "wrong"] = "The store is of another stream."

    became = run.go_all(SETTLE)

    assert "The store is of another stream." in became[SETTLE]
    assert stream.history()[-1] == "aborted"
    assert stream.running("orders.green") is None


# The author's checks.


def is_odd(pair: SideBySide) -> str:
    return f"{pair.green.output} holds odd numbers, {pair.blue.output} does not."


def is_fine(_: SideBySide) -> None:
    """Find nothing wrong."""


def cannot_tell(_: SideBySide) -> None:
    raise RuntimeError("no such table")


def test_a_check_that_finds_something_wrong_ends_the_cutover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = Run(stream, monkeypatch, checks=[is_fine, is_odd])
    run.report()

    became = run.go_all()

    assert became["checks"] == "done", "what it found is the cutover's to act on"
    assert "is_odd" in became["compare"]
    assert "holds odd numbers" in became[SETTLE]
    assert stream.history()[-1] == "aborted"


def test_checks_that_pass_are_recorded_and_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SideBySide] = []

    def counts(pair: SideBySide) -> bool:
        asked.append(pair)
        return True

    stream = Cutting(tmp_path)
    run = Run(stream, monkeypatch, checks=[counts])
    run.report()

    became = run.go_all(killed=["checks"])

    assert set(became.values()) == {"done"}
    assert [(one.stream, one.blue.number, one.green.stream) for one in asked] == [
        ("orders", 1, "orders.green")
    ]


@pytest.mark.parametrize("is_last", [False, True], ids=["a try is left", "the last try"])
def test_a_check_that_comes_to_no_end_is_tried_again_and_then_proves_nothing(
    is_last: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = Run(stream, monkeypatch, checks=[cannot_tell])
    run.report()
    run.go_all("start_green", "catch_up", "shadow")

    if not is_last:
        with pytest.raises(CheckFailed, match="RuntimeError: no such table"):
            run.go("checks", try_number=1, max_tries=3)
        assert stream.history()[-1] == "comparing"
        return
    run.go("checks", try_number=4, max_tries=3)
    run.go("compare")
    assert stream.history()[-1] == "held"
    assert "Green: **not proved, approval needed**" in run.xcoms["blue_green.compare", "markdown"]


# People.


def test_a_green_that_nothing_was_compared_of_goes_live_by_an_approval_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = Run(stream, monkeypatch)
    run.report(compare=())

    assert set(run.go_all(*BEFORE).values()) == {"done"}
    assert stream.history()[-1] == "held"

    run.answer("approve_switch", "Approve")
    run.go_all("switch", "soak", "settle")
    assert stream.history()[-1] == "finalized"


def ready(stream: Cutting, monkeypatch: pytest.MonkeyPatch, **group: Any) -> Run:
    """Return a run whose green is ready, and waits for a person's word."""
    run = Run(stream, monkeypatch, **group)
    run.report(promotes_by_itself=False)
    assert set(run.go_all(*BEFORE).values()) == {"done"}
    assert stream.history()[-1] == "ready"
    return run


def test_green_waits_for_the_word_and_is_tended_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = ready(stream, monkeypatch)

    with pytest.raises(AssertionError, match="came to no end"):
        run.go("switch", ticks=5)
    run.answer("approve_switch", "Approve")
    became = run.go_all("switch", "soak", "settle")

    assert set(became.values()) == {"done"}
    steps = stream.home("orders").steps(1)
    assert "Approved by ann." in [step.reason for step in steps]


@pytest.mark.parametrize(
    ("who", "reason"),
    [("ann", "ann rejected it."), (None, "The approval timed out.")],
    ids=["a no", "silence"],
)
def test_a_no_leaves_blue_as_it_was(
    who: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = ready(stream, monkeypatch)

    run.answer("approve_switch", "Reject", who)
    became = run.go_all("switch", "settle")

    assert reason in became["switch"]
    assert reason in became[SETTLE]
    assert stream.live_lane() == "orders"


def test_an_answer_that_comes_too_late_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = ready(stream, monkeypatch)
    stream.engine().command(CutoverCommand.ABORT, "Wrong totals.")

    with pytest.raises(AirflowFailException, match="too late: the cutover is in state aborting"):
        run.answer("approve_switch", "Approve")
    with pytest.raises(AirflowSkipException, match="in state aborting"):
        run.task("approve_switch").execute(run.context("approve_switch"))


def test_a_yes_while_green_is_compared_again_is_asked_for_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = ready(stream, monkeypatch)
    stream.engine().command(CutoverCommand.LOOK_AGAIN, "There is data now.")
    asked: list[Any] = []
    task = type(run.task("approve_switch"))
    monkeypatch.setattr(task, "ask_anew", lambda _, context: asked.append(context))

    run.answer("approve_switch", "Approve")

    assert len(asked) == 1
    assert stream.history()[-1] == "catching_up"


def settled_elsewhere(run: Run, question: str) -> Any:
    """Let the trigger of a question look once, and the task act on what it saw."""
    task, context = run.task(question), run.context(question)
    trigger = task.question(
        context,
        home=run.stream.uri,
        stream="orders",
        ti_id="",
        deferred_at="2026-03-01T00:00:00+00:00",
    )
    event, _ = trigger.look_once()
    return None if event is None else task.execute_complete(context, event)


@pytest.mark.parametrize(
    ("command", "answer"),
    [(CutoverCommand.PROMOTE, "yes"), (CutoverCommand.ABORT, "no")],
)
def test_a_question_that_was_answered_from_a_terminal_does_not_stay_open(
    command: CutoverCommand, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = ready(stream, monkeypatch)
    assert settled_elsewhere(run, "approve_switch") is None

    stream.engine().command(command, "Totals agree.")

    told = settled_elsewhere(run, "approve_switch")
    assert told["answered_elsewhere"] == answer
    assert "Totals agree." in told["reason"]


def test_a_question_whose_cutover_moved_on_by_itself_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = Run(stream, monkeypatch, approval={"end": "ask"})
    run.report()
    run.go_all(*BEFORE, "switch")
    assert settled_elsewhere(run, "approve_end") is None
    run.go_all("soak")

    with pytest.raises(AirflowSkipException, match="No approval is needed any more"):
        settled_elsewhere(run, "approve_end")


def test_nobody_is_asked_about_a_green_that_goes_on_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = Run(stream, monkeypatch)
    run.report()
    run.go_all(*BEFORE)

    with pytest.raises(AirflowSkipException, match="No approval is needed"):
        run.task("approve_switch").execute(run.context("approve_switch"))


def test_whoever_is_asked_reads_what_was_judged_and_what_a_yes_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ready(Cutting(tmp_path), monkeypatch, checks=[is_fine])

    page = run.xcoms["blue_green.compare", "markdown"]

    assert "Green: **ready**" in page
    assert "**Approve**: consumers are pointed to green's output." in page
    assert "| `is_fine` | passed |" in page
    assert "### Steps so far" in page
    steps = run.xcoms["blue_green.compare", "steps"]
    assert steps[0].startswith("Step 1: planned → starting")


def test_a_person_keeps_or_takes_back_what_soaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = Run(stream, monkeypatch, approval={"end": "ask"})
    run.report(finalizes_by_itself=False)
    run.go_all(*BEFORE, "switch")

    run.answer("approve_end", "Reject")
    became = run.go_all("soak", "settle")

    assert "ann rejected it." in became["soak"]
    assert "was rolled back" in became[SETTLE]
    assert stream.live_lane() == "orders"


# Runs.


@pytest.mark.parametrize("ended_by", ["preflight", "approve"])
def test_a_run_that_only_looks_begins_nothing(
    ended_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = Run(stream, monkeypatch)
    run.report()
    run.xcoms[f"blue_green.{ended_by}", "ended"] = "This was a dry run: nothing was changed."

    with pytest.raises(AirflowSkipException, match="dry run"):
        run.go(SETTLE)

    assert stream.home("orders").changes() == []


def test_what_was_not_approved_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = Run(stream, monkeypatch)
    run.report()
    another_script(stream)

    became = run.go_all("start_green", "settle")

    assert "has changed since the report was made" in became["start_green"]
    assert "ended before it changed anything" in became[SETTLE]
    assert stream.home("orders").changes() == []


def test_another_run_goes_on_where_one_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    left = Run(stream, monkeypatch)
    left.report()
    left.go_all("start_green", "catch_up")
    run = Run(stream, monkeypatch, run_id="run-2")
    run.leave({"resumes": 1})

    became = run.go_all()

    assert set(became.values()) == {"done"}
    assert len(stream.home("orders").changes()) == 1
    assert stream.live_lane() == "orders.green"


def finished(stream: Cutting, monkeypatch: pytest.MonkeyPatch) -> Run:
    run = Run(stream, monkeypatch)
    run.report()
    assert set(run.go_all().values()) == {"done"}
    return run


def test_the_next_preflight_warns_of_the_blue_that_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    assert what_is_given_up(stream.home("orders")) == ""
    finished(stream, monkeypatch)

    page = markdown(report_of([Paragraph(what_is_given_up(stream.home("orders")))]))

    assert page.startswith(
        "**The blue of cutover 1 is still kept: orders (deployment 1).** This cutover needs its lane"
    )


def test_blue_is_kept_for_as_long_as_it_was_asked_for_and_then_retired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    run = finished(stream, monkeypatch)
    clock = "airflow_streaming.operators.cutover.datetime"

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return stream.now

    monkeypatch.setattr(clock, Clock)
    with pytest.raises(TaskDeferred) as deferred:
        run.task("retire").execute(run.context("retire"))
    woken = deferred.value.trigger.serialize()[1]["wake_seconds"]
    assert woken == pytest.approx(86400, abs=60)
    assert stream.history()[-1] == "finalized"

    stream.pass_time(timedelta(days=1))
    run.go("retire")

    assert stream.history()[-1] == "retired"


def test_the_next_cutover_takes_the_lane_of_a_blue_that_is_still_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cutting(tmp_path)
    first = finished(stream, monkeypatch)
    stream.code = "works"
    second = Run(stream, monkeypatch, run_id="run-2")
    second.report()

    became = second.go_all()

    assert set(became.values()) == {"done"}
    assert stream.live_lane() == "orders"
    assert stream.history(1)[-1] == "retired"
    with pytest.raises(AirflowSkipException, match="Nothing is kept: retired"):
        first.task("retire").execute(first.context("retire"))

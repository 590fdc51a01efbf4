from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from airflow_streaming.model.records.alert import Alert, AlertKind
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.supervision.alerts.alerting import gave_up, restart_failed, restarted
from airflow_streaming.supervision.alerts.message import MAX_SUBJECT, render
from tests.unit.supervision.builders import NOW, a_give_up, a_restart, an_alert

BEHIND: Final = an_alert(
    number=12,
    by="kim",
    reason="Query 'revenue' works off 62 % of what comes in.",
    action="Nothing: the stream is left alone.",
    remedy="Look in the Spark UI.",
    facts={"figure": "0.62", "bound": "0.8", "since": "2026-11-21 11:54:00 UTC"},
)
LINKS: Final = {"Task log": "https://airflow/log", "Spark UI": "https://airflow/ui"}

WHOLE: Final = """\
Stream 'orders' is unhealthy.

What happened: Query 'revenue' works off 62 % of what comes in.
Query:         revenue
Rule:          falling_behind
Epoch:         17
Figure:        0.62
Bound:         0.8
Since:         2026-11-21 11:54:00 UTC

Automatic action:
  Nothing: the stream is left alone.

What to do:
  Look in the Spark UI.

Where to look:
  Task log: https://airflow/log
  Spark UI: https://airflow/ui

Alert 12 of stream 'orders', 2026-11-21 12:00:00 UTC, by kim.
"""


def test_a_message_says_what_happened_what_was_done_what_to_do_and_where_to_look() -> None:
    assert render(BEHIND, links=LINKS).body == WHOLE


def a_failure(**changes: Any) -> Any:
    return {"query": "revenue", "failure_kind": FailureKind.USER_CODE, **changes}


@pytest.mark.parametrize(
    ("alert", "subject"),
    [
        (BEHIND, "Stream orders is unhealthy: falling_behind, query revenue"),
        (replace(BEHIND, query="", rule="hung"), "Stream orders is unhealthy: hung"),
        (
            replace(BEHIND, alert=AlertKind.RECOVERED),
            "Stream orders has recovered: falling_behind, query revenue",
        ),
        (
            restarted(stream="orders", decision=a_restart(**a_failure()), now=NOW),
            "Stream orders is restarted: user_code, query revenue",
        ),
        (
            gave_up(stream="orders", decision=a_give_up(**a_failure()), now=NOW),
            "Stream orders is down and stays down: user_code, query revenue",
        ),
        (
            restart_failed(stream="orders", epoch=18, error="no such jar", now=NOW),
            "Stream orders could not be restarted",
        ),
    ],
    ids=["a rule", "the driver", "recovered", "restarted", "given up", "launch failed"],
)
def test_the_subject_says_which_stream_and_what(alert: Alert, subject: str) -> None:
    assert render(alert, links={}).subject == subject


def test_a_subject_is_one_line_whatever_a_query_is_called() -> None:
    evil = replace(BEHIND, query="a\r\nBcc: everybody@example.com\n\nx")

    assert render(evil, links={}).subject.splitlines() == [
        "Stream orders is unhealthy: falling_behind, query a Bcc: everybody@example.com x"
    ]


def test_a_long_subject_is_cut() -> None:
    subject = render(replace(BEHIND, query="q" * 500), links={}).subject

    assert len(subject) == MAX_SUBJECT
    assert subject.endswith("…")


def test_lines_that_say_nothing_are_left_out() -> None:
    bare = replace(BEHIND, query="", rule="", facts={}, action="", remedy="", by="")

    assert render(bare, links={}).body == (
        "Stream 'orders' is unhealthy.\n\n"
        "What happened: Query 'revenue' works off 62 % of what comes in.\n"
        "Epoch:         17\n\n"
        "Alert 12 of stream 'orders', 2026-11-21 12:00:00 UTC.\n"
    )


def test_a_text_of_several_lines_stays_under_its_label() -> None:
    body = render(replace(BEHIND, reason="one\ntwo", facts={}), links={}).body

    assert "What happened: one\n               two\n" in body


def test_a_message_holds_no_secret() -> None:
    leaky = replace(
        BEHIND,
        reason="password=hunter2",
        remedy="token: hunter2",
        query="secret=hunter2",
        facts={"source": "jdbc://me:hunter2@db"},
    )

    message = render(leaky, links=LINKS)

    assert "hunter2" not in message.subject + message.body

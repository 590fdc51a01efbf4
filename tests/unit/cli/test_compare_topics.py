"""``compare --format kafka``: a secret comes from the environment, and windows before a replay are left out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_streaming.changes import topic_comparison
from airflow_streaming.cli.main import main
from airflow_streaming.model.jobs.comparison import ComparisonRequest, not_made

ASKED = ("compare", "--format", "kafka", "--blue", "a", "--green", "b")
SERVERS = ("--option", "kafka.bootstrap.servers=h:9093")
PASSWORD = "kafka.sasl.password"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []

    def compare(terms: Any, blue: Any, green: Any, **more: Any) -> Any:
        found.append({"terms": terms, **more})
        request = ComparisonRequest(terms=terms, blue=blue.topic, green=green.topic)
        return not_made(request, "A test.", at=datetime(2026, 3, 1, tzinfo=UTC))

    monkeypatch.setattr(topic_comparison, "compare_topics", compare)
    return found


def test_a_secret_is_named_on_the_command_line_and_taken_from_the_environment(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "secret-1")

    code = main([*ASKED, *SERVERS, "--option", PASSWORD + "={env.KAFKA_PASSWORD}"])

    assert code == 3
    assert calls[0]["options"][PASSWORD] == "secret-1"
    assert "secret-1" not in str(calls[0]["terms"])
    assert "secret-1" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "says"), [("secret-1", "the home records"), ("{env.NOT_THERE}", "NOT_THERE")]
)
def test_a_secret_in_plain_text_or_without_a_value_is_refused(
    value: str, says: str, calls: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ASKED, *SERVERS, "--option", f"{PASSWORD}={value}"]) == 2
    assert calls == []
    shown = capsys.readouterr().err
    assert says in shown.replace("\n", " ")
    assert "secret-1" not in shown


def test_an_address_that_is_blank_is_refused(
    calls: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ASKED, "--option", "kafka.bootstrap.servers= "]) == 2
    assert calls == []
    assert "Topics need --option kafka.bootstrap.servers" in capsys.readouterr().err


def test_the_time_of_windows_is_given(calls: list[Any]) -> None:
    more = ("--time", "value.start", "--complete-from", "2026-03-01T12:00:00Z")

    assert main([*ASKED, *SERVERS, *more]) == 3
    assert calls[0]["terms"].time == "value.start"
    assert calls[0]["complete_from"] == datetime(2026, 3, 1, 12, tzinfo=UTC)

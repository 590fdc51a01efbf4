"""
The message of an alert, for on-call engineers.

Plain text for every channel. The subject names the stream and the problem; the body has the event,
the figures, the provider's action, the remedy, and links.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_streaming.model.records.alert import RESTART_KEY, Alert, AlertKind, AlertSource
from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.supervision.alerts.alerting import moment

MAX_SUBJECT: Final = 150
"""Characters of a subject; phones and mail programs show fewer still."""
_SUBJECTS: Final = {
    AlertKind.UNHEALTHY: "is unhealthy",
    AlertKind.RESTARTED: "is restarted",
    AlertKind.GAVE_UP: "is down and stays down",
    AlertKind.RECOVERED: "has recovered",
    AlertKind.HELD: "are held for a maintenance",
}
_MAINTENANCE_IS_OVER: Final = "run again after a maintenance"
_NOT_STARTED: Final = "could not be restarted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """
    An alert as text.

    :param subject: A single line.
    :param body: Plain text of several lines, ending with a line feed.
    """

    subject: str
    body: str


def render(alert: Alert, *, links: Mapping[str, str]) -> Message:
    """
    Return the message for an alert.

    :param links: Links by their label, e.g. ``Spark UI``.
    """
    parts = [
        f"{_subject_of(alert, quoted=True)} {_headline(alert)}.",
        "\n".join(_table(alert)),
        *_paragraphs({"Automatic action": alert.action, "What to do": alert.remedy}),
    ]
    if links:
        lines = [f"  {name}: {link}" for name, link in links.items()]
        parts.append("\n".join(["Where to look:", *lines]))
    by = f", by {alert.by}" if alert.by else ""
    whose = "the home" if _is_of_fleet(alert) else f"stream {alert.stream!r}"
    parts.append(f"Alert {alert.number} of {whose}, {moment(alert.at)}{by}.")
    return Message(subject=_subject(alert), body=mask_secrets("\n\n".join(parts)) + "\n")


def _headline(alert: Alert) -> str:
    if alert.alert is AlertKind.RESTARTED and alert.rule == "restart_failed":
        return _NOT_STARTED
    if alert.alert is AlertKind.RECOVERED and _is_of_fleet(alert):
        return _MAINTENANCE_IS_OVER
    return _SUBJECTS[alert.alert]


def _is_of_fleet(alert: Alert) -> bool:
    return AlertSource.of_key(alert.key) is AlertSource.FLEET


def _subject_of(alert: Alert, *, quoted: bool = False) -> str:
    if _is_of_fleet(alert):
        return "Streams of the home"
    return f"Stream {alert.stream!r}" if quoted else f"Stream {alert.stream}"


def _subject(alert: Alert) -> str:
    about = alert.facts.get("failure", "") if _is_of_restarts(alert) else alert.rule
    query = f"query {alert.query}" if alert.query else ""
    details = ", ".join(part for part in (about, query) if part)
    subject = f"{_subject_of(alert)} {_headline(alert)}" + (f": {details}" if details else "")
    # A query may be named anything, and a line feed in a subject begins another header of a mail.
    line = mask_secrets(" ".join(subject.split()))
    return line if len(line) <= MAX_SUBJECT else line[: MAX_SUBJECT - 1] + "…"


def _is_of_restarts(alert: Alert) -> bool:
    # Their rule says no more than the headline.
    return alert.key == RESTART_KEY


def _table(alert: Alert) -> Iterator[str]:
    rows = {
        "what happened": alert.reason,
        "query": alert.query,
        "rule": "" if _is_of_restarts(alert) else alert.rule,
        "epoch": str(alert.epoch) if alert.epoch else "",
        **alert.facts,
    }
    values = {name: text for name, text in rows.items() if text}
    width = max(len(name) for name in values) + 2
    for name, text in values.items():
        label = f"{name[:1].upper()}{name[1:]}:"
        yield f"{label:<{width}}{_indented(text, width)}"


def _paragraphs(texts: Mapping[str, str]) -> list[str]:
    return [f"{title}:\n  {_indented(text, 2)}" for title, text in texts.items() if text]


def _indented(text: str, width: int) -> str:
    return text.replace("\n", "\n" + " " * width)

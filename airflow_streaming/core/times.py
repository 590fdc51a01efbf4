"""Moments as text: ISO 8601, always with a zone, always written in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_streaming.exceptions import RecordError


def format_time(moment: datetime) -> str:
    """
    Return an aware datetime as ISO 8601 in UTC, with microseconds.

    :raises RecordError: the time does not know its zone.
    """
    if moment.tzinfo is None:
        raise RecordError(f"The time {moment} has no time zone; records hold aware times only.")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def parse_time(text: str, field: str) -> datetime:
    """
    Parse an ISO 8601 time that names its zone.

    :param field: Names the value in messages.
    :raises RecordError: not a time, or without a zone.
    """
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError) as err:
        raise RecordError(f"{field}: {text!r:.80} is not an ISO 8601 time.") from err
    raise RecordError(f"{field}: {text!r:.80} does not say its time zone.")

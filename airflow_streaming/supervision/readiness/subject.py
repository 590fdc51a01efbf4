"""
The stream that a sensor or an asset of a DAG file names, its condition and its events.

``snapshot`` reads such a stream, ``conditions`` and ``asset_events`` judge it; a DAG file loads neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Self

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.model.codec import encode
from airflow_streaming.model.uris import is_local
from airflow_streaming.model.wire import JsonValue, decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject(JsonValue):
    """
    Identifies a stream.

    :param stream: Name of a stream of ours; requires ``home``.
    :param home_conn_id: Connection with credentials for the home.
    :param checkpoint: Checkpoint of any Spark query, or the folder above an application's
        checkpoints.
    :param endpoint: ``http://host:port`` of that application's web page.
    :param conn_id: Connection with credentials for the checkpoint's store.
    :raises SpecError: Neither or both ways are used, or half of one.
    """

    WHAT: ClassVar[str] = "subject"

    stream: str | None = None
    home: str | None = None
    home_conn_id: str | None = None
    checkpoint: str | None = None
    endpoint: str | None = None
    conn_id: str | None = None

    def __post_init__(self) -> None:
        ours, foreign = (self.stream, self.home), self.checkpoint
        if foreign is not None and any(part is not None for part in (*ours, self.home_conn_id)):
            raise SpecError(
                "A stream is named in two ways. Give stream= and home= for a stream of this "
                "provider, or checkpoint= for any other, and not both."
            )
        if foreign is None and None in ours:
            raise SpecError(
                "The stream is missing. Give stream= and home= for a stream of this provider, or "
                "checkpoint= for any other."
            )
        if foreign is None and any(part is not None for part in (self.endpoint, self.conn_id)):
            raise SpecError(
                "endpoint= and conn_id= go with checkpoint=. For a stream of this provider use "
                "home_conn_id=."
            )

    @property
    def is_external(self) -> bool:
        """Tell whether it is a stream that this provider did not launch."""
        return self.checkpoint is not None

    @property
    def place(self) -> str:
        """Return the URI that is read."""
        return self.checkpoint or self.home or ""

    @property
    def lane(self) -> str:
        """Return the URI of the store; looks at one store share a thread pool."""
        if self.checkpoint is None:
            return self.place
        return "/" if is_local(self.checkpoint) else "/".join(self.checkpoint.split("/", 3)[:3])

    @property
    def who(self) -> str:
        """Return what messages call it."""
        return self.checkpoint or f"stream {self.stream!r}"

    @property
    def name(self) -> str:
        """Return what programs call it."""
        return self.checkpoint or self.stream or ""

    def to_dict(self) -> dict[str, Any]:
        """Return the subject as JSON, without the parts that are not used."""
        return {name: value for name, value in encode(self).items() if value is not None}


class EventType(StrEnum):
    """Kinds of asset events."""

    WATERMARK = "watermark"
    """Its watermark has passed the end of another interval, so that this interval is complete."""
    BATCH = "batch"
    """It has committed; for streams without a watermark."""
    STATE = "state"
    """It has become well, or unwell in another way."""
    LIVE = "live"
    """Consumers are led to another output: another lane became live, or it writes elsewhere."""


class BacklogUnit(StrEnum):
    """Units of a backlog."""

    RECORDS = "records"
    BYTES = "bytes"
    FILES = "files"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(JsonValue):
    """
    Condition of a gate; every given part must hold.

    :param query: Check this query only; default: every query of the stream.
    :param healthy_for: The stream has been healthy for this long.
    :param batch: This batch, or a later one, is committed.
    :param committed_since: A batch was committed at or after this time, by the stream's own clock.
    :param watermark: The event-time watermark has passed this time, so that windows up to it are
        complete.
    :param backlog_below: The backlog is below this, counted in ``backlog_unit``. Unlike a commit it
        does not stay true, so the stream must be observed while it works.
    :param read_until: Everything that the sources got before this time is read.
    :param caught_up_with: Another stream's offsets: this one has read at least as far.
    :param tolerate_stop: A stop of the stream is waited out for this long.
    """

    WHAT: ClassVar[str] = "condition"

    query: str | None = None
    healthy_for: timedelta | None = None
    batch: int | None = None
    committed_since: datetime | None = None
    watermark: datetime | None = None
    backlog_below: float | None = None
    backlog_unit: BacklogUnit = BacklogUnit.RECORDS
    read_until: datetime | None = None
    caught_up_with: tuple[str, ...] | None = None
    tolerate_stop: timedelta | None = None

    @property
    def needs_a_sign_of_life(self) -> bool:
        """Return whether the condition is about the present, not only about commits."""
        return self.healthy_for is not None or self.backlog_below is not None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """
        Build a condition from its JSON form.

        :raises RecordError: a field is of the wrong type, or of a newer release; to pass over a
            part of a condition would open the gate too early.
        """
        unknown = sorted(data.keys() - {field.name for field in fields(cls)})
        if unknown:
            raise RecordError(
                f"This release does not know {unknown[0]:.80} in a condition. Upgrade "
                "airflow-streaming on the triggerer and the workers."
            )
        return decode(cls, data, cls.WHAT)


class ReadinessState(StrEnum):
    """Whether the stream can be relied on."""

    READY = "ready"
    WAITING = "waiting"
    LOST = "lost"
    """It will not become so until a user acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether the stream can be relied on, and why."""

    state: ReadinessState
    reason: str

"""
Subject: the stream that a gate or an asset looks at.

It is ours, by its name, or anybody's, by its checkpoint.

It travels in the kwargs of triggers, which a database keeps in the clear, so it holds the id of a
connection and never what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from airflow_streaming.core.codec import encode
from airflow_streaming.core.uris import is_local
from airflow_streaming.core.wire import decode
from airflow_streaming.exceptions import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """
    Which stream is meant.

    :param stream: Name of a stream of ours; goes with ``home``.
    :param home: The home's URI.
    :param home_conn_id: Connection with credentials for the home.
    :param checkpoint: Checkpoint of any Spark query, or the folder above those of one application.
    :param endpoint: ``http://host:port`` of that application's web page.
    :param conn_id: Connection with credentials for the checkpoint's store.
    :raises SpecError: neither or both ways are used, or half of one.
    """

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
                "It is not said which stream is meant. Give stream= and home= for a stream of this "
                "provider, or checkpoint= for any other."
            )
        if foreign is None and any(part is not None for part in (self.endpoint, self.conn_id)):
            raise SpecError(
                "endpoint= and conn_id= go with checkpoint=. For a stream of this provider use "
                "home_conn_id=."
            )

    @property
    def is_foreign(self) -> bool:
        """Tell whether it is a stream that this provider did not launch."""
        return self.checkpoint is not None

    @property
    def place(self) -> str:
        """Return the URI of what is read to see it."""
        return self.checkpoint or self.home or ""

    @property
    def lane(self) -> str:
        """Return the URI of the store that looks at it have to share."""
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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """
        Build a subject from its JSON form.

        :raises RecordError: a part of the wrong type, or the parts name no stream, or two.
        """
        return decode(cls, data, "subject")

"""
Questions to a cluster manager over HTTP, and answers as values.

Nothing of an answer is believed before it was checked: it is cut off at a size, must be a JSON
object, and a redirection is not followed, since it would take the credentials to another host.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.model.spark.failures import first_line, presentable

TIMEOUT: Final = 10.0
"""Seconds for one answer; a cluster manager that needs longer counts as out of reach."""
WHOLE_ANSWER: Final = 30.0
"""Seconds for all of one answer."""
_PART: Final = 2**16
_until: Final[ContextVar[float]] = ContextVar("until", default=float("inf"))

MAX_ANSWER: Final = 16 * 2**20
"""Bytes; a list of 1,000 pods has about 8 MB."""

_NEVER_SENT: Final = (ConnectionRefusedError, socket.gaierror)


@contextmanager
def answers_within(seconds: float) -> Iterator[None]:
    """Let all questions of the block together take so long; a block inside another shares its time."""
    token = _until.set(min(_until.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _until.reset(token)


class Unreachable(Exception):
    """
    No answer, or an unusable one.

    :param was_never_sent: No connection was made, so the request had no effect.
    """

    def __init__(self, message: str, *, was_never_sent: bool = False) -> None:
        super().__init__(message)
        self.was_never_sent = was_never_sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """
    An answer.

    :param body: The JSON object in it; empty without one.
    :param raw: The bytes, for answers in other formats, such as logs.
    """

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    raw: bytes = b""

    def text(self, key: str) -> str:
        """Return a text of the body; empty when it is absent or none."""
        value = self.body.get(key)
        return value if isinstance(value, str) else ""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _opener(context: ssl.SSLContext | None) -> urllib.request.OpenerDirector:
    # No proxy of the environment: it would see the credentials, and clusters are inside.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirection()]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def ask(
    url: str,
    *,
    method: str = "GET",
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
    timeout: float | None = None,
    most: int = MAX_ANSWER,
) -> Answer:
    """
    Send one request.

    :param url: An ``http`` or ``https`` address.
    :param body: Sent as JSON.
    :param context: How the server's certificate is checked; by default by the system's authorities.
    :param timeout: Seconds; by default ``TIMEOUT``.
    :param most: Maximum bytes of an answer.
    """
    left = _until.get() - time.monotonic()
    if left <= 0:
        raise Unreachable(f"{url} was not asked: the time is up", was_never_sent=True)
    if not url.startswith(("http://", "https://")):
        raise Unreachable(f"{url!r} is not an HTTP address")
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Accept": "application/json",
            "Content-Type": "application/json",
            **(headers or {}),
        },
    )
    try:
        with _opener(context).open(request, timeout=min(timeout or TIMEOUT, left)) as reply:
            return _read(reply.status, reply, url, most)
    except urllib.error.HTTPError as err:
        with err:
            return _read(err.code, err, url, most)
    except (OSError, http.client.HTTPException, ValueError) as err:
        raise Unreachable(
            f"{url} does not answer: {presentable(first_line(str(err)))}",
            was_never_sent=isinstance(getattr(err, "reason", None), _NEVER_SENT),
        ) from err


def _read(status: int, reply: Any, url: str, most: int) -> Answer:
    try:
        raw = _bytes_of(reply, url, most + 1)
    except (OSError, http.client.HTTPException) as err:
        raise Unreachable(f"{url} broke off its answer") from err
    if len(raw) > most:
        raise Unreachable(f"{url} answers with more than {most} bytes")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = {}
    return Answer(status=status, body=body if isinstance(body, dict) else {}, raw=raw)


def _bytes_of(reply: Any, url: str, most: int) -> bytes:
    """Read up to ``most`` bytes, part by part: a server that drips its answer exceeds no deadline."""
    parts, size, until = [], 0, min(_until.get(), time.monotonic() + WHOLE_ANSWER)
    while size < most and (part := reply.read1(min(most - size, _PART))):
        parts.append(part)
        size += len(part)
        if time.monotonic() > until:
            raise Unreachable(f"{url} has not sent its whole answer in time")
    return b"".join(parts)

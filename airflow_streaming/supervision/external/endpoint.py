"""
Read a driver's metrics endpoint, within bounds.

The whole read has one deadline and one address. HTTP libraries time each read separately, so that a
server that sends a byte now and then holds them for ever; they resolve a name again when they
connect, follow redirects and obey proxies of the environment. So this module connects to the
checked address itself, reads everything against the deadline and the cap, and only then passes the
reply to the standard library's parser.
"""

from __future__ import annotations

import http.client
import io
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from airflow_streaming.exceptions import RecordError, closed
from airflow_streaming.supervision.external.address import Address, why_forbidden
from airflow_streaming.supervision.external.endpoint_reply import (
    MAX_REPLY_BYTES,
    EndpointSight,
    EndpointState,
    parse_applications,
    parse_gauges,
)

SECONDS: Final = 3.0
"""For a look with everything in it; a driver that takes longer is not asked for more."""
_MAX_HEADER_BYTES: Final = 64 * 1024
_MAX_ADDRESSES: Final = 4
_APPLICATIONS: Final = "/api/v1/applications"
_GAUGES: Final = "/metrics/json/"
"""With the slash at its end; Spark redirects from the address without."""
Resolver = Callable[[str, int], list[str]]


class _Late(Exception):
    """The deadline has passed."""


class _Refused(Exception):
    """Nothing listens there."""


class _Unreadable(Exception):
    """Could not look; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deadline:
    at: float

    def remaining(self) -> float:
        left = self.at - time.monotonic()
        if left <= 0:
            raise _Late
        return left


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def ask(
    address: Address,
    *,
    expected: str | None = None,
    seconds: float = SECONDS,
    resolver: Resolver = resolve,
) -> EndpointSight:
    """
    Read an endpoint's application and the queries with gauges.

    Never raises: a failed read is an answer too.

    :param address: An address that passed ``check_endpoint``.
    :param expected: The required application id; default: any.
    :param seconds: Limit for the whole read.
    """
    deadline = _Deadline(at=time.monotonic() + seconds)
    try:
        ip = _first_that_listens(address, deadline, resolver)
        reply = _get(address, ip, _APPLICATIONS, deadline)
        application = parse_applications(reply, expected=expected)
    except _Late:
        return _failed(EndpointState.TIMED_OUT, address, f"gave no answer within {seconds:g} s.")
    except _Refused:
        return _failed(EndpointState.REFUSED, address, "refuses connections.")
    except (_Unreadable, RecordError) as err:
        return _failed(EndpointState.UNREADABLE, address, f"could not be read: {err}")
    try:
        queries = parse_gauges(_get(address, ip, _GAUGES, deadline))
    except (_Late, _Refused, _Unreadable, RecordError):
        queries = None
    return EndpointSight(state=EndpointState.ANSWERED, application=application, queries=queries)


def _failed(state: EndpointState, address: Address, why: str) -> EndpointSight:
    return EndpointSight(state=state, reason=f"{address} {why}")


def _first_that_listens(address: Address, deadline: _Deadline, resolver: Resolver) -> str:
    ips = _resolved(address, deadline, resolver)
    for ip in ips:
        # A name leads to a forbidden place by a bad address among good addresses.
        why = why_forbidden(ip)
        if why is not None:
            raise _Unreadable(f"its host was resolved to {ip}, which {closed(why)}")
    for ip in ips[:_MAX_ADDRESSES]:
        try:
            _connect(ip, address.port, deadline).close()
        except _Refused:
            continue
        return ip
    raise _Refused


def _resolved(address: Address, deadline: _Deadline, resolver: Resolver) -> list[str]:
    answers: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put(resolver(address.host, address.port))
        except (OSError, UnicodeError) as err:
            answers.put(err)

    # A resolver has no time limit, so it gets a thread that is not waited for.
    threading.Thread(target=work, name="resolve-endpoint", daemon=True).start()
    try:
        answer = answers.get(timeout=deadline.remaining())
    except queue.Empty as err:
        raise _Late from err
    if isinstance(answer, Exception) or not answer:
        raise _Unreadable(f"its host cannot be resolved ({type(answer).__name__}).")
    return answer


def _connect(ip: str, port: int, deadline: _Deadline) -> socket.socket:
    try:
        return socket.create_connection((ip, port), timeout=deadline.remaining())
    except ConnectionRefusedError as err:
        raise _Refused from err
    except TimeoutError as err:
        raise _Late from err
    except OSError as err:
        raise _Unreadable(f"no connection ({err.strerror or type(err).__name__}).") from err


def _get(address: Address, ip: str, path: str, deadline: _Deadline) -> bytes:
    connection = _connect(ip, address.port, deadline)
    try:
        if address.scheme == "https":
            connection.settimeout(deadline.remaining())
            context = ssl.create_default_context()
            connection = context.wrap_socket(connection, server_hostname=address.host)
        connection.settimeout(deadline.remaining())
        connection.sendall(_request(address, path))
        return _body(_read_all(connection, deadline))
    except TimeoutError as err:
        raise _Late from err
    except (OSError, http.client.HTTPException, ValueError) as err:
        raise _Unreadable(f"no proper reply ({type(err).__name__}).") from err
    finally:
        connection.close()


def _request(address: Address, path: str) -> bytes:
    host = str(address).partition("://")[2]
    # Without Accept-Encoding nothing comes compressed, so that the cap is the cap.
    return (
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n"
        "User-Agent: airflow-streaming\r\nConnection: close\r\n\r\n"
    ).encode("ascii")


def _read_all(connection: socket.socket, deadline: _Deadline) -> bytes:
    received = bytearray()
    while True:
        connection.settimeout(deadline.remaining())
        part = connection.recv(64 * 1024)
        if not part:
            return bytes(received)
        received += part
        if len(received) > MAX_REPLY_BYTES + _MAX_HEADER_BYTES:
            raise _Unreadable(f"its reply is larger than {MAX_REPLY_BYTES} bytes.")


class _Received:
    """The part of a socket that http.client uses."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _body(data: bytes) -> bytes:
    response = http.client.HTTPResponse(_Received(data), method="GET")  # type: ignore[arg-type] # all it uses
    response.begin()
    if response.status != 200:
        raise _Unreadable(f"it answered with status {response.status}; redirects are not followed.")
    if response.getheader("Content-Encoding", "identity") != "identity":
        raise _Unreadable("its reply is compressed, which was not asked for.")
    body = response.read(MAX_REPLY_BYTES + 1)
    if response.length:
        raise http.client.IncompleteRead(body)
    return body

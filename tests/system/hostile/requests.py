"""
Sends hostile requests to every route of the plugin, on the app of a real API server.

    python -m tests.system.hostile.requests [--seed 1] [--page]

With ``--page`` it is the plugin's app alone, with a stand-in of Airflow's rights and without the routes of
tasks, which read Airflow's database; that takes no server. A viewer, an administrator and a caller without a session put hostile values into every part of every
address, into queries, headers and bodies. No answer is an error of the server (but 503, which says that
a home cannot be looked at); none without a session is anything but 401; none shows a traceback, a value
as HTML, or what lies outside of the homes; and the home is what it was but where an administrator's act
was right in every part.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import random
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.integration.plugin.api import PASSWORDS, RUN, add_dag, settings_of
from tests.integration.plugin.test_routes import make_stream, streaming_app
from tests.system.hostile.watching import CANARY, Counts, Outside, deadline

PLACES: Final = {
    "dag_id": "orders",
    "stream": "orders",
    "act": "start",
    "run_id": RUN,
    "task_id": "keep",
    "map_index": "-1",
    "name": "app.js",
    "path": "app.js",
}
"""What is right in the place of each parameter."""
HOSTILE: Final = (
    *(
        "../../../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/secret",
        "....//secret",
        "/etc/passwd",
    ),
    *(
        "\x00",
        "a\x00.js",
        "\r\nSet-Cookie: a=b",
        "<script>alert(1)</script>",
        "{{ 7 * 7 }}",
        "' OR 1=1 --",
    ),
    *(
        "a" * 5_000,
        "\u202e\u0661",
        "\ud83d",
        "9" * 40,
        str(2**63),
        str(2**64),
        "-2",
        "1e9",
        "nan",
        "1.5",
    ),
    *("file:///etc/passwd", "http://127.0.0.1:1/", "s3://bucket/x", "zip://*::http://127.0.0.1:1/"),
    *("orders.green", "orders.standby", "thief", "", " ", ".", ".."),
)
QUERIES: Final = {
    "series": ("seconds", "end", "part", "lane"),
    "timeline": ("most", "since", "lane"),
}
BODIES: Final[tuple[Any, ...]] = (
    b"",
    b"{",
    b"[" * 50_000,
    b'{"reason": ' * 20_000,
    b'{"reason": "x", "reason": "y", "confirm": []}',
    b'{"reason": "' + b"a" * 600 + b'"}',
    b'{"reason": "x", "number": 99999999999999999999}',
    b'{"reason": "x", "number": NaN}',
    b'{"reason": "\\ud800", "confirm": "orders"}',
    b'{"reason": "x\\u0000<script>", "confirm": "orders", "number": -1}',
    b"\xff\xfe",
    b"a" * 3_000_000,
)
HEADERS: Final[tuple[dict[str, str], ...]] = (
    {"Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"X-Streaming-Act": "0"},
    {"Content-Type": "text/plain"},
    {"If-None-Match": "*" * 4_000},
    {"Accept-Encoding": "x" * 500, "Range": "bytes=0-99999999999"},
    {"Host": "evil.example"},
    {"X-Forwarded-Host": "evil.example", "X-Forwarded-Prefix": "//evil.example"},
)
METHODS: Final = ("HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "POST", "GET")
USERS: Final = ("nobody", "bob", "ann")


def addresses(path: str, chance: random.Random, places: Mapping[str, str]) -> Iterator[str]:
    """Yield a route's address with one of its parts, or all of them, hostile."""
    parts = re.findall(r"{(\w+)(?::path)?}", path)
    plain = re.sub(r":path", "", path)
    for part in parts:
        for value in chance.sample(HOSTILE, 7):
            yield plain.format(**{**places, part: _quoted(value)})
    if parts:
        for _ in range(3):
            yield plain.format(**{one: _quoted(chance.choice(HOSTILE)) for one in parts})
    good = plain.format(**places)
    for name in QUERIES.get(path.rpartition("/")[2], ()):
        for value in chance.sample(HOSTILE, 6):
            yield f"{good}?{name}={_quoted(value)}"
    yield good + "/"
    yield good + "?" + "&".join(f"a{n}=b" for n in range(2_000))


def _quoted(value: str) -> str:
    return quote(value.encode("utf-8", "surrogatepass"), safe="%" if "%2" in value else "")


def requests(
    routes: list[tuple[str, str]], chance: random.Random, places: Mapping[str, str]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, address, and what else a request has."""
    act = {"X-Streaming-Act": "1"}
    for method, path in routes:
        for address in addresses(path, chance, places):
            yield (
                method,
                address,
                {"headers": act, **({"json": {"reason": "x"}} if method == "POST" else {})},
            )
        good = re.sub(r":path", "", path).format(**places)
        for headers in HEADERS:
            yield method, good, {"headers": {**act, **headers}}
        yield chance.choice(METHODS), good, {"headers": act}
        if method == "POST":
            for body in BODIES:
                yield (
                    method,
                    good,
                    {"headers": act | {"Content-Type": "application/json"}, "content": body},
                )


def problem(user: str, method: str, reply: Any) -> str:
    """Return what is wrong with an answer; empty when nothing is."""
    if reply.status_code >= 500 and reply.status_code != 503:
        return f"it was answered {reply.status_code}: {reply.text[:200]}"
    if user == "nobody" and reply.status_code < 300 and method != "OPTIONS":
        return f"it was answered {reply.status_code} without a session"
    text = reply.text
    if "Traceback" in text or CANARY.decode() in text or "root:x:0" in text:
        return f"it shows what it should not: {text[:200]}"
    kind = reply.headers.get("content-type", "")
    if kind.startswith("text/html") and "<script>alert(1)</script>" in text:
        return "a value is shown as HTML"
    leads = reply.headers.get("location", "")
    if "evil.example" in leads.partition("?")[0] and "set-cookie" not in reply.headers:
        return f"it leads to {leads[:100]}"
    return "a header was put in" if "a=b" in reply.headers.get("set-cookie", "") else ""


def digest(home: Path) -> str:
    files = sorted(path for path in home.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(f).encode() + f.read_bytes() for f in files)).hexdigest()


def main(words: list[str] | None = None) -> int:
    """Send everything; return 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="tests.system.hostile.requests", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", action="store_true", help="the plugin's app alone")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="hostile-") as text, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(text)
        if asked.page:
            with pytest.MonkeyPatch.context() as patch:
                return _attack_page(folder, asked.seed, patch)
        with settings_of(folder) as patch:
            patch.setenv("AIRFLOW_HOME", str(folder / "airflow"))
            return _attack(folder, asked.seed)


def _attack(folder: Path, seed: int) -> int:
    from airflow.api_fastapi.app import create_app
    from airflow.utils.db import initdb
    from fastapi.testclient import TestClient

    initdb()
    home = folder / "home"
    for dag in ("orders", "thief"):
        add_dag(folder, dag, home=str(home), stream=dag)
        make_stream(folder, str(home), dag)
    app = create_app(apps="core")
    found: Any = streaming_app(app).routes
    routes = sorted({(method, one.path) for one in found for method in one.methods - {"HEAD"}})
    with TestClient(app, follow_redirects=False, raise_server_exceptions=False) as client:
        sessions: dict[str, dict[str, str]] = {"nobody": {}}
        for user in ("bob", "ann"):
            reply = client.post("/auth/token", json={"username": user, "password": PASSWORDS[user]})
            sessions[user] = {"Authorization": f"Bearer {reply.json()['access_token']}"}
        return _ask(client, sessions, routes, home, "/streaming", PLACES, seed)


def _attack_page(folder: Path, seed: int, patch: pytest.MonkeyPatch) -> int:
    from fastapi.testclient import TestClient

    from tests.page.homes import write_home
    from tests.page.server import page_app

    home = folder / "home"
    write_home(home, {"orders_eu": "healthy", "clicks_eu": "gave_up"}, hours=0.3, batch=30)
    app = page_app(home, patch.setattr)
    found: Any = app.routes
    routes = {(method, one.path) for one in found for method in getattr(one, "methods", ())}
    kept = sorted(one for one in routes if one[0] != "HEAD" and not one[1].startswith("/tasks/"))
    sessions = {"nobody": {"user": "nobody"}, "bob": {"user": "viewer"}, "ann": {"user": "admin"}}
    places = {**PLACES, "dag_id": "orders_eu", "stream": "orders_eu", "task_id": "gate"}
    with TestClient(app, follow_redirects=False, raise_server_exceptions=False) as client:
        return _ask(client, sessions, kept, home, "", places, seed)


def _ask(
    client: Any,
    sessions: dict[str, dict[str, str]],
    routes: list[tuple[str, str]],
    home: Path,
    below: str,
    places: Mapping[str, str],
    seed: int,
) -> int:
    outside = Outside(home.parent / "outside")
    logging.disable(logging.CRITICAL)
    begun, counts, before = time.monotonic(), Counts(), digest(home)
    for number, one in enumerate(requests(routes, random.Random(seed), places)):
        method, path, more = one
        user = USERS[number % len(USERS)]
        _send(client, user, sessions[user], method, f"{below}{path}", more, counts)
        after = digest(home)
        if user != "ann" and after != before:
            counts.wrong.append(f"{user} {method} {path[:120]}: the home was changed")
        before = after
    counts.wrong += outside.problems(home)
    return counts.say(f"requests to {len(routes)} routes", begun)


def _send(
    client: Any,
    user: str,
    session: dict[str, str],
    method: str,
    address: str,
    more: Any,
    counts: Counts,
) -> None:
    headers = {**session, **more.get("headers", {})}
    counts.attacks[user] += 1
    try:
        with deadline(30):
            reply = client.request(method, address, **{**more, "headers": headers})
    except Exception as err:  # noqa: BLE001 - what the client itself refuses is no request
        counts.acts[f"not sent: {type(err).__name__}"] += 1
        return
    counts.acts[f"answered {reply.status_code}"] += 1
    if what := problem(user, method, reply):
        counts.wrong.append(f"{user} {method} {address[:140]}: {what}")


if __name__ == "__main__":
    sys.exit(main())

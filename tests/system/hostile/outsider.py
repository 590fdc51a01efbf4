"""
Attacks the package from outside: each try is prepared from the documentation and Airflow's API alone.

    python -m tests.system.hostile.outsider [--only CLASS ...]

Beside the programs of this folder, which damage what is there, it builds what an attacker would: acts of the
page on a real API server with its own sign-in, requests of other sites, forged rows of the fleet, names and dates
in every field of every record, JSON that is deep or wide, links and special files in a home, histories and events
of any size, stores that do not answer, packs that are bombs, and forms of every DAG that changes a stream.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gzip
import io
import json
import logging
import os
import random
import resource
import shutil
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import quote

from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.cli import status
from airflow_streaming.model.arguments.choices import Level as Check
from airflow_streaming.model.storage import LocalStore
from tests.integration.plugin.api import PASSWORDS, RUN, add_dag, settings_of
from tests.integration.plugin.test_routes import make_stream, streaming_app
from tests.page.homes import write_home
from tests.system.hostile.homes import told
from tests.system.hostile.requests import PLACES, digest, problem
from tests.system.hostile.stores import Store, with_pack
from tests.system.hostile.watching import SPECIALS, Counts, Outside, special
from tests.unit.checkpoints.made import NOON

STREAM: Final = "orders"
MOST_MIB: Final = 150
"""Memory that one act may take: a record has 1 MiB, and its parsed form about fifty times that."""
MOST_CPU: Final = 20
PATIENCE: Final = 240
"""Seconds for one try on a busy machine; the CPU time of a command is held against ``MOST_CPU``."""
TEXTS: Final = (
    "\x1b]0;owned\x07\x1b[2J",
    "\u202egnp.exe",
    "<img src=x onerror=alert(1)>",
    "a\x00b",
    "\r\nSet-Cookie: a=b",
    "{{ var.value.get('x') }}",
    "$(touch /tmp/owned)",
    "../../../../etc/passwd",
    "\ud800",
    "x" * 100_000,
)
NUMBERS: Final = (-1, 0, 2**31, 2**63 - 1, 2**63, 10**400, 1e308, True, "7", None)
DATES: Final = (
    "9999-12-31T23:59:59+00:00",
    "0001-01-01T00:00:00+00:00",
    "2026-01-01T00:00:00",
    "2026-01-01T00:00:00+99:99",
    "9999-12-31T23:59:59-23:59",
    "now",
    7,
)
COMMANDS: Final = (
    ("list",),
    ("list", "--json"),
    ("status", STREAM),
    ("top", "--once"),
    ("events", STREAM),
    ("doctor", STREAM, "--cores", "2"),
)
Try = tuple[str, Callable[[], str | None]]
"""The name of a try, and what returns a problem."""


def shown(home: Path, words: tuple[str, ...]) -> str | None:
    """Run a command; return what it shows that steers a terminal, or what it took."""
    before, used = peak_memory(), time.process_time()
    text = told(str(home), words)
    peak, used = peak_memory() - before, time.process_time() - used
    steering = {one for one in text if not one.isprintable() and one not in "\n\t"}
    if steering and "--json" not in words:
        return f"{words[0]} prints {steering}"
    if used > MOST_CPU:
        return f"{words[0]} took {used:.0f} s of CPU"
    return f"{words[0]} took {peak} MiB" if peak > MOST_MIB else None


def peak_memory() -> int:
    """Return the greatest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def commands(home: Path, words: tuple[tuple[str, ...], ...] = COMMANDS) -> str | None:
    return next((found for one in words if (found := shown(home, one))), None)


class Homes:
    """Copies of one home, of which each try changes one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.original = folder, folder / "original"
        write_home(self.original, {STREAM: "gave_up", "clicks": "healthy"}, hours=0.2, batch=30)
        self.outside = Outside(folder / "outside")
        self.count = 0
        self.line = self._line(self.original)
        """What ``list`` says of the stream before an attack."""

    @staticmethod
    def _line(home: Path) -> str:
        text = told(str(home), ("list",))
        [line] = [line for line in text.splitlines() if line.startswith(f"{STREAM} ")]
        return line.split()[1]

    def copy(self) -> Path:
        self.count += 1
        place = self.folder / f"copy{self.count}"
        shutil.copytree(self.original, place, symlinks=True)
        return place

    def attacked(
        self,
        change: Callable[[Path], Any],
        words: tuple[tuple[str, ...], ...] = COMMANDS,
    ) -> str | None:
        home = self.copy()
        try:
            change(home)
            found = commands(home, words)
            return found or next(self.outside.problems(), None)
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def records(self) -> list[str]:
        """Return one file of each kind of record of the stream."""
        kinds: dict[str, str] = {}
        for file in sorted((self.original / STREAM).rglob("*.json")):
            kind = json.loads(file.read_bytes()).get("kind")
            kinds.setdefault(str(kind), str(file.relative_to(self.original)))
        return sorted(kinds.values())


def fields_of(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    steps = record.items() if isinstance(record, dict) else enumerate(record)
    for step, value in steps:
        if isinstance(value, dict | list):
            yield from fields_of(value, (*path, step))
        else:
            yield (*path, step), value


def put(home: Path, file: str, path: tuple[Any, ...], value: Any) -> None:
    record = json.loads((home / file).read_bytes())
    inner = record
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    (home / file).write_text(json.dumps(record))


def of_fields(homes: Homes, sort: type, values: tuple[Any, ...]) -> Iterator[Try]:
    """Put a hostile value into all fields of one sort of one record at once, a value a try."""
    for file in homes.records():
        record = json.loads((homes.original / file).read_bytes())
        paths = [path for path, value in fields_of(record) if _is(value, sort)]
        paths = [path for path in paths if path[-1] not in ("kind", "version", "stream")]
        for value in values if paths else ():

            def change(
                home: Path, file: str = file, value: Any = value, paths: Any = paths
            ) -> None:
                for path in paths:
                    with contextlib.suppress(UnicodeEncodeError):
                        put(home, file, path, value)

            yield f"{file} {value!r:.40}", partial(homes.attacked, change, COMMANDS[2:4])


def _is(value: Any, sort: type) -> bool:
    if sort is datetime:
        return isinstance(value, str) and len(value) > 18 and value[4:5] == "-" and "T" in value
    return isinstance(value, sort) and not (sort is str and _is(value, datetime))


def of_texts(homes: Homes) -> Iterator[Try]:
    return of_fields(homes, str, TEXTS)


def of_numbers(homes: Homes) -> Iterator[Try]:
    return of_fields(homes, int, NUMBERS)


def of_dates(homes: Homes) -> Iterator[Try]:
    return of_fields(homes, datetime, DATES)


def of_json(homes: Homes) -> Iterator[Try]:
    bombs = {
        "deep lists": b"[" * 500_000 + b"]" * 500_000,
        "deep objects": b'{"a":' * 170_000 + b"1" + b"}" * 170_000,
        "wide": b'{"kind":"x",' + b",".join(b'"%d":0' % n for n in range(90_000)) + b"}",
        "one key twice": b'{"kind": "epoch", "kind": "epoch", "stream": "orders"}',
        "a number of 900,000 digits": b'{"number": ' + b"9" * 900_000 + b"}",
        "an exponent": b'{"number": 1e999999999}',
        "escapes": b'{"reason": "' + b"\\u0041" * 170_000 + b'"}',
        "nothing": b"",
        "blanks": b" " * 1_000_000,
        "a byte too many": b" " * (1024 * 1024 + 1),
    }
    for file in homes.records()[::3]:
        for name, data in bombs.items():

            def change(home: Path, file: str = file, data: bytes = data) -> None:
                (home / file).write_bytes(data)

            yield f"{file} {name}", partial(homes.attacked, change, COMMANDS[:3])


def of_links(homes: Homes) -> Iterator[Try]:
    places = (
        STREAM,
        f"{STREAM}/epochs",
        f"{STREAM}/events",
        "_rows",
        "_store",
        *homes.records()[::2],
    )
    for place in places:
        for sort in SPECIALS:

            def change(home: Path, place: str = place, sort: str = sort) -> None:
                shutil.rmtree(home / place, ignore_errors=True)
                (home / place).unlink(missing_ok=True)
                special(home / place, sort, homes.outside.folder)

            yield f"{place} {sort}", partial(homes.attacked, change, COMMANDS[:4])
        for target in ("/etc", "/proc/self", "/dev", "..", "below"):

            def link(home: Path, place: str = place, target: str = target) -> None:
                shutil.rmtree(home / place, ignore_errors=True)
                (home / place).unlink(missing_ok=True)
                away = homes.outside.folder / target if target == "below" else target
                (home / place).symlink_to(away)

            yield f"{place} -> {target}", partial(homes.attacked, link, COMMANDS[:4])


def of_many(homes: Homes) -> Iterator[Try]:
    """Files that are huge, and folders with many."""

    def many(folder: str, count: int, name: Callable[[int], str], home: Path) -> None:
        place = home / STREAM / folder
        place.mkdir(exist_ok=True)
        first = next(iter(sorted(place.glob("*.json"))), None)
        data = first.read_bytes() if first is not None else b"{}"
        for number in range(count):
            (place / name(number)).write_bytes(data)

    for folder in ("events", "alerts", "changes", "epochs", "desired", "circuit", "sizes"):
        for count in (50, 3_000):
            act = partial(many, folder, count, lambda number: f"{number + 7:06d}.json")
            yield f"{count} in {folder}", partial(homes.attacked, act)
    yield "3,000 streams", partial(homes.attacked, _many_streams, COMMANDS[:2])
    for file in sorted((homes.original / STREAM).rglob("*"))[::9]:
        if file.is_file():
            name = str(file.relative_to(homes.original))
            for size in (1 << 21, 1 << 40):

                def huge(home: Path, name: str = name, size: int = size) -> None:
                    with (home / name).open("ab") as opened:
                        opened.truncate(size)

                yield f"{name} of {size} bytes", partial(homes.attacked, huge)


def _many_streams(home: Path) -> None:
    for number in range(3_000):
        (home / f"s{number}" / "deployments").mkdir(parents=True)


def index_of(*rows: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "fleet_index", "version": 1, "rows": [*rows], **more}


def a_row(lane: str = STREAM, **more: Any) -> dict[str, Any]:
    at = datetime.now(UTC).isoformat()
    return {"lane": lane, "seen_at": at, "word": "healthy", "level": "well", "reason": "x", **more}


def of_rows(homes: Homes) -> Iterator[Try]:
    """Forge the index: the streams that are down must not vanish, and no row steers a reader."""
    later = (datetime.now(UTC) + timedelta(days=400)).isoformat()
    values: list[Any] = [*TEXTS[:9], *NUMBERS, *DATES, [], {}, [[]], {"a": {"b": {}}}]
    for field in (*a_row(), "remedy", "since", "epoch", "spark", "launcher", "owner", "backlog"):
        for value in values[:: 3 if field not in ("lane", "reason") else 1]:
            index = index_of(a_row(**{field: value}))
            yield f"row {field} {value!r:.30}", partial(_with_index, homes, index, None)
    whole: dict[str, Any] = {
        "a date to come": index_of(a_row(seen_at=later)),
        "no rows": index_of(rows=None),
        "another stream": index_of(*(a_row(f"s{n}") for n in range(2_000))),
        "twice": index_of(*[a_row()] * 2_000),
        "deep": index_of(a_row(owner=_nested(900))),
        "acts": index_of(a_row(), acts={STREAM: later}),
    }
    for name, index in whole.items():
        gone = name not in ("twice", "acts")
        yield f"index {name}", partial(_with_index, homes, index, homes.line if gone else None)
    yield "index of 300 objects", partial(_with_index, homes, index_of(a_row("x")), homes.line, 300)


def _nested(depth: int) -> Any:
    found: Any = {}
    for _ in range(depth):
        found = {"a": found}
    return found


def _with_index(homes: Homes, index: Any, must_say: str | None, objects: int = 1) -> str | None:
    def change(home: Path) -> None:
        (home / "_rows").mkdir()
        for number in range(objects):
            (home / "_rows" / f"{number}.json").write_text(json.dumps(index))

    def listed(home: Path) -> None:
        change(home)
        text = told(str(home), ("list",))
        rows = [line for line in text.splitlines() if line.startswith(f"{STREAM} ")]
        if len(rows) != 1 or (must_say is not None and must_say not in rows[0]):
            raise AssertionError(f"list shows {rows}")

    return homes.attacked(listed)


def of_names(homes: Homes) -> Iterator[Try]:
    """Names of streams, homes and files on the command line."""
    names = (
        *TEXTS[:8],
        "..",
        ".",
        "",
        "-",
        "--help=x",
        "a/b",
        "~root",
        "orders.green.standby",
        "%00",
    )
    for name in names:
        for words in (("status",), ("events",), ("stop", "--reason", "x"), ("log",), ("live",)):

            def act(words: tuple[str, ...] = words, name: str = name) -> str | None:
                before = digest(homes.original)
                found = shown(homes.original, (*words, "--", name))
                return found or ("" if digest(homes.original) == before else "the home was changed")

            yield f"{words[0]} {name!r:.30}", act
    for uri in (
        *(
            "http://127.0.0.1:1/",
            "ftp://x",
            "zip://*::http://127.0.0.1:1/",
            "file:///etc",
            "s3://",
            "//x",
        ),
        *("relative", "", "\x00", "file://host/x", "memory://x", "simplecache::file:///etc", "~/x"),
    ):
        yield f"home {uri!r}", partial(shown, Path(uri), ("list",))


def of_slow_stores(homes: Homes) -> Iterator[Try]:
    """A store that takes its time: the command ends by itself or is ended, nothing is written."""
    for method in ("read", "names"):
        for words in COMMANDS[:4]:

            def act(method: str = method, words: tuple[str, ...] = words) -> str | None:
                plain = getattr(LocalStore, method)

                def slow(*given: Any) -> Any:
                    time.sleep(0.002)
                    return plain(*given)

                setattr(LocalStore, method, slow)
                try:
                    return shown(homes.original, words)
                finally:
                    setattr(LocalStore, method, plain)

            yield f"{method} {words[0]}", act


def packs(store: Store) -> Iterator[tuple[str, Any]]:
    """Yield archives that are bombs, or no archives of ours."""

    def member(name: str, **more: Any) -> Any:
        def make(new: tarfile.TarFile, members: list[tarfile.TarInfo]) -> None:
            for one in members:
                info = tarfile.TarInfo(name or one.name)
                data = more.pop("data", b"hello")
                info.size = len(data)
                info.pax_headers = more.get("pax", {})
                new.addfile(info, io.BytesIO(data))

        return make

    yield "a pax header of 60 MB", member("", pax={"comment": "x" * (60 << 20)})
    yield "a pax size", member("", pax={"size": str(1 << 50)})
    yield "a pax path", member("", pax={"path": "/etc/cron.d/x"})
    yield "a pax link", member("", pax={"linkpath": "/etc/passwd"})
    yield (
        "a sparse member",
        member("", pax={"GNU.sparse.realsize": str(1 << 50), "GNU.sparse.major": "1"}),
    )
    yield (
        "a sparse map",
        member("", pax={"GNU.sparse.map": "0,1," * 100_000, "GNU.sparse.size": "9"}),
    )
    yield "a name of a megabyte", member("a" * (1 << 20))
    yield "a name with a NUL", member("", pax={"path": "metadata\x00/../../x"})
    yield "a zip in a tar", member("", data=_zipped())
    yield "a gzip bomb in a tar", member("", data=gzip.compress(bytes(200 << 20)))


def _zipped() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("../../outside/x", bytes(50 << 20))
    return held.getvalue()


def of_packs(folder: Path) -> Iterator[Try]:
    store = Store(folder)
    raw = {
        "zeros": gzip.compress(bytes(300 << 20)),
        "a hundred members of gzip": gzip.compress(bytes(4 << 20)) * 100,
        "zip": _zipped(),
        "zstandard": b"\x28\xb5\x2f\xfd" + bytes(1_000),
        "plain tar": bytes(10_240),
        "no gzip": b"\x1f\x8b\x08" + bytes(100),
        "empty": b"",
        "cut": gzip.compress(bytes(1 << 20))[:200],
    }

    def attacked(craft: Callable[[Path], None]) -> str | None:
        root, target = folder / "crafted", folder / "target"
        shutil.copytree(store.root, root)
        try:
            craft(root)
            opened = open_backup_store(str(root))
            counts, before = Counts(), peak_memory()
            for level in (Check.QUICK, Check.FULL):
                act = partial(verify, opened, store.last, level, by="eve", now=NOON, stream=STREAM)
                counts.try_act("", f"verify {level}", act, seconds=PATIENCE)
            to = Place(to=str(target / "new"))
            counts.try_act("", "restore", lambda: restore(opened, store.last, to), seconds=PATIENCE)
            peak = peak_memory() - before
            if peak > MOST_MIB:
                counts.wrong.append(f"took {peak} MiB")
            return next(iter(counts.wrong), None)
        finally:
            shutil.rmtree(root)
            shutil.rmtree(target, ignore_errors=True)

    for name, make in packs(store):
        yield name, partial(attacked, with_pack(store, make))
    for kind in ("*.tar.gz", "*.index.gz"):
        for name, data in raw.items():

            def craft(root: Path, kind: str = kind, data: bytes = data) -> None:
                for file in (root / STREAM / "packs").glob(kind):
                    file.write_bytes(data)

            yield f"{name} as {kind}", partial(attacked, craft)


def of_forms() -> Iterator[Try]:
    """Give every parameter of every DAG of a stream a value that is code, a path or a template."""
    from airflow.sdk.exceptions import AirflowFailException, ParamValidationError

    from airflow_streaming.orchestration.stream_dags import stream_dags
    from airflow_streaming.spec import StreamSpec

    spec = StreamSpec(name=STREAM, application="a.py", home="/srv/none", runtime="spark-3.5")
    evil: tuple[Any, ...] = (
        *("http://evil.example/evil.py", "/tmp/evil.py", "evil:evil:1", "{{ conn.home.password }}"),
        {"spark.plugins": "evil.Plugin"},
        {"spark.executor.memory": "1g\nspark.plugins=evil"},
        {"spark.sql.shuffle.partitions": "{{ 7 * 7 }}"},
        {"spark.executor.cores": "$(id)"},
        ["--conf", "spark.plugins=evil"],
        *(
            "-Dx=y",
            "s3://evil/x",
            "a" * 5_000,
            10**30,
            -1,
            "\x00",
            "__import__('os')",
            {"a": _nested(200)},
        ),
    )
    for dag in stream_dags(spec).values():
        for task in dag.tasks:
            names, params = [*dag.params], dag.params
            for name in names:
                for value in evil[:: 1 if name in ("conf", "application", "accept") else 4]:

                    def act(
                        task: Any = task,
                        name: str = name,
                        value: Any = value,
                        names: Any = names,
                        params: Any = params,
                    ) -> str | None:
                        try:
                            # As Airflow does before it makes a run.
                            params.get_param(name).resolve(value)
                        except ParamValidationError:
                            return None
                        context: Any = {
                            "params": {**dict.fromkeys(names), name: value},
                            "ti": SimpleNamespace(xcom_pull=lambda *_, **__: None),
                            "var": SimpleNamespace(value={}),
                        }
                        one = copy.copy(task)
                        try:
                            one.render_template_fields(context)
                        except AirflowFailException:
                            return None
                        return _brought(one, value)

                    yield f"{dag.dag_id}:{task.task_id} {name} {value!r:.30}", act


def _brought(task: Any, value: Any) -> str | None:
    """Return where a value that is code has come to stand in a task."""
    for field in ("application", "conf", "jars", "packages", "py_files", "files", "env"):
        found = getattr(task, field, None)
        if found and "evil" in json.dumps(found, default=str):
            return f"{field} is {found!r:.100}"
    stream = getattr(task, "stream", None)
    return (
        f"the stream is {stream!r:.100}" if stream is not None and "evil" in repr(stream) else None
    )


class Server:
    """A real API server's app, with a viewer and an administrator who signed in."""

    def __init__(self, folder: Path, client: Any, routes: list[tuple[str, str]]) -> None:
        self.folder, self.client, self.routes = folder, client, routes
        self.home = folder / "home"
        self.tokens: dict[str, dict[str, str]] = {"nobody": {}}
        for user in ("bob", "ann"):
            reply = client.post("/auth/token", json={"username": user, "password": PASSWORDS[user]})
            self.tokens[user] = {"Authorization": f"Bearer {reply.json()['access_token']}"}

    def asked(
        self, user: str, method: str, path: str, *, may_act: bool = False, **more: Any
    ) -> str | None:
        headers = {**self.tokens[user], **more.pop("headers", {})}
        before = digest(self.home)
        begun = time.monotonic()
        try:
            reply = self.client.request(method, f"/streaming{path}", headers=headers, **more)
        except Exception as err:  # noqa: BLE001 - what the client itself refuses is no request
            return None if "Error" in type(err).__name__ else f"{err!r:.100}"
        if found := problem(user, method, reply):
            return found
        if not may_act and digest(self.home) != before:
            return f"{reply.status_code}, and the home was changed"
        took = time.monotonic() - begun
        return f"it took {took:.0f} s" if took > 30 else None


ACT: Final = {"X-Streaming-Act": "1"}
WALKS: Final = (
    *(
        "..%2f..%2fetc%2fpasswd",
        "%252e%252e%252fetc%252fpasswd",
        "..%5c..%5cetc",
        "%c0%ae%c0%ae%2fetc",
    ),
    *(
        "..;/..;/etc",
        "%2e%2e",
        "....%2f%2fetc",
        "%00",
        "a%00.js",
        "%2fetc%2fpasswd",
        "~root",
        "C:%5cx",
    ),
    *(
        quote("\u2024\u2024/\uff0fetc"),
        quote("\uff0e\uff0e\u2215x"),
        "file:%2f%2f%2fetc%2fpasswd",
        "a" * 9_000,
    ),
    *(
        "orders%2f..%2fthief",
        "orders.green",
        "orders.standby",
        "thief",
        "-1",
        "9" * 60,
        "%0d%0ax",
        "*",
    ),
)


def of_walks(server: Server) -> Iterator[Try]:
    for method, path in server.routes:
        for part in [one for one in PLACES if f"{{{one}" in path]:
            for number, value in enumerate(WALKS):
                filled = path.replace(":path", "")
                for name, good in PLACES.items():
                    filled = filled.replace(f"{{{name}}}", value if name == part else good)
                user = ("nobody", "bob")[number % 2]
                more: dict[str, Any] = (
                    {"headers": ACT, "json": {"reason": "x"}} if method == "POST" else {}
                )
                yield (
                    f"{user} {method} {filled[:90]}",
                    partial(server.asked, user, method, filled, **more),
                )


ORIGINS: Final = (
    *(
        "null",
        "https://evil.example",
        "http://testserver.evil.example",
        "http://testserver@evil.example",
    ),
    *(
        "http://evil.example/testserver",
        "https://testserver:444",
        "http://TESTSERVER.",
        "file://",
        "*",
    ),
    *(
        "http://testserver, http://evil.example",
        "chrome-extension://x",
        "http://127.0.0.1",
        "data:",
    ),
)


def of_other_sites(server: Server) -> Iterator[Try]:
    """Requests that a page of another site could make a signed-in administrator's browser send."""
    acts = [path for method, path in server.routes if method == "POST"]
    for path in acts:
        filled = path
        for name, good in PLACES.items():
            filled = filled.replace(f"{{{name}}}", good)
        ask = partial(server.asked, "ann", json={"reason": "x", "confirm": STREAM})
        for origin in ORIGINS:
            yield (
                f"{origin} {filled}",
                partial(ask, "POST", filled, headers={**ACT, "Origin": origin}),
            )
        for site in ("cross-site", "same-site", "CROSS-SITE", "x"):
            sent = {**ACT, "Sec-Fetch-Site": site}
            yield f"{site} {filled}", partial(ask, "POST", filled, headers=sent)
        for value in ("0", "", "true", "1, 1", "2"):
            yield (
                f"act {value!r} {filled}",
                partial(ask, "POST", filled, headers={"X-Streaming-Act": value}),
            )
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            sent = {"Content-Type": kind}
            yield f"{kind} {filled}", partial(ask, "POST", filled, headers=sent)
        for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE"):
            sent = {**ACT, "X-HTTP-Method-Override": "POST"}
            yield f"{method} {filled}", partial(ask, method, filled, headers=sent)
            yield (
                f"{method} {filled}?_method",
                partial(ask, method, f"{filled}?_method=POST", headers=sent),
            )


def of_acts(server: Server) -> Iterator[Try]:
    """Acts of a viewer, and acts of an administrator whose body is wrong in one part."""
    names = (
        "start",
        "stop",
        "declare-dead",
        "keep",
        "rollback",
        "abort",
        "promote",
        "retire",
        "remove",
    )
    bodies: tuple[Any, ...] = (
        {},
        {"reason": ""},
        {"reason": None, "confirm": STREAM},
        {"reason": ["x"], "confirm": STREAM},
        {"reason": "x", "confirm": "thief"},
        {"reason": "x", "confirm": f"{STREAM} "},
        {"reason": "x", "confirm": {"$ne": ""}},
        {"reason": "x", "number": "1; drop"},
        [{"reason": "x"}],
        "reason",
        {"reason": "x" * 20_000},
        {"reason": "x", "by": "root", "user": "ann", "stream": "thief"},
    )
    for name in names:
        path = f"/api/streams/orders/orders/acts/{name}"
        good = {"reason": "x", "confirm": STREAM}
        yield f"bob {name}", partial(server.asked, "bob", "POST", path, headers=ACT, json=good)
        yield (
            f"nobody {name}",
            partial(server.asked, "nobody", "POST", path, headers=ACT, json=good),
        )
        for body in bodies[:-1] if name != "start" else bodies[:4]:
            # An act of an administrator may act; its answer is held against an error of the server.
            yield (
                f"ann {name} {body!r:.40}",
                partial(server.asked, "ann", "POST", path, may_act=True, headers=ACT, json=body),
            )


def of_bodies(server: Server) -> Iterator[Try]:
    path = "/api/streams/orders/orders/acts/stop"
    bodies = {
        "deep": b'{"reason":' * 100_000 + b"1" + b"}" * 100_000,
        "deep lists": b"[" * 1_000_000,
        "wide": b"{" + b",".join(b'"%d":0' % n for n in range(200_000)) + b"}",
        "digits": b'{"reason": "x", "number": ' + b"9" * 500_000 + b"}",
        "exponent": b'{"reason": "x", "number": 1e400}',
        "5 MB": b'{"reason": "' + b"x" * 5_000_000 + b'"}',
        "surrogate": b'{"reason": "\\udc00"}',
        "latin": '{"reason": "\xe9"}'.encode("latin-1"),
        "utf-16": '{"reason": "x"}'.encode("utf-16"),
        "gzip": gzip.compress(b" " * (50 << 20)),
    }
    for name, data in bodies.items():
        for sent in ({"Content-Type": "application/json"}, {"Content-Encoding": "gzip"}, {}):
            headers = {**ACT, **sent}
            yield (
                f"{name} {sent}",
                partial(server.asked, "bob", "POST", path, headers=headers, content=data),
            )


def of_queries(server: Server) -> Iterator[Try]:
    values = (
        "-1",
        "0",
        "nan",
        "inf",
        "1e400",
        "9" * 400,
        "",
        "\x00",
        "(a+)+$",
        "%" * 3_000,
        "<b>",
        "../x",
        "*",
    )
    asked = {
        "/api/fleet": ("search", "page", "sort", "level", "order", "q", "column", "state"),
        "/api/streams/orders/orders/series": ("seconds", "end", "part", "lane", "query"),
        "/api/streams/orders/orders/timeline": ("most", "since", "lane"),
    }
    for path, names in asked.items():
        for name in names:
            for value in values:
                yield (
                    f"{path} {name}={value!r:.20}",
                    partial(server.asked, "bob", "GET", path, params={name: value}),
                )


def of_log_links(server: Server) -> Iterator[Try]:
    """A launch record and a status whose addresses lead elsewhere."""
    hosts = (
        *(
            "javascript:alert(1)",
            "//evil.example",
            "http://evil.example",
            "http://localhost@evil.example",
        ),
        *(
            "http://127.0.0.1:22",
            "file:///etc/passwd",
            "http://[::1]:1",
            "data:text/html,x",
            "http://evil\\x",
        ),
        *(
            "\thttp://evil.example",
            "http://evil.example#localhost",
            "https:evil.example",
            "http:///evil.example",
        ),
    )
    logs = (
        "/etc/passwd",
        "../../etc/passwd",
        f"{server.folder}/passwords.json",
        "http://evil.example/log",
        "\x00",
    )
    for field, values in (("ui_url", hosts), ("log", (*logs, *hosts[:4]))):
        for value in values:
            for page in ("spark-ui", "driver-log"):

                def act(field: str = field, value: str = value, page: str = page) -> str | None:
                    file = server.home / STREAM / "epochs" / "000001" / "launch.json"
                    before = file.read_bytes()
                    record = json.loads(before)
                    told = {**record, field: value, "driver": value}
                    file.write_text(json.dumps(told))
                    try:
                        path = f"/tasks/orders/{RUN}/keep/-1/{page}"
                        return server.asked("bob", "GET", path)
                    finally:
                        file.write_bytes(before)

                yield f"{field} {value!r:.40} {page}", act


OF_HOMES: Final = {
    "texts in records": of_texts,
    "numbers in records": of_numbers,
    "dates in records": of_dates,
    "JSON bombs in records": of_json,
    "links and special files": of_links,
    "huge and many files": of_many,
    "forged rows of the fleet": of_rows,
    "names on the command line": of_names,
    "slow stores": of_slow_stores,
}
OF_SERVERS: Final = {
    "path traversal": of_walks,
    "other sites": of_other_sites,
    "acts": of_acts,
    "JSON bombs in requests": of_bodies,
    "queries": of_queries,
    "log links": of_log_links,
}


def run(name: str, tries: Iterator[Try], counts: Counts, most: int, chance: random.Random) -> None:
    """Make the tries of a class, at most so many of them."""
    every = list(tries)
    begun, before = time.monotonic(), len(counts.wrong)
    for what, act in chance.sample(every, most) if len(every) > most else every:
        counts.attacks[name] += 1
        found = counts.try_act(f"{name}: {what}", name, act, seconds=PATIENCE)
        if found:
            counts.wrong.append(f"{name}: {what}: {found}")
    for line in counts.wrong[before:]:
        sys.stdout.write(f"WRONG {line}\n")
    sys.stdout.write(
        f"{name}: {counts.attacks[name]} of {len(every)}, {time.monotonic() - begun:.0f} s\n"
    )
    sys.stdout.flush()


def main(words: list[str] | None = None) -> int:
    """Attack; return 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="tests.system.hostile.outsider", description=__doc__)
    parser.add_argument("--only", nargs="*", default=None, metavar="CLASS")
    parser.add_argument("--most", type=int, default=60, help="tries of each class")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(words)
    logging.disable(logging.CRITICAL)
    status.WATCH_SECONDS = 0.0
    begun, counts = time.monotonic(), Counts()

    def wanted(name: str) -> bool:
        return asked.only is None or name in asked.only

    def attack(name: str, tries: Callable[[], Iterator[Try]]) -> None:
        if wanted(name):
            run(name, tries(), counts, asked.most, random.Random(asked.seed))

    with tempfile.TemporaryDirectory(prefix="outsider-") as text, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(text)
        # Before Airflow is imported, which would take the user's own database.
        os.environ["AIRFLOW_HOME"] = str(folder / "server" / "airflow")
        attack("forms of DAGs", of_forms)
        (folder / "packs").mkdir()
        attack("packs", lambda: of_packs(folder / "packs"))
        if any(map(wanted, OF_HOMES)):
            (folder / "homes").mkdir()
            homes = Homes(folder / "homes")
            for name, of in OF_HOMES.items():
                attack(name, partial(of, homes))
        if any(map(wanted, OF_SERVERS)):
            _attack_server(folder / "server", attack)
    return counts.say("attacks from outside", begun)


def _attack_server(
    folder: Path, attack: Callable[[str, Callable[[], Iterator[Try]]], None]
) -> None:
    folder.mkdir()
    with settings_of(folder) as patch:
        patch.setenv("AIRFLOW_HOME", str(folder / "airflow"))
        from airflow.api_fastapi.app import create_app
        from airflow.utils.db import initdb
        from fastapi.testclient import TestClient

        with contextlib.redirect_stdout(io.StringIO()):
            initdb()
            for dag in (STREAM, "thief"):
                add_dag(folder, dag, home=str(folder / "home"), stream=dag)
                make_stream(folder, str(folder / "home"), dag)
            app = create_app(apps="core")
        found: Any = streaming_app(app).routes
        routes = sorted({(method, one.path) for one in found for method in one.methods - {"HEAD"}})
        with TestClient(app, follow_redirects=False, raise_server_exceptions=False) as client:
            server = Server(folder, client, routes)
            for name, of in OF_SERVERS.items():
                attack(name, partial(of, server))


if __name__ == "__main__":
    os.environ.setdefault("AIRFLOW_STREAMING_JOB_ISOLATION", "off")
    sys.exit(main())

from __future__ import annotations

import getpass
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.testing import StreamTester, compare_rows, undo_last_commit
from demo.feeds.feed import parsed
from demo.feeds.shapes import FEEDS
from tests.conftest import RUNS_NIGHTLY
from tests.integration.home.servers import free_ports
from tests.integration.pipelines.conftest import Feeding

FILES = 6
KILLS = 20 if RUNS_NIGHTLY else 1


def newest(numbers: range) -> list[dict[str, Any]]:
    accounts: dict[str, dict[str, Any]] = {}
    for row in (row for n in numbers for row in parsed(FEEDS["accounts"].lines(n))):
        kept = accounts.setdefault(row["account"], {"version": -1, "changes": 0})
        if row["version"] > kept["version"]:
            names = ("account", "version", "cents", "closed")
            kept.update({name: row[name] for name in names})
        kept["changes"] += 1
    return [*accounts.values()]


def newest_commit(checkpoint: Path) -> int:
    commits = (checkpoint / "balances" / "commits").glob("*")
    return max((int(one.name) for one in commits if one.name.isdigit()), default=-1)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory, stream_python: Path) -> Iterator[str]:
    """A server of this host, for this module only."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        pytest.skip("There is no PostgreSQL in /usr/lib/postgresql; apt-get install postgresql.")
    if subprocess.run(
        [stream_python, "-c", "import psycopg"], capture_output=True, check=False
    ).returncode:
        pytest.skip("The runtime spark-4.3 has no psycopg; run 'make setup'.")
    folder, port = Path(f"/tmp/pipelines-postgres-{os.getpid()}"), free_ports(1)[0]
    folder.mkdir()
    # PostgreSQL refuses to run as root.
    as_user: tuple[str, ...] = ()
    if getpass.getuser() == "root":
        shutil.chown(folder, "postgres")
        as_user = ("runuser", "-u", "postgres", "--")

    def run(program: str, *arguments: str) -> None:
        log = folder.with_suffix(".log")
        with log.open("ab") as output:
            subprocess.run(
                [*as_user, str(found[-1] / program), "-D", f"{folder}/data", *arguments],
                check=True,
                stdout=output,
                stderr=output,
                cwd="/",
            )

    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    try:
        run("initdb", "-A", "trust", "-U", "stream", "--no-sync")
        run("pg_ctl", "-w", "-o", f"{options} -c fsync=off", "start")
        yield f"postgresql://stream@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".log").unlink(missing_ok=True)


def test_accounts_in_sqlite_after_a_replay_of_every_kind_of_batch(
    stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    script, checkpoint = dags / "upsert" / "jobs" / "account_balances.py", tmp_path / "checkpoint"
    database = tmp_path / "bank.db"
    for number in range(FILES):
        feed("accounts", tmp_path / "in", [number])
        given = ("--input", tmp_path / "in", "--database", database)
        stream_tester.run(script, *given, checkpoint=checkpoint)
        assert undo_last_commit(checkpoint, "balances") == number
    stream_tester.run(script, *given, checkpoint=checkpoint)

    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        found = [dict(row) for row in connection.execute("SELECT * FROM accounts")]
        batches = [row[0] for row in connection.execute("SELECT batch FROM batches ORDER BY 1")]
    for row in found:
        row["closed"] = bool(row["closed"])
    assert not compare_rows(found, newest(range(FILES)))
    assert batches == [*range(FILES)]


def test_accounts_in_postgresql_when_spark_is_killed(
    stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path, postgres: str
) -> None:
    script, checkpoint = dags / "upsert" / "jobs" / "account_balances.py", tmp_path / "checkpoint"
    given = ("--input", tmp_path / "in", "--database", postgres, "--trigger-seconds", "0")
    reader = Path(__file__).with_name("reading.py")
    for kill in range(KILLS):
        feed("accounts", tmp_path / "in", range(FILES * kill, FILES * kill + FILES))
        # Counted from what is committed: a kill before a batch is planned, when its file is already in
        # the source's log, makes Spark read that file together with the next.
        committed = newest_commit(checkpoint)
        live = stream_tester.start(script, *given, checkpoint=checkpoint)
        # The next batches run while this is waited for: the kill hits one of them.
        live.await_batch("balances", committed + 1 + kill % (FILES - 1))
        stream_tester.kill()
    stream_tester.run(script, *given, checkpoint=checkpoint)

    expected = newest(range(FILES * KILLS))
    assert not compare_rows(stream_tester.call(reader, "table", postgres, "accounts"), expected)
    batches = [row["batch"] for row in stream_tester.call(reader, "table", postgres, "batches")]
    assert sorted(batches) == [*range(max(batches) + 1)]

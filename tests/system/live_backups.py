"""
Backups of running queries at random instants, against plain copies in the same loop.

Run as ``python -m tests.system.live_backups --runtime spark-4.3 --shapes agg join``. Every query is
a file source that reads one file a batch, keeps eight batches and makes snapshots every few. While
it runs, its checkpoint is backed up, copied with ``shutil.copytree`` and copied slowly, over and
over. Afterwards every copy is put into a new folder and the query goes on from there to the end.
What it wrote up to the copied batch and what it wrote afterwards must be what it wrote without a
break. A copy is

- exact: the same output,
- refused: the backup said that it could not be taken; nothing was made,
- failed: the query does not start from it, or dies,
- spark: the query dies, as it does on its own checkpoint when it is killed at that moment: Spark 3.5
  cannot begin a join of streams with a planned batch that has no data,
- wrong: the query ends well with another output. Nobody would notice.
"""

# ruff: noqa: T201 - a program that prints; its chances need not be secret

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.exceptions import CheckpointBusy, CheckpointRefused
from tests.conftest import find_runtimes
from tests.system.live_copies import A_FILE, PinnedBackup, PlainCopy, Query, Way, newest_commit
from tests.system.live_session import SHAPES, STORES, Session, order_of, queries, write_input

SLOW: Final = "slow copy"
KEYED: Final = {"agg": 2, "state": 1}
"""Shapes whose output is updates of totals, with the number of columns that are the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """
    One copy that was tried.

    :param name: The copy, ``None`` when there is none.
    :param why: What was raised.
    :param verdict: How it ended; empty until then.
    """

    way: str
    query: Query
    name: str | None
    why: str = ""
    verdict: str = ""


def copy_while_running(
    running: list[Query], ways: dict[str, Way], session: Session, chance: random.Random
) -> list[Attempt]:
    """Copy the checkpoints in every way, at random instants, until the queries have ended."""
    tried: list[Future[Attempt]] = []
    with ThreadPoolExecutor(20) as pool:
        ended = pool.submit(session.answer)
        number = 0
        while not ended.done():
            time.sleep(chance.uniform(0.5, 3.0))
            ready = [query for query in running if newest_commit(query.checkpoint) is not None]
            if not ready or ended.done():
                continue
            query = chance.choice(ready)
            number += 1
            for name, way in ways.items():
                if name != SLOW or number % 4 == 0:
                    tried.append(pool.submit(_try, name, way, query, number))
        ended.result()
    return [future.result() for future in tried]


def _try(name: str, way: Way, query: Query, number: int) -> Attempt:
    try:
        return Attempt(way=name, query=query, name=way.copy(query, number))
    except (CheckpointRefused, CheckpointBusy) as err:
        return Attempt(way=name, query=query, name=None, why=str(err), verdict="refused")
    except (OSError, shutil.Error) as err:
        return Attempt(way=name, query=query, name=None, why=str(err)[:200], verdict="failed")


def go_on(attempt: Attempt, way: Way, session: Session, folder: Path) -> Attempt:
    """Put a copy back, let the query go on from it, and compare."""
    if attempt.name is None:
        return attempt
    query = attempt.query
    again = replace(
        query,
        checkpoint=folder / "again" / attempt.way / attempt.name,
        output=folder / "again-outputs" / attempt.way / attempt.name,
    )
    again.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    again.output.mkdir(parents=True)
    try:
        way.put_back(attempt.name, query, again.checkpoint, again.output)
    except Exception as err:  # noqa: BLE001 - counted, whatever it is
        return replace(attempt, verdict="failed", why=f"not put back: {err!r}"[:300])
    copied = newest_commit(again.checkpoint)
    if copied is None:
        return replace(attempt, verdict="failed", why="nothing committed in the copy")
    session.order(do="continue", query=order_of(again, files_a_batch=8))
    answer = session.answer()["continued"]
    if "error" in answer:
        verdict = "spark" if _fails_on_no_data(again, answer["error"]) else "failed"
        return replace(attempt, verdict=verdict, why=answer["error"])
    if query.shape == "files":
        truth, found = _counted(_sink_rows(query.output)), _counted(_sink_rows(again.output))
    else:
        truth = _total(query, _rows(query.output))
        found = _total(query, _rows(query.output, up_to=copied) + _rows(again.output, copied))
    why = "" if truth == found else f"from batch {copied}: {_difference(truth, found)}"
    return replace(attempt, verdict="exact" if truth == found else "wrong", why=why)


def _fails_on_no_data(query: Query, error: str) -> bool:
    if query.shape != "join" or "StateSchemaNotCompatible" not in error:
        return False
    logs = (query.checkpoint / "offsets").glob("*")
    plans = sorted((path for path in logs if path.name.isdigit()), key=lambda path: int(path.name))
    before, last = (path.read_text().splitlines()[2:] for path in plans[-2:])
    return before == last


def _rows(folder: Path, after: int = -1, up_to: int = 1 << 62) -> list[list[str]]:
    found = sorted((int(path.stem), path) for path in folder.glob("*.json"))
    return [
        row
        for batch, path in found
        if after < batch <= up_to
        for row in json.loads(path.read_text())
    ]


def _sink_rows(output: Path) -> list[list[str]]:
    """Return the rows of all files that a file sink's log names."""
    log = output / "_spark_metadata"
    compacted = [int(path.stem) for path in log.glob("*.compact")]
    newest = max(compacted, default=-1)
    found = [log / f"{newest}.compact"] if compacted else []
    found += [path for path in log.glob("*") if path.name.isdigit() and int(path.name) > newest]
    lines = [line for path in found for line in path.read_text().splitlines()[1:]]
    files = [Path(json.loads(line)["path"].removeprefix("file://")) for line in lines]
    rows = [json.loads(row) for file in files for row in file.read_text().splitlines()]
    return [[row["k"], str(row["id"])] for row in rows]


def _total(query: Query, rows: list[list[str]]) -> Counter[tuple[str, ...]]:
    key = KEYED.get(query.shape)
    if key is None:
        return _counted(rows)
    return _counted(list({tuple(row[:key]): row for row in rows}.values()))


def _counted(rows: list[list[Any]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(map(str, row)) for row in rows)


def _difference(truth: Counter[tuple[str, ...]], found: Counter[tuple[str, ...]]) -> str:
    return (
        f"{(truth - found).total()} rows lost {list(truth - found)[:2]}, "
        f"{(found - truth).total()} too many {list(found - truth)[:2]}"
    )


def run(runtime: Path, wanted: argparse.Namespace) -> list[Attempt]:
    """Run one session: the queries with copies being made, then all copies."""
    with (
        tempfile.TemporaryDirectory(prefix="live-backups-") as made,
        Session(runtime, Path(made), wanted.packages) as session,
    ):
        folder = Path(made)
        write_input(folder / "input")
        ways: dict[str, Way] = {
            "pinned": PinnedBackup(open_backup_store(str(folder / "store"), create=True)),
            "copytree": PlainCopy(folder / "copies", 0.0),
            SLOW: PlainCopy(folder / "copies", A_FILE),
        }
        running = list(queries(wanted.shapes, wanted.stores, session.version, folder))
        session.order(do="start", queries=[order_of(query, files_a_batch=1) for query in running])
        session.answer()
        chance, begun = random.Random(wanted.seed), time.monotonic()
        tried = copy_while_running(running, ways, session, chance)
        seconds = time.monotonic() - begun
        print(
            f"# {session.version}: {len(tried)} copies while {len(running)} queries ran, "
            f"{seconds:.0f} s",
            flush=True,
        )
        judged = []
        for attempt in _chosen(tried, wanted.most, chance):
            judged.append(go_on(attempt, ways[attempt.way], session, folder))
            print(_line(session.version, judged[-1]), flush=True)
            if wanted.keep and judged[-1].way == "pinned" and judged[-1].verdict != "exact":
                shutil.copytree(folder, Path(wanted.keep) / str(judged[-1].name))
        return judged


def _line(version: str, judged: Attempt) -> str:
    told = {"spark": version, "way": judged.way, "query": judged.query.name}
    return json.dumps({**told, "verdict": judged.verdict, "why": judged.why})


def _chosen(tried: list[Attempt], most: int, chance: random.Random) -> list[Attempt]:
    chosen = []
    for way in ("pinned", "copytree", SLOW):
        of_way = [attempt for attempt in tried if attempt.way == way]
        refused = [attempt for attempt in of_way if attempt.name is None]
        made = [attempt for attempt in of_way if attempt.name is not None]
        share = most if way == "pinned" else most // 2
        chosen += refused + chance.sample(made, min(share, len(made)))
    return chosen


def main() -> int:
    """Run it and print the counts; exit 1 when a backup of ours was wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--runtime", default="spark-4.3")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--stores", nargs="+", default=list(STORES), choices=STORES)
    parser.add_argument("--most", type=int, default=12, help="backups to go on from")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100_000)
    parser.add_argument("--packages", default="", help="folder with pandas for the runtime")
    parser.add_argument("--keep", default="", help="folder for what went wrong with a backup")
    wanted = parser.parse_args()
    runtime = find_runtimes()[wanted.runtime]
    print(f"# seed {wanted.seed}", flush=True)
    judged = run(runtime, wanted)
    counts = Counter((attempt.way, attempt.verdict) for attempt in judged)
    for (way, verdict), count in sorted(counts.items()):
        print(f"{way:>10} {verdict:>8} {count:4}")
    return int(counts["pinned", "wrong"] + counts["pinned", "failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())

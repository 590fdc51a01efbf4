"""
How fast are ten thousand small state files backed up, and what does it cost the store?

One tree, made new for every tool, goes through a first backup, a second one after one file in a
hundred was written anew, a verification of every byte, and a restore. The tools take turns on a
local folder, and with ``--s3`` on a SeaweedFS that is started for it. Objects and bytes are counted
in the store itself, before and after, and requests by the S3 server. With ``--rounds`` the tools take
turns several times and the median counts. Beside the time by the clock stands the time of all cores that
the tool itself needed, which other programs at work disturb less.

    python -m benchmarks.backup --files 10000 --s3
    python -m benchmarks.backup --files 50000 --only airflow-streaming

Goals, as shares of restic's time in the same run: a first backup 0.5, one per cent changed 0.3, a
restore 0.5, a verification 0.3; one per cent changed of 50,000 files moves at most 1.1 times the changed
bytes in at most 20 objects.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.backup_tools import Ours, Place, Tool, keep_bytecode, tools
from benchmarks.checkpoint_tree import change, make_checkpoint
from benchmarks.figures import machine, table
from tests.integration.home.servers import ACCESS_KEY, SECRET_KEY, free_ports, seaweedfs

VERSIONS = 49
"""State versions that each partition keeps."""


Stored = Mapping[str, tuple[int, str]]
"""What a store holds: the size of each object by its path, with what tells its writings apart."""


class Cost(NamedTuple):
    """Seconds by the clock and of all cores, and requests to an S3 server."""

    clock: float
    cores: float
    requests: int = 0

    def __str__(self) -> str:
        return f"{self.clock:.2f} s ({self.cores:.2f})"


GOALS: Final = {"first": 0.5, "again": 0.3, "verify": 0.3, "restore": 0.5}
"""The most of restic's time that each act may need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """
    What one tool needed, and what it wrote.

    :param changed: Bytes of the files that were written anew.
    """

    tool: str
    files: int
    first: Cost
    again: Cost
    verify: Cost
    restore: Cost
    after_first: Stored
    after_again: Stored
    changed: int


def measure(
    tool: Tool, folder: Path, partitions: int, count: Callable[[], Stored], asked: Callable[[], int]
) -> Round:
    """Take one tool through everything."""

    def cost(act: Callable[[], None]) -> Cost:
        begun, cores, requests = time.perf_counter(), _cores(), asked()
        act()
        took = time.perf_counter() - begun
        return Cost(took, _cores() - cores, asked() - requests)

    # New folders for each: after files were deleted, ext4 is slow to make others for a minute.
    own = Path(tempfile.mkdtemp(dir=folder))
    tree, back = own / "tree", own / "restored"
    files = make_checkpoint(tree, partitions=partitions, versions=VERSIONS)
    tool.prepare()
    first = cost(lambda: tool.back_up(tree))
    after_first = count()
    changed = change(tree, 0.01)
    again = cost(lambda: tool.back_up(tree))
    after_again = count()
    verify = cost(lambda: tool.verify(tree))
    restore = cost(lambda: tool.restore(back))
    return Round(
        tool=tool.name,
        files=files,
        first=first,
        again=again,
        verify=verify,
        restore=restore,
        after_first=after_first,
        after_again=after_again,
        changed=changed,
    )


def _cores() -> float:
    """Return what the programs that have ended needed; the server of a store runs on."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _local(folder: Path) -> Stored:
    found = ((str(path), path.stat()) for path in folder.rglob("*") if path.is_file())
    return {path: (stat.st_size, f"{stat.st_mtime_ns} {stat.st_ino}") for path, stat in found}


def _remote(place: Place, folder: str) -> Stored:
    import s3fs

    store: Any = s3fs.S3FileSystem(
        key=place.key, secret=place.secret, endpoint_url=place.endpoint, skip_instance_cache=True
    )
    found = store.find(f"{place.bucket}/{folder}", detail=True)
    return {
        path: (info["size"], f"{info['LastModified']} {info['ETag']}")
        for path, info in found.items()
    }


@contextlib.contextmanager
def _places(folder: Path, *, s3: bool) -> Iterator[list[tuple[str, Place, int | None]]]:
    local = folder / "local"
    local.mkdir()
    places: list[tuple[str, Place, int | None]] = [("local folder", Place(local=local), None)]
    with contextlib.ExitStack() as servers:
        if s3:
            home = folder / "seaweedfs"
            home.mkdir()
            [metrics] = free_ports(1)
            server = servers.enter_context(seaweedfs(home, f"-metricsPort={metrics}"))
            s3_place = Place(
                endpoint=server.endpoint, bucket="streams", key=ACCESS_KEY, secret=SECRET_KEY
            )
            places.append(("SeaweedFS over S3", s3_place, metrics))
        yield places


def _requests(metrics: int | None) -> int:
    """Return how many requests the S3 server has answered by its own count."""
    if metrics is None:
        return 0
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=30) as reply:
        lines = reply.read().decode().splitlines()
    return sum(
        round(float(line.rsplit(" ", 1)[1]))
        for line in lines
        if line.startswith("SeaweedFS_s3_request_total{")
    )


def _size(stored: Stored) -> int:
    return sum(size for size, _ in stored.values())


def show(where: str, rounds: Mapping[str, list[Round]]) -> None:
    """Print the medians of the tools side by side, and the goals beside what was measured."""
    head = ("tool", "first", "files/s", "1 % changed", "verify", "restore")
    rows, moved = [], []
    for tool, made in rounds.items():
        costs = [_median(made, act) for act in GOALS]
        first, again, verify, restore = map(str, costs)
        rows.append((tool, first, f"{made[0].files / costs[0].clock:,.0f}", again, verify, restore))
        moved.append((tool, *_moved(made[0]), *(f"{cost.requests:,}" for cost in costs)))
    some = next(iter(rounds.values()))
    print(f"\n{where}, {some[0].files:,} files, {some[0].changed:,} bytes changed, ", end="")
    print(f"median of {len(some)}: seconds by the clock (of all cores)")
    print(table(head, rows))
    print(table(("tool", "objects", "bytes", "requests: first", "1 %", "verify", "restore"), moved))
    if {"restic", "airflow-streaming"} <= rounds.keys():
        for act, most in GOALS.items():
            ours, theirs = (_median(rounds[tool], act) for tool in ("airflow-streaming", "restic"))
            share = ours.clock / theirs.clock
            said = "met" if share <= most else "MISSED"
            print(
                f"{said:8} {act}: {share:.2f} of restic's time, {ours.cores / theirs.cores:.2f} of "
                f"its cores; the goal is {most}"
            )


def _median(rounds: list[Round], act: str) -> Cost:
    costs = [getattr(one, act) for one in rounds]
    return Cost(
        statistics.median(cost.clock for cost in costs),
        statistics.median(cost.cores for cost in costs),
        costs[0].requests,
    )


def _moved(one: Round) -> tuple[str, str]:
    written = dict(one.after_again.items() - one.after_first.items())
    moved = sum(size for size, _ in written.values())
    return (
        f"{len(one.after_first):,}, then {len(written):,}",
        f"{_size(one.after_first):,}, then {moved:,} ({moved / one.changed:.2f} x changed)",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--s3", action="store_true", help="also on a SeaweedFS")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], metavar="TOOL")
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="backup-benchmark-") as name:
        folder = Path(name)
        keep_bytecode(folder / "bytecode")
        with _places(folder, s3=arguments.s3) as places:
            for where, place, metrics in places:
                _warm_up(place, folder)
                found: dict[str, list[Round]] = {}
                for turn in range(arguments.rounds):
                    made = tools(place, folder, turn)
                    for tool in made[turn % len(made) :] + made[: turn % len(made)]:
                        if arguments.only and tool.name not in arguments.only:
                            continue
                        found.setdefault(tool.name, []).append(
                            _round(tool, place, metrics, folder, arguments.files)
                        )
                        print(f"{where}: {tool.name} done", file=sys.stderr, flush=True)
                show(where, found)


def _warm_up(place: Place, folder: Path) -> None:
    """Let bytecode be written for all that ours imports, as an installer does."""
    own, ours = Path(tempfile.mkdtemp(dir=folder)), Ours(place, -1)
    make_checkpoint(own / "tree", partitions=2, versions=2)
    ours.back_up(own / "tree")
    ours.verify(own / "tree")
    ours.restore(own / "restored")


def _round(tool: Tool, place: Place, metrics: int | None, folder: Path, files: int) -> Round:
    def count() -> Stored:
        at = place.local
        return _remote(place, tool.stored) if at is None else _local(at / tool.stored)

    return measure(tool, folder, files // VERSIONS, count, lambda: _requests(metrics))


if __name__ == "__main__":
    main()

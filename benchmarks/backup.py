"""
How fast are ten thousand small state files backed up, and what does it cost the store?

One tree, made new for every tool, goes through a first backup, a second one after one file in a
hundred was written anew, a verification of every byte, and a restore. The tools take turns on a
local folder, and with ``--s3`` on a SeaweedFS that is started for it. Objects and bytes are counted
in the store itself, before and after. Beside the time by the clock stands the time of all cores that
the tool itself needed, which other programs at work disturb less.

    python -m benchmarks.backup --files 10000 --s3
    python -m benchmarks.backup --files 50000 --only airflow-streaming

Goals: the first backup at least 5 times restic's and 10 times rclone's files a second; one per cent
changed of 50,000 files moves at most 1.1 times the changed bytes in at most 20 objects; a restore
at least 3 times restic's.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.backup_tools import Place, Tool, tools
from benchmarks.checkpoint_tree import change, make_checkpoint
from benchmarks.figures import machine, table
from tests.integration.home.servers import ACCESS_KEY, SECRET_KEY, seaweedfs

VERSIONS = 49
"""State versions that each partition keeps."""


Stored = Mapping[str, tuple[int, str]]
"""What a store holds: the size of each object by its path, with what tells its writings apart."""


class Cost(NamedTuple):
    """Seconds by the clock, and of all cores."""

    clock: float
    cores: float

    def __str__(self) -> str:
        return f"{self.clock:.2f} s ({self.cores:.2f})"


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


def measure(tool: Tool, folder: Path, partitions: int, count: Callable[[], Stored]) -> Round:
    """Take one tool through everything."""
    # New folders for each: after files were deleted, ext4 is slow to make others for a minute.
    own = Path(tempfile.mkdtemp(dir=folder))
    tree, back = own / "tree", own / "restored"
    files = make_checkpoint(tree, partitions=partitions, versions=VERSIONS)
    tool.prepare()
    first = _cost(lambda: tool.back_up(tree))
    after_first = count()
    changed = change(tree, 0.01)
    again = _cost(lambda: tool.back_up(tree))
    after_again = count()
    verify = _cost(lambda: tool.verify(tree))
    restore = _cost(lambda: tool.restore(back))
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


def _cost(act: Callable[[], None]) -> Cost:
    begun, cores = time.perf_counter(), _cores()
    act()
    return Cost(time.perf_counter() - begun, _cores() - cores)


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
def _places(folder: Path, *, s3: bool) -> Iterator[list[tuple[str, Place]]]:
    local = folder / "local"
    local.mkdir()
    places = [("local folder", Place(local=local))]
    with contextlib.ExitStack() as servers:
        if s3:
            home = folder / "seaweedfs"
            home.mkdir()
            server = servers.enter_context(seaweedfs(home))
            s3_place = Place(
                endpoint=server.endpoint, bucket="streams", key=ACCESS_KEY, secret=SECRET_KEY
            )
            places.append(("SeaweedFS over S3", s3_place))
        yield places


def _size(stored: Stored) -> int:
    return sum(size for size, _ in stored.values())


def show(where: str, rounds: list[Round]) -> None:
    """Print the rounds side by side."""
    head = (
        "tool",
        "first",
        "files/s",
        "1 % changed",
        "objects written",
        "bytes written",
        "verify",
        "restore",
    )
    rows = []
    for one in rounds:
        written = dict(one.after_again.items() - one.after_first.items())
        moved = sum(size for size, _ in written.values())
        rows.append(
            (
                one.tool,
                str(one.first),
                f"{one.files / one.first.clock:,.0f}",
                str(one.again),
                f"{len(one.after_first):,}, then {len(written):,}",
                f"{_size(one.after_first):,}, then {moved:,} ({moved / one.changed:.2f} x changed)",
                str(one.verify),
                f"{one.restore} ({one.files / one.restore.clock:,.0f} files/s)",
            )
        )
    print(f"\n{where}, {rounds[0].files:,} files, {rounds[0].changed:,} bytes changed")
    print(table(head, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--s3", action="store_true", help="also on a SeaweedFS")
    parser.add_argument("--only", action="append", default=[], metavar="TOOL")
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="backup-benchmark-") as name:
        folder = Path(name)
        with _places(folder, s3=arguments.s3) as places:
            for where, place in places:
                rounds = []
                for tool in tools(place, folder):
                    if arguments.only and tool.name not in arguments.only:
                        continue
                    stored = tool.stored
                    count = (
                        (lambda at=place.local / stored: _local(at))
                        if place.local
                        else (lambda at=place, under=stored: _remote(at, under))
                    )
                    rounds.append(measure(tool, folder, arguments.files // VERSIONS, count))
                    print(f"{where}: {tool.name} done", flush=True)
                show(where, rounds)


if __name__ == "__main__":
    main()

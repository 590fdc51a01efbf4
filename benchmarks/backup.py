"""
How fast are ten thousand small state files backed up, and what does it cost the store?

One tree, made new for every tool, goes through a first backup, a second one after one file in a
hundred was written anew, a verification of every byte, and a restore. The tools take turns on a
local folder, and with ``--s3`` on a SeaweedFS that is started for it. Objects and bytes are counted
in the store itself, before and after.

    python -m benchmarks.backup --files 10000 --s3
    python -m benchmarks.backup --files 50000 --only airflow-streaming

Goals: the first backup at least 5 times restic's and 10 times rclone's files a second; one per cent
changed of 50,000 files moves at most 1.1 times the changed bytes in at most 20 objects; a restore
at least 3 times restic's.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.backup_tools import Place, Tool, tools
from benchmarks.checkpoint_tree import change, make_checkpoint
from benchmarks.figures import machine, table
from tests.integration.home.servers import ACCESS_KEY, SECRET_KEY, seaweedfs

VERSIONS = 49
"""State versions that each partition keeps."""


Stored = Mapping[str, tuple[int, str]]
"""What a store holds: the size of each object by its path, with what tells its writings apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """
    What one tool needed, in seconds, and what it wrote.

    :param changed: Bytes of the files that were written anew.
    """

    tool: str
    files: int
    first: float
    again: float
    verify: float
    restore: float
    after_first: Stored
    after_again: Stored
    changed: int


def measure(tool: Tool, folder: Path, partitions: int, count: Callable[[], Stored]) -> Round:
    """Take one tool through everything."""
    tree, back = folder / "tree", folder / "restored"
    for old in (tree, back):
        shutil.rmtree(old, ignore_errors=True)
    files = make_checkpoint(tree, partitions=partitions, versions=VERSIONS)
    tool.prepare()
    first = _seconds(lambda: tool.back_up(tree))
    after_first = count()
    changed = change(tree, 0.01)
    again = _seconds(lambda: tool.back_up(tree))
    after_again = count()
    verify = _seconds(lambda: tool.verify(tree))
    restore = _seconds(lambda: tool.restore(back))
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


def _seconds(act: Callable[[], None]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


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
                f"{one.first:.2f} s",
                f"{one.files / one.first:,.0f}",
                f"{one.again:.2f} s",
                f"{len(one.after_first):,}, then {len(written):,}",
                f"{_size(one.after_first):,}, then {moved:,} ({moved / one.changed:.2f} x changed)",
                f"{one.verify:.2f} s",
                f"{one.restore:.2f} s ({one.files / one.restore:,.0f} files/s)",
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

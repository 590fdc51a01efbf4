"""The output of a file sink as Spark writes and reads it: data files, the log and its compaction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

LOG = "_spark_metadata"
NOON_MS = 1_794_000_000_000


class FileSink:
    """
    One output folder.

    :param interval: Every so many batches the log is compacted.
    """

    def __init__(self, root: Path, *, interval: int = 4) -> None:
        self.root, self.interval = root, interval
        self.log = root / LOG
        self.log.mkdir(parents=True, exist_ok=True)

    def write(self, batch: int, by: str = "old", files: int = 2, at: int = NOON_MS) -> None:
        """Write a batch as Spark does: files first, then the log's entry with its checksum."""
        lines = [self._file(f"k=a b/part-{n}-{by}-{batch}", at) for n in range(files)]
        name = str(batch)
        if (batch + 1) % self.interval == 0:
            lines = self._all_lines(batch - 1) + lines
            name = f"{batch}.compact"
        (self.log / name).write_text("\n".join(["v1", *lines]))
        (self.log / f".{name}.crc").write_text(f"crc of {name} by {by}")

    def expire(self, below: int) -> None:
        """Delete what Spark deletes of a log once it is old: entries before a compacted one."""
        for path in list(self.log.iterdir()):
            name = path.name.removeprefix(".").removesuffix(".crc")
            if int(name.removesuffix(".compact")) < below:
                path.unlink()

    def read(self) -> list[str]:
        """
        Return the files a reader gets, each of which is there.

        Like Spark's, the reader takes the interval from the two newest compacted entries.
        """
        found = {path.name for path in self.log.iterdir() if not path.name.startswith(".")}
        if not found:
            return []
        newest = max(int(name.removesuffix(".compact")) for name in found)
        compacted = sorted(int(n.removesuffix(".compact")) for n in found if n.endswith("t"))
        interval = compacted[-1] - compacted[-2] if len(compacted) > 1 else self.interval
        start = max(0, (newest + 1) // interval * interval - 1)
        lines: list[dict[str, Any]] = []
        for batch in range(start, newest + 1):
            name = f"{batch}.compact" if (batch + 1) % interval == 0 else str(batch)
            lines += map(json.loads, (self.log / name).read_text().splitlines()[1:])
        paths = [self.path(line["path"]) for line in lines]
        assert all(path.is_file() for path in paths), paths
        return sorted(str(path.relative_to(self.root)) for path in paths)

    def tree(self) -> dict[str, str]:
        """Return every file, with its content."""
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }

    def path(self, uri: str) -> Path:
        from urllib.parse import unquote

        return Path(unquote(uri.removeprefix("file://")))

    def _file(self, name: str, at: int) -> str:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.with_name(f".{path.name}.crc").write_text(f"crc of {name}")
        entry = {
            "path": f"file://{quote(str(path))}",
            "size": len(name),
            "isDir": False,
            "modificationTime": at,
            "blockReplication": 1,
            "blockSize": 33554432,
            "action": "add",
        }
        return json.dumps(entry, separators=(",", ":"))

    def _all_lines(self, last: int) -> list[str]:
        start = max(0, (last + 1) // self.interval * self.interval - 1)
        lines: list[str] = []
        for batch in range(start, last + 1):
            name = f"{batch}.compact" if (batch + 1) % self.interval == 0 else str(batch)
            lines += (self.log / name).read_text().splitlines()[1:]
        return lines

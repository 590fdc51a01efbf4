"""Checkpoints in memory: golden ones to be broken, and ones that are made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Self

from airflow_streaming.checkpoints.integrity.state import Depth
from airflow_streaming.checkpoints.read.reading import read_checkpoint
from airflow_streaming.checkpoints.read.report import Checkpoint, FindingCode
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.listing import FileStat, Listing
from tests.golden import golden_checkpoint

URI: Final = "/data/orders"
CONF_4_3: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "true",
}


class InMemory:
    """
    The files of one checkpoint, by path; changing one loses its hidden checksum.

    :param strange: What is no file and no folder, by path.
    """

    def __init__(self, files: dict[str, bytes], strange: dict[str, str] | None = None) -> None:
        self.files = dict(files)
        self.strange = strange or {}

    def listing(self) -> Listing:
        folders: dict[str, dict[str, FileStat]] = {"": {}}
        for path, data in self.files.items():
            parts = path.split("/")
            for depth in range(len(parts)):
                folders.setdefault("/".join(parts[:depth]), {})
            folders["/".join(parts[:-1])][parts[-1]] = FileStat(len(data))
        return Listing(folders, self.strange)

    def read(self, path: str, limit: int) -> bytes | None:
        data = self.files.get(path)
        if data is not None and len(data) > limit:
            raise RecordError(f"{path} is larger than {limit} bytes.")
        return data

    def report(self, *, thorough: bool = False) -> Checkpoint:
        depth = Depth.ALL if thorough else Depth.NEXT
        return read_checkpoint(self.listing(), self.read, uri=URI, depth=depth)

    def problems(self) -> set[FindingCode]:
        return {problem.code for problem in self.report().problems}

    def delete(self, *paths: str) -> Self:
        """Delete files and folders, each of which must be there."""
        for path in paths:
            gone = [name for name in self.files if name == path or name.startswith(f"{path}/")]
            assert gone, path
            for name in gone:
                self.files.pop(name, None)
                self.files.pop(hidden(name), None)
        return self

    def write(self, path: str, data: bytes | str) -> Self:
        self.files[path] = data.encode() if isinstance(data, str) else data
        self.files.pop(hidden(path), None)
        return self

    def truncate(self, path: str, size: int | None = None) -> Self:
        data = self.files[path]
        return self.write(path, data[: len(data) // 2 if size is None else size])

    def replace(self, path: str, old: str, new: str) -> Self:
        text = self.files[path].decode()
        assert old in text, old
        return self.write(path, text.replace(old, new))

    def newest(self, folder: str, suffix: str = "") -> str:
        """Return the path of the highest number in a folder."""
        names = [name[len(folder) + 1 :] for name in self.files if name.startswith(f"{folder}/")]
        numbers = [
            int(name.removesuffix(suffix).partition("_")[0])
            for name in names
            if name.endswith(suffix) and name[0].isdigit() and "/" not in name
        ]
        found = [n for n in names if n.startswith((f"{max(numbers)}{suffix}", f"{max(numbers)}_"))]
        return f"{folder}/{next(name for name in found if name.endswith(suffix))}"

    def plan(
        self,
        batch: int,
        offsets: tuple[Any, ...] = ({"orders": {"0": 5}},),
        conf: dict[str, str] | None = None,
        watermark: int = 0,
    ) -> Self:
        about = {
            "batchWatermarkMs": watermark,
            "batchTimestampMs": 1_795_262_400_000 + batch,
            "conf": CONF_4_3 if conf is None else conf,
        }
        return self.write(f"offsets/{batch}", "\n".join(map(_line, ("v1", about, *offsets))))

    def commit(self, batch: int, watermark: int = 0) -> Self:
        return self.write(f"commits/{batch}", f'v1\n{{"nextBatchWatermarkMs":{watermark}}}')

    def run(self, *batches: int) -> Self:
        for batch in batches:
            self.plan(batch).commit(batch)
        return self


Break = Callable[[InMemory], object]
"""What makes a defect."""


def empty() -> InMemory:
    """Return the checkpoint of a query that has just been started."""
    return InMemory({"metadata": b'{"id":"2bdda8fd-e87c-45a2-aaf7-915c2c320f7e"}'})


def golden(shape: str, spark: str = "4.3.0", *, hidden_files: bool = True) -> InMemory:
    """Return a golden checkpoint that may be changed."""
    return InMemory(
        {
            path: data
            for path, data in _golden(spark, shape).items()
            if hidden_files or not path.rpartition("/")[2].startswith(".")
        }
    )


def other_codec(made: InMemory, zip_at: int) -> InMemory:
    """Make its changelogs of a codec that is not read here, and its zips those of one version."""
    for path in list(made.files):
        folder, _, name = path.rpartition("/")
        if name.endswith(".changelog") and name[0].isdigit():
            made.write(path, b"\x28\xb5\x2f\xfd" + made.files[path])
            made.files.pop(f"{path}.crc", None)
        elif name.endswith(".zip") and name[0].isdigit():
            ids = [n.rpartition("/")[2] for n in made.files if n.startswith(f"{folder}/{zip_at}_")]
            made.write(f"{folder}/{ids[0].partition('.')[0]}.zip", made.files[path])
            made.files.pop(f"{path}.crc", None)
            made.delete(path)
    return made


def hidden(path: str) -> str:
    """Return the path of the checksum file that Hadoop keeps beside a file."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


@cache
def _golden(spark: str, shape: str) -> dict[str, bytes]:
    root = golden_checkpoint(spark, shape).path
    found = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def _line(part: Any) -> str:
    return part if isinstance(part, str) else json.dumps(part)

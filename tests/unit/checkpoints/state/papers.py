"""
A checkpoint in memory, and state files as Spark writes them.

Named so because it is all on paper: nothing lies on a disk.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from airflow_streaming.checkpoints.state.chain import Chain, Missing, files_for
from airflow_streaming.checkpoints.state.file_checks import crc32c
from airflow_streaming.checkpoints.state.lz4 import MAGIC, xxhash32
from airflow_streaming.checkpoints.state.stores import StateIds, StoreRef, ids_of, stores
from airflow_streaming.model.spark.listing import FileStat, Listing
from airflow_streaming.model.spark.logs import parse_commit_log
from tests.golden import golden_checkpoint, golden_files

STORE = StoreRef(0, 0, "default", "state/0/0")
TABLE_END = bytes.fromhex("f7cff485b741e288")


@dataclass(frozen=True)
class Paper:
    """A checkpoint whose files are these."""

    files: Mapping[str, bytes]

    @cached_property
    def listing(self) -> Listing:
        folders: dict[str, dict[str, FileStat]] = {"": {}}
        for path, data in self.files.items():
            folder, _, name = path.rpartition("/")
            for parent in _parents(folder):
                folders.setdefault(parent, {})
            folders[folder][name] = FileStat(len(data))
        return Listing(folders)

    def read(self, path: str, limit: int) -> bytes | None:
        data = self.files.get(path)
        assert data is None or len(data) <= limit
        return data

    def without(self, *paths: str) -> Paper:
        return Paper({path: data for path, data in self.files.items() if path not in paths})

    def having(self, path: str, data: bytes) -> Paper:
        return Paper({**self.files, path: data})

    @cached_property
    def commits(self) -> dict[int, StateIds]:
        """Ids of state by batch, from every commit that is there."""
        return {
            int(path.removeprefix("commits/")): parse_commit_log(data).state_ids
            for path, data in self.files.items()
            if path.startswith("commits/") and path[8:].isdigit()
        }

    def chain(self, ref: StoreRef, version: int) -> Chain | Missing:
        listing = self.listing
        ids = ids_of(ref, self.commits, listing)
        return files_for(listing, self.read, ref, version, ids)

    def chains(self, version: int) -> Iterator[tuple[StoreRef, Chain | Missing]]:
        for ref in stores(self.listing):
            yield ref, self.chain(ref, version)


@cache
def golden_paper(spark: str, shape: str) -> Paper:
    """Return a golden checkpoint without Hadoop's hidden files."""
    head = f"generated/spark-{spark}/{shape}/checkpoint/"
    found = {p.removeprefix(head): d for p, d in golden_files().items() if p.startswith(head)}
    return Paper(found)


@cache
def golden_paper_with_hidden(spark: str, shape: str) -> Paper:
    """Return a golden checkpoint with everything that lies there."""
    root = golden_checkpoint(spark, shape).path
    files = [path for path in root.rglob("*") if path.is_file()]
    return Paper({path.relative_to(root).as_posix(): path.read_bytes() for path in files})


def paper(*names: str, folder: str = STORE.folder) -> Paper:
    """Return a checkpoint with files of these names in a store, whole ones as their names say."""
    return Paper({f"{folder}/{name}": _whole(name) for name in names})


def state_zip(*tables: tuple[str, int], logs: tuple[tuple[str, int], ...] = ()) -> bytes:
    """Return the zip of a RocksDB version that names these SST files and logs, with their sizes."""
    listed = {
        "sstFiles": [
            {"localFileName": _local(name), "dfsSstFileName": name, "sizeBytes": size}
            for name, size in tables
        ],
        "logFiles": [
            {"localFileName": _local(name), "dfsLogFileName": name, "sizeBytes": size}
            for name, size in logs
        ],
        "numKeys": 1,
    }
    return packed(
        {"CURRENT": b"MANIFEST-000005\n", "metadata": f"v1\n{json.dumps(listed)}".encode()}
    )


def packed(entries: Mapping[str, bytes]) -> bytes:
    """Return a zip of these entries."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return target.getvalue()


def table(size: int = 64) -> bytes:
    """Return an SST file of a size."""
    return b"\0" * (size - len(TABLE_END)) + TABLE_END


def lz4_stream(*contents: bytes) -> bytes:
    """Return blocks with these contents, stored as they are, and the end mark."""
    return b"".join(_block(content) for content in [*contents, b""])


def changelog(*ancestors: tuple[int, str], form: bytes = b"v3") -> bytes:
    """Return a changelog of format 2 that names these ancestors."""
    listed = [{"version": v, "checkpointUniqueId": unique_id} for v, unique_id in ancestors]
    return lz4_stream(_text(form) + _text(json.dumps(listed).encode()) + b"\xff\xff\xff\xff")


def sidecar(data: bytes, *, value: int | None = None, size: int | None = None) -> bytes:
    """Return the visible checksum file of a state file."""
    unsigned = crc32c(data) if value is None else value
    signed = unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned
    said = {
        "algorithm": "CRC32C",
        "value": signed,
        "mainFileSize": len(data) if size is None else size,
    }
    return json.dumps(said).encode()


def hadoop_crc(data: bytes) -> bytes:
    """Return the hidden checksum file of a file."""
    chunks = [data[begin : begin + 512] for begin in range(0, len(data), 512)]
    sums = [zlib.crc32(chunk) for chunk in chunks]
    return struct.pack(f">4si{len(sums)}I", b"crc\0", 512, *sums)


def _local(name: str) -> str:
    return f"{name.partition('-')[0]}{name[-4:]}"


def _whole(name: str) -> bytes:
    if name.endswith(".zip"):
        return state_zip()
    return table() if name.endswith(".sst") else lz4_stream(b"\xff\xff\xff\xff")


def _text(content: bytes) -> bytes:
    return struct.pack(">H", len(content)) + content


def _block(content: bytes) -> bytes:
    checksum = xxhash32(content, 0x9747B28C) & 0x0FFFFFFF if content else 0
    return struct.pack("<8sBiiI", MAGIC, 0x16, len(content), len(content), checksum) + content


def _parents(folder: str) -> list[str]:
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]

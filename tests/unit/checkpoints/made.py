"""Backups made of given files, without a checkpoint to copy them from."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from airflow_streaming.checkpoints.backup.bundles import BundleWriter, writer_of
from airflow_streaming.checkpoints.backup.index import LARGE
from airflow_streaming.checkpoints.backup.records import Backup, Member, QueryBackup
from airflow_streaming.checkpoints.vault.store import BackupStore, open_backup_store
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.spark.listing import FileStat
from airflow_streaming.storage.blobs import Blobs
from airflow_streaming.storage.fsspec_blobs import open_blobs

NOON = datetime(2026, 11, 3, 12, tzinfo=UTC)
STREAM = "orders"

Files = Mapping[str, bytes]


def new_store(uri: str, blobs: Blobs | None = None) -> BackupStore:
    """Return a store at a place that may have one already."""
    return BackupStore(blobs) if blobs is not None else open_backup_store(uri, create=True)


def local_store(folder: object) -> BackupStore:
    open_backup_store(str(folder), create=True)
    return BackupStore(open_blobs(str(folder)))


def stamp_of(data: bytes) -> str:
    """Return a stamp as a file has one that is written anew with every content."""
    return hashlib.blake2b(data).hexdigest()


def copy_into(writer: BundleWriter, files: Files) -> list[Member]:
    stats = {path: FileStat(len(data), stamp_of(data)) for path, data in files.items()}
    writer.expect(stats.items())
    return [_member(writer, path, data) for path, data in files.items()]


def _member(writer: BundleWriter, path: str, data: bytes) -> Member:
    known = writer.known(path, len(data), stamp_of(data))
    if known is not None:
        return known
    if len(data) >= LARGE:
        return writer.add_large(path, _chunks(data), stamp_of(data))
    return writer.add(path, data, stamp_of(data))


def _chunks(data: bytes) -> Iterable[bytes]:
    return (data[start : start + 300_000] for start in range(0, len(data), 300_000))


def make_backup(
    store: BackupStore, files: Files, *, number: int = 1, stream: str = STREAM
) -> Backup:
    """Take a backup as the real one is taken: hold, write, publish."""
    begun = NOON + timedelta(hours=number)
    backup_id = store.new_id(begun)
    with store.hold(stream, "backup", backup_id), writer_of(store, stream) as writer:
        members = copy_into(writer, files)
        bundles = writer.close(members)
        size = sum(member.size for member in members)
        backup = Backup(
            id=backup_id,
            stream=stream,
            begun_at=begun,
            finished_at=begun,
            origin=Origin.SCHEDULED,
            by="kim",
            queries=(
                QueryBackup(
                    folder="counts",
                    checkpoint="/data/counts",
                    query_id=None,
                    batch=number,
                    planned=number + 1,
                ),
            ),
            bundles=bundles,
            files=len(members),
            size=size,
            added_files=writer.added_files,
            added_size=writer.added_size,
        )
        store.publish(backup)
    return backup


def some_files(seed: int = 1, *, small: int = 40, large: int = 1) -> dict[str, bytes]:
    """Return files as a checkpoint has them: many small ones, few large ones."""
    chance = random.Random(seed)
    files = {
        f"counts/state/0/{number % 7}/{number}.delta": chance.randbytes(chance.randint(0, 3000))
        for number in range(small)
    }
    files["counts/metadata"] = b'{"id": "0"}'
    files["counts/offsets/17"] = b"v1\n{}\n" * chance.randint(1, 30)
    for number in range(large):
        files[f"counts/state/0/1/{number}.zip"] = chance.randbytes(LARGE + number)
    return files


def sizes(store: BackupStore) -> dict[str, int]:
    return {one.path: one.size for one in store.objects(STREAM)}

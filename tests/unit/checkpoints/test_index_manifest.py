from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.checkpoints.backup.index import MAX_MANIFEST_BYTES, backup_id, seal, unseal
from airflow_streaming.checkpoints.backup.records import Backup, BundleUse, QueryBackup
from airflow_streaming.exceptions import BackupDamaged, RecordError
from airflow_streaming.model.arguments.choices import Origin

NOON = datetime(2026, 11, 3, 12, tzinfo=UTC)
USE = BundleUse(index="ab" * 32, index_size=100, chosen="0-4,7")
BACKUP = Backup(
    id="20261103-120000-000000-ab12",
    stream="orders",
    begun_at=NOON,
    finished_at=NOON,
    origin=Origin.MANUAL,
    by="kim",
    queries=(),
    bundles=(USE,),
    files=6,
    size=100,
)


def query(folder: str) -> QueryBackup:
    return QueryBackup(folder=folder, checkpoint="", query_id=None, batch=1, planned=1)


MANIFEST = seal(BACKUP)


def test_a_manifest_reads_back_as_it_was_sealed() -> None:
    assert unseal(MANIFEST) == BACKUP


@pytest.mark.parametrize("at", range(0, len(MANIFEST), 7))
def test_every_changed_byte_is_found(at: int) -> None:
    changed = bytearray(MANIFEST)
    changed[at] ^= 1

    with pytest.raises(BackupDamaged):
        unseal(bytes(changed))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(MANIFEST[:-1], id="cut off"),
        pytest.param(MANIFEST + b"\n", id="longer"),
        pytest.param(MANIFEST.replace(b": ", b":", 1), id="other spaces"),
        pytest.param(b"{" * (MAX_MANIFEST_BYTES + 1), id="too large"),
    ],
)
def test_what_is_no_manifest_is_damaged(data: bytes) -> None:
    with pytest.raises(BackupDamaged):
        unseal(data)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(BackupDamaged, match=r"manifest"):
        unseal(data)


def test_a_manifest_of_a_newer_release_is_not_called_damaged() -> None:
    record = BACKUP.to_bytes().rstrip(b"\n").replace(b'"version": 1', b'"version": 9')
    checksum = hashlib.sha256(record).hexdigest().encode()

    with pytest.raises(RecordError, match="Another version of airflow-streaming"):
        unseal(b'{"backup": ' + record + b', "sha256": "' + checksum + b'"}\n')


@pytest.mark.parametrize(
    "backup",
    [
        pytest.param(replace(BACKUP, id="../x"), id="id is a path"),
        pytest.param(replace(BACKUP, stream="a/b"), id="stream is a path"),
        pytest.param(replace(BACKUP, queries=(query("../../outside"),)), id="query is outside"),
        pytest.param(replace(BACKUP, queries=(query(".."),)), id="query is the folder above"),
        pytest.param(replace(BACKUP, queries=(query("/etc"),)), id="query is a path"),
        pytest.param(replace(BACKUP, queries=(query("a\0b"),)), id="query has a NUL"),
        pytest.param(replace(BACKUP, files=5), id="another number of files"),
        pytest.param(replace(BACKUP, bundles=(USE, USE), files=12), id="one bundle twice"),
        pytest.param(replace(BACKUP, bundles=(replace(USE, index="x"),)), id="index is no digest"),
        pytest.param(replace(BACKUP, bundles=(replace(USE, index_size=0),)), id="empty index"),
        pytest.param(
            replace(BACKUP, bundles=(replace(USE, chosen="0-99999"),), files=100_000),
            id="more members than a bundle has",
        ),
        pytest.param(replace(BACKUP, note="x" * 2**20), id="too large"),
    ],
)
def test_what_no_reader_would_take_is_not_sealed(backup: Backup) -> None:
    with pytest.raises(RecordError):
        seal(backup)


def test_ids_sort_by_time() -> None:
    later = NOON.replace(microsecond=1)

    assert backup_id(NOON, "ffff") < backup_id(later, "0000")

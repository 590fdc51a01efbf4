"""What every implementation of ``Blobs`` promises: subclass it and give it a ``blobs`` fixture."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from airflow_streaming.exceptions import AlreadyExists, RecordError
from airflow_streaming.storage.blobs import Blobs, is_unfinished


def names(blobs: Blobs, folder: str) -> list[str]:
    return [entry.name for entry in blobs.entries(folder)]


class BlobsContract:
    def test_an_object_reads_back(self, blobs: Blobs) -> None:
        blobs.create("s/backups/a.json", b"first")

        assert blobs.read("s/backups/a.json", 5) == b"first"
        assert blobs.size("s/backups/a.json") == 5
        stream = blobs.stream("s/backups/a.json")
        assert stream is not None
        assert b"".join(stream) == b"first"

    def test_a_missing_object_is_none(self, blobs: Blobs) -> None:
        assert blobs.read("s/backups/a.json", 5) is None
        assert blobs.stream("s/backups/a.json") is None
        assert blobs.size("s/backups/a.json") is None
        assert blobs.entries("s/backups") == []

    def test_a_folder_is_deleted_whole_and_no_other(self, blobs: Blobs) -> None:
        for path in ("s/old/a", "s/old/deep/down/b", "s/older/c"):
            blobs.put(path, b"1")

        blobs.delete_tree("s/old")
        blobs.delete_tree("s/missing")

        assert blobs.read("s/old/deep/down/b", 9) is None
        assert blobs.read("s/old/a", 9) is None
        assert blobs.read("s/older/c", 9) == b"1"

    def test_the_whole_store_is_never_deleted_at_once(self, blobs: Blobs) -> None:
        blobs.put("s/a", b"1")

        with pytest.raises(RecordError):
            blobs.delete_tree("")

        assert blobs.read("s/a", 9) == b"1"

    def test_an_empty_object_is_there(self, blobs: Blobs) -> None:
        blobs.put("s/files/empty", b"")

        assert blobs.read("s/files/empty", 5) == b""
        assert blobs.size("s/files/empty") == 0
        assert list(blobs.stream("s/files/empty") or [b"x"]) in ([], [b"x"])

    def test_more_than_the_limit_is_refused(self, blobs: Blobs) -> None:
        blobs.put("s/packs/a", b"123456")

        with pytest.raises(RecordError, match="larger than 5 bytes"):
            blobs.read("s/packs/a", 5)

    def test_creating_twice_keeps_the_first(self, blobs: Blobs) -> None:
        blobs.create("s/a", b"first")

        with pytest.raises(AlreadyExists):
            blobs.create("s/a", b"other")

        assert blobs.read("s/a", 9) == b"first"
        assert names(blobs, "s") == ["a"]

    @pytest.mark.parametrize("second", [b"second", b"a longer second one", b"first"])
    def test_putting_writes_over(self, blobs: Blobs, second: bytes) -> None:
        blobs.put("s/a", b"first")
        blobs.put("s/a", second)

        assert blobs.read("s/a", 99) == second
        assert names(blobs, "s") == ["a"]

    def test_a_large_object_is_kept_under_its_digest(self, blobs: Blobs) -> None:
        chunks = [bytes([number]) * 500_000 for number in range(3)]

        for _ in range(2):
            digest, size = blobs.keep("s/files", iter(chunks))

        whole = b"".join(chunks)
        assert (digest, size) == (hashlib.sha256(whole).hexdigest(), len(whole))
        stream = blobs.stream(f"s/files/{digest}")
        assert stream is not None
        assert b"".join(stream) == whole
        assert names(blobs, "s/files") == [digest]

    def test_chunks_that_fail_leave_nothing(self, blobs: Blobs) -> None:
        def chunks():  # type: ignore[no-untyped-def]
            yield b"half"
            raise RecordError("torn")

        with pytest.raises(RecordError, match="torn"):
            blobs.keep("s/files", chunks())

        assert names(blobs, "s/files") == []

    def test_entries_tell_files_from_folders_with_sizes_and_times(self, blobs: Blobs) -> None:
        blobs.put("s/b", b"12")
        blobs.put("s/a/deep", b"1")

        entries = blobs.entries("s")

        assert [(one.name, one.is_folder, one.strange) for one in entries] == [
            ("a", True, ""),
            ("b", False, ""),
        ]
        assert entries[1].size == 2
        assert entries[1].modified is not None
        assert abs(entries[1].modified - datetime.now(UTC)) < timedelta(minutes=5)

    def test_deleting_is_no_error_when_it_is_gone(self, blobs: Blobs) -> None:
        blobs.put("s/a", b"1")
        for _ in range(2):
            blobs.delete("s/a")

        assert blobs.read("s/a", 9) is None
        blobs.delete("no/such/folder")

    @pytest.mark.parametrize("path", ["../a", "a/../b", "/etc/passwd", "a//b", "a\n"])
    def test_a_path_that_leaves_the_root_is_refused(self, blobs: Blobs, path: str) -> None:
        with pytest.raises(RecordError):
            blobs.put(path, b"1")
        with pytest.raises(RecordError):
            blobs.read(path, 1)

    def test_one_of_many_creators_wins(self, blobs: Blobs) -> None:
        start = threading.Barrier(8)

        def create(number: int) -> int | None:
            start.wait()
            try:
                blobs.create("s/once", str(number).encode())
            except AlreadyExists:
                return None
            return number

        with ThreadPoolExecutor(8) as pool:
            won = [number for number in pool.map(create, range(8)) if number is not None]

        assert [str(number).encode() for number in won] == [blobs.read("s/once", 9)]


def test_names_of_unfinished_files_are_told_from_others() -> None:
    assert is_unfinished(f".pack.{'0' * 32}.tmp")
    assert not is_unfinished(".pack.tmp")
    assert not is_unfinished("0" * 64)

"""
What every store promises, as tests: subclass the contracts and give them a ``store`` fixture.

Content is always a function of the writer, so that a test can tell whose content is there.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_streaming.exceptions import AlreadyExists, RecordError
from airflow_streaming.model.storage import Store
from airflow_streaming.model.wire import MAX_RECORD_BYTES

CREATORS = 24


def race(store: Store, path: str) -> list[bytes]:
    """Let 24 threads create one file at once; return the contents that won."""
    start = threading.Barrier(CREATORS)

    def create(number: int) -> bytes | None:
        content = f"creator {number}".encode()
        start.wait()
        try:
            store.create(path, content)
        except AlreadyExists:
            return None
        return content

    with ThreadPoolExecutor(CREATORS) as pool:
        return [content for content in pool.map(create, range(CREATORS)) if content is not None]


class StoreContract:
    """Promises of one writer."""

    def test_it_reads_what_was_created(self, store: Store) -> None:
        store.create("orders/epochs/000001.json", b"first")

        assert store.read("orders/epochs/000001.json") == b"first"

    def test_a_missing_file_reads_as_none(self, store: Store) -> None:
        assert store.read("orders/epochs/000009.json") is None

    def test_a_file_below_a_file_reads_as_none(self, store: Store) -> None:
        store.create("orders", b"a file")

        assert store.read("orders/status.json") is None

    def test_an_empty_file_reads_as_empty(self, store: Store) -> None:
        store.create("orders/empty.json", b"")

        assert store.read("orders/empty.json") == b""

    def test_creating_twice_is_refused_and_keeps_the_first(self, store: Store) -> None:
        store.create("orders/epochs/000001.json", b"first")

        with pytest.raises(AlreadyExists, match=r"orders/epochs/000001\.json exists already"):
            store.create("orders/epochs/000001.json", b"second")

        assert store.read("orders/epochs/000001.json") == b"first"

    def test_creating_over_a_replaced_file_is_refused(self, store: Store) -> None:
        store.replace("orders/status.json", b"status")

        with pytest.raises(AlreadyExists):
            store.create("orders/status.json", b"mine")

    def test_replacing_writes_a_new_file_and_over_an_old_one(self, store: Store) -> None:
        store.replace("orders/status.json", b"a longer first status")
        store.replace("orders/status.json", b"second")

        assert store.read("orders/status.json") == b"second"

    def test_names_are_sorted_files_and_folders(self, store: Store) -> None:
        for path in ("s/epochs/000002.json", "s/epochs/000001.json", "s/epochs/000001/exit.json"):
            store.create(path, b"{}")

        assert store.names("s/epochs") == ["000001", "000001.json", "000002.json"]
        assert store.names("") == ["s"]

    def test_names_show_a_file_as_soon_as_it_is_created(self, store: Store) -> None:
        store.create("s/desired/000001.json", b"{}")
        assert store.names("s/desired") == ["000001.json"]

        store.create("s/desired/000002.json", b"{}")

        assert store.names("s/desired") == ["000001.json", "000002.json"]

    def test_names_of_a_missing_folder_are_empty(self, store: Store) -> None:
        store.create("s/epochs/000001.json", b"{}")

        assert store.names("s/circuit") == []
        assert store.names("other") == []

    def test_a_folder_and_a_file_of_like_names_are_kept_apart(self, store: Store) -> None:
        store.create("s/epochs/000001.json", b"epoch")
        store.create("s/epochs/000001/status.json", b"status")

        assert store.names("s/epochs/000001") == ["status.json"]

    def test_names_of_a_file_are_empty(self, store: Store) -> None:
        store.create("s/epochs/000001.json", b"epoch")

        assert store.names("s/epochs/000001.json") == []

    def test_deleting_removes_the_file(self, store: Store) -> None:
        store.create("_store/probe", b"x")

        store.delete("_store/probe")

        assert store.read("_store/probe") is None

    def test_deleting_a_missing_file_is_no_error(self, store: Store) -> None:
        store.delete("_store/probe")

        assert store.names("_store") == []

    def test_a_record_of_the_largest_size_can_be_read(self, store: Store) -> None:
        store.create("s/status.json", b"x" * MAX_RECORD_BYTES)

        assert len(store.read("s/status.json") or b"") == MAX_RECORD_BYTES

    def test_a_larger_file_is_refused_by_name(self, store: Store) -> None:
        store.create("s/status.json", b"x" * (MAX_RECORD_BYTES + 1))

        with pytest.raises(RecordError, match=r"s/status\.json is larger than 1048576 bytes"):
            store.read("s/status.json")

    @pytest.mark.parametrize(
        "path",
        ["/etc/passwd", "../other", "a/../../b", "a//b", "./a", "a/", "a\0b", "a\nb"],
    )
    def test_a_path_out_of_the_root_is_refused(self, store: Store, path: str) -> None:
        with pytest.raises(RecordError, match="is not a path inside a home"):
            store.create(path, b"x")
        with pytest.raises(RecordError, match="is not a path inside a home"):
            store.replace(path, b"x")
        with pytest.raises(RecordError, match="is not a path inside a home"):
            store.read(path)
        with pytest.raises(RecordError, match="is not a path inside a home"):
            store.names(path)
        with pytest.raises(RecordError, match="is not a path inside a home"):
            store.delete(path)


class ExclusiveContract:
    """The promise to writers that race."""

    rounds = 20

    def test_of_24_racing_creators_one_wins_every_round(self, store: Store) -> None:
        for number in range(self.rounds):
            path = f"s/epochs/{number:06d}.json"

            winners = race(store, path)

            assert len(winners) == 1
            assert store.read(path) == winners[0]


class WholeFilesContract:
    """The promise to readers of a file that is being replaced."""

    def test_a_reader_never_sees_half_a_file(self, store: Store) -> None:
        contents = {bytes([65 + number]) * 50_000 for number in range(8)}
        store.replace("s/status.json", next(iter(contents)))
        done = threading.Event()
        seen: list[bytes | None] = []

        def read() -> None:
            while not done.is_set():
                seen.append(store.read("s/status.json"))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for content in [*contents] * 10:
                store.replace("s/status.json", content)
        finally:
            done.set()
            reader.join()

        assert seen
        assert set(seen) <= contents

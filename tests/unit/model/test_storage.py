from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable, RecordError
from airflow_streaming.model.storage import LocalStore, Store
from tests.unit.model.store_contract import ExclusiveContract, StoreContract, WholeFilesContract


class TestLocalStore(StoreContract, ExclusiveContract, WholeFilesContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return LocalStore(str(tmp_path / "home"))


@pytest.mark.parametrize("prefix", ["", "file://", "local://"])
def test_a_root_may_be_a_path_or_a_uri(tmp_path: Path, prefix: str) -> None:
    LocalStore(f"{prefix}{tmp_path}").create("a/b.json", b"x")

    assert (tmp_path / "a" / "b.json").read_bytes() == b"x"


def test_no_temporary_file_stays_behind(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.create("a.json", b"x")
    store.replace("a.json", b"y")
    with pytest.raises(AlreadyExists):
        store.create("a.json", b"z")

    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_temporary_file_of_a_killed_writer_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / ".a.json.0123.tmp").write_bytes(b"hal")

    assert LocalStore(str(tmp_path)).names("") == []


def test_a_home_that_cannot_be_made_says_where_and_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = LocalStore(str(tmp_path / "file" / "home"))

    with pytest.raises(
        HomeUnavailable, match=r"file/home/a\.json cannot be used: Not a directory\. Check that"
    ):
        store.create("a.json", b"x")


def test_a_folder_in_place_of_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    store = LocalStore(str(tmp_path))

    with pytest.raises(RecordError, match=r"a\.json is not a file but a folder; it was not opened"):
        store.read("a.json")


def test_a_file_system_without_hard_links_is_named_as_a_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)

    with pytest.raises(HomeUnavailable, match=r"Operation not permitted.*has hard links"):
        LocalStore(str(tmp_path)).create("a.json", b"x")


def test_a_link_whose_reply_was_lost_counts_as_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def link_and_lose_the_reply(source: str, target: str, **folders: int) -> None:
        link(source, target, **folders)
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(os, "link", link_and_lose_the_reply)
    store = LocalStore(str(tmp_path))

    store.create("a.json", b"x")

    assert store.read("a.json") == b"x"


SECRET = b"another user's file"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside" / "epochs").mkdir(parents=True)
    (tmp_path / "outside" / "secret.json").write_bytes(SECRET)
    (tmp_path / "home" / "orders").mkdir(parents=True)
    return tmp_path


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening_socket(path: Path) -> None:
    # The path of a socket may have a hundred characters, and that of a test has more.
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def link_to_a_file(path: Path) -> None:
    path.symlink_to(path.parents[2] / "outside" / "secret.json")


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    "put",
    [pipe, listening_socket, link_to_a_file, link_to_a_device, link_to_itself, Path.mkdir],
)
def test_what_is_no_plain_file_is_refused_at_once_and_by_name(
    root: Path, put: Callable[[Path], None]
) -> None:
    put(root / "home" / "orders" / "status.json")
    store = LocalStore(str(root / "home"))

    with within(seconds=5), pytest.raises(RecordError, match=r"home/orders/status\.json is"):
        store.read("orders/status.json")
    with pytest.raises(AlreadyExists):
        store.create("orders/status.json", b"mine")


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Interrupt what hangs in the kernel."""

    def interrupt(*_: object) -> None:
        raise TimeoutError("It hangs.")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("stream", ["orders", "clicks"])
def test_nothing_is_read_or_written_through_a_link_to_a_folder(root: Path, stream: str) -> None:
    outside, store = root / "outside", LocalStore(str(root / "home"))
    link = {"orders": "orders/epochs", "clicks": "clicks"}[stream]
    (root / "home" / link).symlink_to(outside)
    before = sorted(outside.rglob("*"))

    for act in (
        lambda: store.create(f"{link}/000001.json", b"x"),
        lambda: store.replace(f"{link}/secret.json", b"x"),
        lambda: store.read(f"{link}/secret.json"),
        lambda: store.names(link),
        lambda: store.names(f"{link}/epochs"),
        lambda: store.delete(f"{link}/secret.json"),
    ):
        with pytest.raises(RecordError, match=f"home/{link} is a symbolic link"):
            act()
    assert sorted(outside.rglob("*")) == before
    assert (outside / "secret.json").read_bytes() == SECRET


def test_the_home_itself_may_be_a_link(root: Path) -> None:
    (root / "link").symlink_to(root / "home")

    LocalStore(str(root / "link")).create("orders/a.json", b"x")

    assert (root / "home" / "orders" / "a.json").read_bytes() == b"x"


def test_a_link_over_a_record_is_replaced_and_not_followed(root: Path) -> None:
    link_to_a_file(root / "home" / "orders" / "status.json")
    store = LocalStore(str(root / "home"))

    store.replace("orders/status.json", b"new")

    assert store.read("orders/status.json") == b"new"
    assert (root / "outside" / "secret.json").read_bytes() == SECRET


@pytest.mark.parametrize(
    ("folder", "file"),
    [
        pytest.param(0o755, 0o600, id="as_most_umasks_make_it"),
        pytest.param(0o700, 0o600, id="private"),
        pytest.param(0o750, 0o640, id="readable_for_the_group_only"),
        pytest.param(0o770, 0o660, id="of_a_group"),
        pytest.param(0o775, 0o660, id="of_a_group_and_readable_for_all"),
        pytest.param(0o2755, 0o640, id="read_by_a_group_by_its_bit"),
        pytest.param(0o2775, 0o660, id="of_a_group_by_its_bit"),
        pytest.param(0o777, 0o666, id="everybodys"),
        pytest.param(0o1777, 0o600, id="a_place_for_private_files_of_all"),
    ],
)
def test_files_are_private_unless_the_home_is_shared_on_purpose(
    tmp_path: Path, folder: int, file: int
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(folder)
    before = os.umask(0)
    try:
        LocalStore(str(home)).create("orders/a.json", b"x")
        LocalStore(str(home)).replace("orders/b.json", b"x")
    finally:
        os.umask(before)

    modes = {path.stat().st_mode & 0o7777 for path in (home / "orders").iterdir()}
    assert modes == {file}


def test_what_a_killed_writer_left_is_swept_by_the_next_one_a_day_later(tmp_path: Path) -> None:
    epochs = tmp_path / "orders" / "epochs"
    epochs.mkdir(parents=True)
    old, young = (epochs / f".000001.json.{digit * 32}.tmp" for digit in "ab")
    others = [epochs / ".hidden.tmp", epochs / f".x.{'c' * 32}.keep"]
    for file in (old, young, *others):
        file.write_bytes(b"hal")
    for file in (old, *others):
        os.utime(file, (1, 1))

    store = LocalStore(str(tmp_path))
    store.read("orders/epochs/000001.json")
    assert old.exists()
    store.create("orders/epochs/000001.json", b"x")

    assert not old.exists()
    assert young.exists()
    assert all(file.exists() for file in others)

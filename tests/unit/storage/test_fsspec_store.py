from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable
from airflow_streaming.model.storage import Store
from airflow_streaming.storage.fsspec_store import CONFLICT_TRIES, FsspecStore
from tests.unit.model.store_contract import ExclusiveContract, StoreContract


class PrivateMemory(MemoryFileSystem):
    """fsspec's memory is one for the whole process; this one is a test's own."""

    cachable = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return FsspecStore(PrivateMemory(), "/home", "memory://home")


class RenamingFileSystem(PrivateMemory):
    """Like HDFS through fsspec: no exclusive open, and no rename onto an existing file."""

    protocol = "hdfs"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        if mode != "overwrite":
            raise ValueError(f"unsupported mode {mode}")
        super().pipe_file(path, value)

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        # ``setdefault`` is one step of the interpreter, as a rename is one of the name node.
        file = self.store[path1]
        if self.store.setdefault(path2, file) is not file:
            self.refuse()
        else:
            del self.store[path1]

    def refuse(self) -> None:
        raise OSError(errno.EIO, "rename failed")


class SilentlyRenamingFileSystem(RenamingFileSystem):
    """Like WebHDFS: a refused rename answers "false", which fsspec does not look at."""

    protocol = ("webhdfs", "webHDFS")

    def refuse(self) -> None:
        pass


class TestRenaming(StoreContract, ExclusiveContract):
    """
    A store on HDFS.

    fsspec offers no rename over an existing file there, so while a file is replaced there is a
    moment without one. Airflow's side creates records and never replaces them.
    """

    @pytest.fixture(params=[RenamingFileSystem, SilentlyRenamingFileSystem])
    def store(self, request: pytest.FixtureRequest) -> Store:
        return FsspecStore(request.param(), "/home", "hdfs://namenode/home")

    def test_a_refused_rename_to_a_free_name_is_no_lost_race(self) -> None:
        class Broken(RenamingFileSystem):
            def mv(self, path1: str, path2: str, **_: Any) -> None:
                raise OSError(errno.EIO, "no such lease")

        filesystem = Broken()
        store = FsspecStore(filesystem, "/home", "hdfs://namenode/home")

        with pytest.raises(HomeUnavailable, match="refused to rename"):
            store.create("a.json", b"x")
        assert store.names("") == []


class ResponseError(Exception):
    """Keeps the answer as botocore does."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.response = {
            "Error": {"Code": code},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


class StatusError(Exception):
    """Keeps the status as Azure, aiohttp and Google's clients do."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__("refused")
        for name, value in attributes.items():
            setattr(self, name, value)


def caused(err: Exception, cause: Exception) -> Exception:
    err.__cause__ = cause
    return err


class AnsweringFileSystem(PrivateMemory):
    """Raises the given errors, one a call, and works when there are none left."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)
        self.calls = 0

    def answer(self) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        self.answer()
        super().pipe_file(path, value, mode)

    def cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> Any:
        self.answer()
        return super().cat_file(path, start, end)

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        self.answer()
        return super().ls(path, detail)

    def rm_file(self, path: str) -> None:
        self.answer()
        super().rm_file(path)


def store_on(filesystem: AnsweringFileSystem) -> FsspecStore:
    return FsspecStore(filesystem, "/home", "memory://home")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(FileExistsError("a.json"), id="Azure, Google and memory"),
        pytest.param(OSError(errno.EEXIST, "File exists"), id="an errno"),
        pytest.param(
            caused(OSError(errno.EINVAL, "At least one"), ResponseError(412, "PreconditionFailed")),
            id="s3fs on most stores",
        ),
        pytest.param(StatusError(status_code=412), id="an Azure client"),
        pytest.param(StatusError(code="412"), id="a Google client"),
        pytest.param(StatusError(status=412), id="aiohttp"),
    ],
)
def test_every_way_of_saying_exists_is_a_lost_race(error: Exception) -> None:
    with pytest.raises(AlreadyExists, match=r"memory://home/a\.json exists already"):
        store_on(AnsweringFileSystem(error)).create("a.json", b"x")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OSError(errno.EINVAL, "Invalid argument"), id="errno 22 without an answer"),
        pytest.param(
            caused(OSError(errno.EINVAL, "Bad digest"), ResponseError(400, "BadDigest")),
            id="errno 22 for something else",
        ),
        pytest.param(PermissionError("Access Denied."), id="no rights"),
        pytest.param(FileNotFoundError("The bucket does not exist"), id="no bucket"),
        pytest.param(StatusError(status_code=503), id="a client's own error"),
        pytest.param(TimeoutError(), id="a time-out without words"),
    ],
)
def test_any_other_error_means_that_the_home_cannot_be_used(error: Exception) -> None:
    with pytest.raises(HomeUnavailable, match=r"memory://home/a\.json cannot be used: .*\. Check"):
        store_on(AnsweringFileSystem(error)).create("a.json", b"x")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda store: store.read("a.json"), id="read"),
        pytest.param(lambda store: store.create("a.json", b"x"), id="create"),
        pytest.param(lambda store: store.replace("a.json", b"x"), id="replace"),
        pytest.param(lambda store: store.names("a"), id="names"),
        pytest.param(lambda store: store.delete("a.json"), id="delete"),
    ],
)
def test_every_call_reports_a_store_that_does_not_answer(
    call: Callable[[FsspecStore], object],
) -> None:
    with pytest.raises(HomeUnavailable, match=r"no route to host \(ConnectionError\)"):
        call(store_on(AnsweringFileSystem(ConnectionError("no route to host"))))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda store: store.read("a.json"), id="read"),
        pytest.param(lambda store: store.names("a"), id="names"),
    ],
)
def test_a_missing_bucket_is_not_an_empty_home(call: Callable[[FsspecStore], object]) -> None:
    error = caused(FileNotFoundError("no bucket"), ResponseError(404, "NoSuchBucket"))

    with pytest.raises(HomeUnavailable, match="no bucket"):
        call(store_on(AnsweringFileSystem(error)))


def conflict() -> Exception:
    return caused(OSError(errno.EIO, "conflict"), ResponseError(409, "ConditionalRequestConflict"))


def test_two_writes_that_met_are_repeated() -> None:
    filesystem = AnsweringFileSystem(conflict(), conflict())

    store_on(filesystem).create("a.json", b"x")

    assert filesystem.calls == 3


def test_writes_that_keep_meeting_end_with_an_error() -> None:
    filesystem = AnsweringFileSystem(*(conflict() for _ in range(2 * CONFLICT_TRIES)))

    with pytest.raises(HomeUnavailable, match="conflict"):
        store_on(filesystem).create("a.json", b"x")

    assert filesystem.calls == CONFLICT_TRIES


def test_a_store_that_cannot_give_a_range_of_nothing_gives_nothing() -> None:
    error = caused(OSError(errno.EINVAL, "range"), ResponseError(416, "InvalidRange"))

    assert store_on(AnsweringFileSystem(error)).read("a.json") == b""


def test_a_folder_marker_is_not_a_name() -> None:
    class Marked(PrivateMemory):
        def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
            return ["home/s/", "home/s/epochs/", "home/s/.hidden"]

    assert FsspecStore(Marked(), "/home", "s3://home").names("s") == ["epochs"]


def test_importing_the_home_does_not_import_fsspec() -> None:
    code = "import airflow_streaming.home.home, sys; print('fsspec' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


class ForgetfulFileSystem(PrivateMemory):
    """Does what it is asked, and the client that got no answer asks again."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        super().pipe_file(path, value, mode)
        if mode == "create":
            super().pipe_file(path, value, mode)


def test_a_client_that_repeats_its_request_finds_its_own_file_and_has_created_it() -> None:
    store = FsspecStore(ForgetfulFileSystem(), "/home", "memory://home")

    store.create("a.json", b"mine")

    with pytest.raises(AlreadyExists):
        store.create("a.json", b"another")
    assert store.read("a.json") == b"mine"

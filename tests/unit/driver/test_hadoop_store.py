"""What a store through Hadoop's FileSystem asks of it; real file systems are in ``integration/driver/test_hadoop.py``."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.hadoop_store import HadoopStore
from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.model.wire import MAX_RECORD_BYTES

MISSING = "java.io.FileNotFoundException"
ELSEWHERE = "org.example.NoSuchObject"


class JavaError(Exception):
    """An error of py4j, with the Java error in it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        kind = SimpleNamespace(getName=lambda: name)
        self.java_exception = SimpleNamespace(getClass=lambda: kind, toString=lambda: name)


class Path:
    def __init__(self, parent: Any, child: str = "") -> None:
        self.text = f"{parent}/{child}" if child else str(parent)

    def __str__(self) -> str:
        return self.text

    toString = __str__

    def getFileSystem(self, conf: Any) -> Any:
        return conf

    def getName(self) -> str:
        return self.text.rpartition("/")[2]


class Files:
    """A file system with some files; it notes each request."""

    def __init__(self, files: dict[str, bytes], error: str = MISSING) -> None:
        self.files, self.error = files, error
        self.asked: list[str] = []

    def makeQualified(self, path: Path) -> Path:
        return path

    def exists(self, path: Path) -> bool:
        self.asked.append("exists")
        if self.error == "away":
            raise JavaError("java.net.ConnectException")
        return str(path) in self.files

    def open(self, path: Path) -> Any:
        self.asked.append("open")
        if str(path) not in self.files:
            raise JavaError(self.error)
        data = self.files[str(path)]
        return SimpleNamespace(data=data, close=lambda: self.asked.append("close"))

    def listStatus(self, path: Path) -> list[Any]:
        self.asked.append("list")
        found = [name for name in self.files if name.startswith(f"{path}/")]
        if not found:
            raise JavaError(self.error)
        return [SimpleNamespace(getPath=lambda name=name: Path(name)) for name in found]


def store_of(files: Files) -> HadoopStore:
    io = SimpleNamespace(
        input=SimpleNamespace(BoundedInputStream=lambda stream, most: stream.data[:most]),
        IOUtils=SimpleNamespace(toByteArray=bytes),
    )
    apache = SimpleNamespace(commons=SimpleNamespace(io=io), hadoop=SimpleNamespace(fs=FS))
    jvm = SimpleNamespace(org=SimpleNamespace(apache=apache))
    return HadoopStore("s3a://home", SimpleNamespace(jvm=jvm), files)


FS = SimpleNamespace(Path=Path)
READ: Callable[[HadoopStore], object] = lambda store: store.read("stop.json")
NAMES: Callable[[HadoopStore], object] = lambda store: store.names("epochs")


@pytest.mark.parametrize(
    ("look", "found", "asked"),
    [
        pytest.param(READ, None, ["open"], id="a missing file"),
        pytest.param(NAMES, [], ["list"], id="a missing folder"),
    ],
)
def test_what_is_missing_costs_one_request(
    look: Callable[[HadoopStore], object], found: object, asked: list[str]
) -> None:
    files = Files({})
    assert look(store_of(files)) == found
    assert files.asked == asked


def test_a_file_that_is_there_is_opened_once() -> None:
    files = Files({"s3a://home/stop.json": b"stop"})
    assert READ(store_of(files)) == b"stop"
    assert files.asked == ["open", "close"]


def test_a_file_system_with_an_error_of_its_own_is_asked_whether_the_file_exists() -> None:
    files = Files({}, ELSEWHERE)
    assert READ(store_of(files)) is None
    assert files.asked == ["open", "exists"]


def test_a_store_that_is_away_lacks_no_file() -> None:
    files = Files({}, "away")
    with pytest.raises(
        HomeUnavailable, match=r"stop\.json cannot be used: java\.net\.ConnectException"
    ):
        READ(store_of(files))


def test_a_file_larger_than_a_record_is_refused() -> None:
    files = Files({"s3a://home/stop.json": b"x" * (MAX_RECORD_BYTES + 1)})
    with pytest.raises(RecordError, match="larger than"):
        READ(store_of(files))

"""
A folder as a store through Hadoop's FileSystem: homes and checkpoints that are not local paths.

It is reached through the Spark JVM, with the credentials Spark itself has (``spark.hadoop.*``), and
so needs no client library on the cluster.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from airflow_streaming.driver.jvm import ensure_gateway
from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable, RecordError, StreamingError
from airflow_streaming.model.spark.failures import first_line, presentable
from airflow_streaming.model.storage import LocalStore, Store
from airflow_streaming.model.uris import is_local, scheme_of, to_hadoop
from airflow_streaming.model.wire import MAX_RECORD_BYTES

WHOLE_ON_CLOSE: Final = frozenset({"s3a", "gs", "oss", "cosn", "obs", "wasb", "wasbs"})
"""Object stores: a file appears when it is closed, whole, and a rename would copy it."""

Result = TypeVar("Result")


def open_home(uri: str) -> Store:
    """Open the home where it lies: a local folder directly, anything else through Spark."""
    if is_local(uri):
        return LocalStore(uri)
    gateway = ensure_gateway()
    jvm = gateway.jvm
    conf = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(jvm.SparkConf())
    return HadoopStore(to_hadoop(uri), gateway, conf, shown=uri)


class HadoopStore:
    """
    A folder on any file system that Spark can reach.

    :param location: The folder as Hadoop spells it; without a scheme, on the default file system.
    :param gateway: py4j's gateway.
    :param conf: A Hadoop ``Configuration``.
    :param shown: The folder as the user wrote it; by default the qualified location.
    :param whole_on_close: Write in place instead of renaming; by default known from the scheme.
    """

    def __init__(
        self,
        location: str,
        gateway: Any,
        conf: Any,
        *,
        shown: str | None = None,
        whole_on_close: bool | None = None,
    ) -> None:
        self._gateway, self._conf = gateway, conf
        self._hadoop = gateway.jvm.org.apache.hadoop.fs
        with self._reporting(location):
            root = self._hadoop.Path(location)
            self._files = root.getFileSystem(conf)
            self._root = self._files.makeQualified(root)
            self.location = str(self._root.toString())
        self.uri = shown or self.location
        in_place = scheme_of(self.location) in WHOLE_ON_CLOSE
        self._in_place = in_place if whole_on_close is None else whole_on_close

    def read(self, path: str) -> bytes | None:
        with self._reporting(path):
            target = self._path(path)
            data = self._unless_missing(target, lambda: self._content(target))
        if data is not None and len(data) > MAX_RECORD_BYTES:
            raise RecordError(f"{self.uri}/{path} is larger than {MAX_RECORD_BYTES} bytes.")
        return data

    def create(self, path: str, data: bytes) -> None:
        with self._reporting(path):
            target = self._path(path)
            if self._files.exists(target):
                raise AlreadyExists(f"{self.uri}/{path}")
            try:
                self._put(target, data, overwrite=False)
            except Exception as err:
                if self._files.exists(target):
                    raise AlreadyExists(f"{self.uri}/{path}") from err
                raise

    def replace(self, path: str, data: bytes) -> None:
        with self._reporting(path):
            self._put(self._path(path), data, overwrite=True)

    def names(self, folder: str) -> list[str]:
        with self._reporting(folder):
            target = self._path(folder)
            entries = self._unless_missing(target, lambda: self._files.listStatus(target))
            found = [str(entry.getPath().getName()) for entry in entries or ()]
        return sorted(name for name in found if not name.startswith("."))

    def delete(self, path: str) -> None:
        with self._reporting(path):
            self._files.delete(self._path(path), False)

    def move(self, folder: str, target: str) -> bool:
        """Rename a folder; return ``False`` where it is missing or holds nothing, hidden files included."""
        with self._reporting(folder):
            source, new = self._path(folder), self._path(target)
            if not self._files.exists(source) or not len(self._files.listStatus(source)):
                return False
            self._files.mkdirs(new.getParent())
            if not self._files.rename(source, new):
                raise HomeUnavailable(
                    f"{self.uri}/{folder} could not be renamed to {target}. Check the rights of Spark there."
                )
            return True

    def _path(self, path: str) -> Any:
        return self._hadoop.Path(self._root, path) if path else self._root

    def _unless_missing(self, target: Any, look: Callable[[], Result]) -> Result | None:
        """
        Return what a look finds; ``None`` where the target is missing.

        A driver looks for records that are not there every second. To ask first whether they exist, an object store
        needs another request, for a missing one with a listing at twelve times the price.
        """
        try:
            return look()
        except Exception as err:
            if _says_missing(err) or not self._files.exists(target):
                return None
            raise

    def _content(self, target: Any) -> bytes:
        io = self._gateway.jvm.org.apache.commons.io
        stream = self._files.open(target)
        try:
            limited = io.input.BoundedInputStream(stream, MAX_RECORD_BYTES + 1)
            return bytes(io.IOUtils.toByteArray(limited))
        finally:
            stream.close()

    def _put(self, target: Any, data: bytes, *, overwrite: bool) -> None:
        if self._in_place:
            self._write(target, data, overwrite=overwrite)
            return
        name = f".{target.getName()}.{uuid.uuid4().hex}.tmp"
        temporary = self._hadoop.Path(target.getParent(), name)
        self._write(temporary, data, overwrite=False)
        try:
            self._rename(temporary, target, "OVERWRITE" if overwrite else "NONE")
        except Exception:
            with contextlib.suppress(Exception):
                self._files.delete(temporary, False)
            raise

    def _write(self, target: Any, data: bytes, *, overwrite: bool) -> None:
        stream = self._files.create(target, overwrite)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def _rename(self, source: Any, target: Any, option: str) -> None:
        # FileSystem.rename never replaces a file; FileContext's does, in one step.
        kinds = getattr(self._hadoop, "Options$Rename")
        options = self._gateway.new_array(kinds, 1)
        options[0] = getattr(kinds, option)
        context = self._hadoop.FileContext.getFileContext(target.toUri(), self._conf)
        context.rename(source, target, options)

    @contextlib.contextmanager
    def _reporting(self, path: str) -> Iterator[None]:
        try:
            yield
        except StreamingError:
            raise
        except Exception as err:
            # py4j, and pyspark in front of it, raise a dozen unrelated classes for one Java error.
            shown = getattr(self, "uri", "")
            raise HomeUnavailable(
                f"{f'{shown}/{path}' if shown else path} cannot be used: {_java_words(err)} "
                "Check the folder and Spark's credentials for it."
            ) from err


def _says_missing(err: Exception) -> bool:
    java = getattr(err, "java_exception", None)
    return java is not None and str(java.getClass().getName()) == "java.io.FileNotFoundException"


def _java_words(err: Exception) -> str:
    java = getattr(err, "java_exception", None)
    with contextlib.suppress(Exception):
        if java is not None:
            return presentable(first_line(str(java.toString())))
    return presentable(first_line(str(err)))

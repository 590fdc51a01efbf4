"""
Walking whole folders and opening files in them without following a link.

A folder that is swapped for a link during the walk is refused by the kernel, not followed. Reading
goes the same way. Only the root itself may be reached through links: it is the user's choice.

The walk follows no link, opens no file and never blocks: an entry that is neither file nor folder,
and a name that Spark would never give, is noted as strange and left alone. A live checkpoint
changes underneath, so a folder may vanish on the way.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from airflow_streaming.exceptions import CheckpointError, RecordError
from airflow_streaming.model.spark.listing import MAX_DEPTH, FileStat, Listing
from airflow_streaming.storage.blobs import size_in, stamp_in

MAX_FILES: Final = 1_000_000
"""A thousand partitions of four stores with a hundred versions each are 400,000 files."""

ROOT: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER: Final = ROOT | os.O_NOFOLLOW
# Opening a pipe in a file's place would wait for a writer.
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

READ_SIZE: Final = 1 << 20
"""Bytes of a large file that are held at once."""
_SORTS: Final = (
    (stat.S_ISLNK, "symbolic link"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISBLK, "block device"),
    (stat.S_ISCHR, "character device"),
)


def check_count(files: int, where: str) -> None:
    """
    Refuse a tree with too many files.

    :raises CheckpointError: more than ``MAX_FILES``.
    """
    if files > MAX_FILES:
        raise CheckpointError(
            f"{where} has more than {MAX_FILES} files, more than a checkpoint can have. Give the "
            "checkpoint of one query."
        )


def check_depth(path: str, where: str) -> None:
    """
    Refuse a folder that lies too deep.

    :raises CheckpointError: more than ``MAX_DEPTH`` folders down.
    """
    if path.count("/") >= MAX_DEPTH:
        raise CheckpointError(
            f"{where} has folders more than {MAX_DEPTH} levels deep ({shown(path):.200}); Spark "
            "makes none below seven. Give the checkpoint of one query."
        )


def is_usable(name: str) -> bool:
    """Tell whether a name can be part of a path: printable, and no way out of the folder."""
    return name.isprintable() and name not in {"", ".", ".."} and "/" not in name


def shown(path: str) -> str:
    """Return a path for a message: what cannot be printed is escaped."""
    return path if path.isprintable() else path.encode("unicode_escape").decode("ascii")


def remote_tree(fs: Any, root: str) -> Listing | None:
    """
    Walk a folder of an fsspec file system; ``None`` when nothing is there.

    :param root: As the file system spells it, without a slash at the end.
    :raises CheckpointError: too many files or too deep.
    """
    fs.invalidate_cache(root)
    found: Mapping[str, Mapping[str, Any]] = fs.find(root, detail=True)
    check_count(len(found), root)
    tree = _Tree(root)
    for name, info in found.items():
        path = tree.relative(str(info.get("name", name)))
        if path:
            tree.note(path, info)
    if not tree.folders and not tree.strange:
        # HDFS and the like have folders without files; elsewhere there is nothing.
        return Listing({"": {}}) if fs.isdir(root) else None
    return Listing(tree.folders, tree.strange)


class _Tree:
    def __init__(self, root: str) -> None:
        self.folders: dict[str, dict[str, FileStat]] = {}
        self.strange: dict[str, str] = {}
        self._root, self._prefix = root, root.strip("/") + "/"

    def relative(self, name: str) -> str:
        # Some file systems put a slash before their names and some do not.
        return name.lstrip("/").removeprefix(self._prefix)

    def note(self, path: str, info: Mapping[str, Any]) -> None:
        is_marker = path.endswith("/")
        *folders, name = path.rstrip("/").split("/")
        if not all(is_usable(part) for part in (*folders, name)):
            self.strange[shown(path)] = "a name no Spark gives"
            return
        parent = "/".join(folders)
        check_depth(parent, self._root)
        self._enter(folders)
        if is_marker or info.get("type") == "directory":
            self._enter([*folders, name])
        elif info.get("type") != "file" or info.get("islink"):
            self.strange[path] = "symbolic link" if info.get("islink") else "no file"
        else:
            self.folders[parent][name] = FileStat(size_in(info), stamp_in(info))

    def _enter(self, folders: Iterable[str]) -> None:
        path = ""
        self.folders.setdefault(path, {})
        for name in folders:
            path = f"{path}/{name}" if path else name
            self.folders.setdefault(path, {})


class _Kept(NamedTuple):
    """A folder that is open, and what tells it from another one at its path."""

    path: str
    handle: int
    identity: tuple[int, int]

    def is_there(self) -> bool:
        try:
            return _identity(os.stat(self.path)) == self.identity  # noqa: PTH116 - no Path needed
        except OSError:
            return False


class DirHandleCache:
    """
    The folder that was read from last, kept open with those above it: the next file is near.

    A handle is used only while its path still leads to it, so that a folder that was exchanged is opened
    anew. One ``DirHandleCache`` may be shared by threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[int, _Kept] = {}

    def __del__(self) -> None:
        for depth in list(self._kept):
            self._forget(depth)

    def open(self, root: str, folder: str, name: str) -> int:
        """
        Open a file of a folder.

        :raises OSError: as ``os.open`` does.
        :raises RecordError: a link is in the way.
        """
        with self._lock:
            return _open(name, _FILE, self._folder(root, folder, 0))

    def _folder(self, root: str, folder: str, depth: int) -> int:
        """Return the handle of a folder; each is opened by the one above it."""
        path = f"{root}/{folder}"
        kept = self._kept.get(depth)
        if kept is not None and kept.path == path and kept.is_there():
            return kept.handle
        if not folder:
            handle = os.open(root, ROOT)
        else:
            above, _, name = folder.rpartition("/")
            handle = _open(name, FOLDER, self._folder(root, above, depth + 1))
        self._forget(depth)
        self._kept[depth] = _Kept(path, handle, _identity(os.fstat(handle)))
        return handle

    def _forget(self, depth: int) -> None:
        if depth in self._kept:
            os.close(self._kept.pop(depth).handle)


def _open(name: str, flags: int, parent: int) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as err:
        if err.errno in {errno.ELOOP, errno.ENXIO}:
            raise RecordError("A link, or a socket.") from err
        raise


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def local_tree(root: str) -> Listing | None:
    """
    Walk a folder of this machine; ``None`` when it is missing.

    :raises CheckpointError: too many files or too deep.
    :raises OSError: a folder cannot be opened or listed.
    """
    try:
        handle = os.open(root, ROOT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    walk = _Walk(root)
    with _closing(handle):
        walk.enter(handle, "")
    return Listing(walk.folders, walk.strange)


def read_local(
    root: str, path: str, limit: int, near: DirHandleCache | None = None
) -> bytes | None:
    """
    Return up to ``limit + 1`` bytes of a file, without following a link below the root.

    :param path: Relative to the root, and checked.
    :param near: Makes reading many files of one folder cheaper.
    :raises RecordError: it is not a file, or a link is in the way.
        :raises OSError: it cannot be read.
    """
    found = _opened(root, path, near or DirHandleCache())
    if found is None:
        return None
    file, size = found
    # Ten thousand times in a row a context manager would be a tenth of the whole.
    try:
        return _content(file, size, limit + 1)
    finally:
        os.close(file)


def stream_local(root: str, path: str) -> Iterator[bytes] | None:
    """
    Return a file's bytes in chunks, without following a link below the root.

    :param path: Relative to the root, and checked.
    :raises RecordError: it is not a file, or a link is in the way.
        :raises OSError: it cannot be read.
    """
    found = _opened(root, path, DirHandleCache())
    return None if found is None else _chunks(found[0])


def _opened(root: str, path: str, near: DirHandleCache) -> tuple[int, int] | None:
    """Return the handle and the size of a file; ``None`` when it is missing."""
    folder, _, name = path.rpartition("/")
    try:
        return _checked(near.open(root, folder, name))
    except FileNotFoundError:
        return None
    except (NotADirectoryError, RecordError) as err:
        # With O_NOFOLLOW a link to a folder is "not a directory", like a file in its place.
        if os.path.lexists(os.path.join(root, path)):  # noqa: PTH118 - no Path is needed
            raise RecordError(f"{root}/{path} is not a file, or lies behind a link.") from err
        return None


def _checked(file: int) -> tuple[int, int]:
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise RecordError("No file.")
    return file, found.st_size


def _chunks(file: int) -> Iterator[bytes]:
    with _closing(file):
        while chunk := os.read(file, READ_SIZE):
            yield chunk


class _Walk:
    def __init__(self, root: str) -> None:
        self.folders: dict[str, dict[str, FileStat]] = {}
        self.strange: dict[str, str] = {}
        self._root, self._files = root, 0

    def enter(self, handle: int, path: str) -> None:
        check_depth(path, self._root)
        files = self.folders.setdefault(path, {})
        below = []
        with os.scandir(handle) as found:
            for entry in found:
                self._files += 1
                check_count(self._files, self._root)
                if not is_usable(entry.name):
                    self.strange[shown(_join(path, entry.name))] = "a name no Spark gives"
                elif entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                else:
                    self._note(entry, path, files)
        # Commits before offsets before state: a batch's files are read only after its plan.
        for name in sorted(below):
            self._descend(handle, name, _join(path, name))

    def _note(self, entry: os.DirEntry[str], path: str, files: dict[str, FileStat]) -> None:
        try:
            it = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            # Renamed or purged between the listing and now.
            return
        if stat.S_ISREG(it.st_mode):
            stamp = f"{it.st_mtime_ns:x}-{it.st_ctime_ns:x}-{it.st_ino:x}"
            files[entry.name] = FileStat(it.st_size, stamp)
        else:
            self.strange[_join(path, entry.name)] = kind_of(it.st_mode)

    def _descend(self, parent: int, name: str, path: str) -> None:
        try:
            handle = os.open(name, FOLDER, dir_fd=parent)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            self.strange[path] = "something that was a folder a moment ago"
            return
        with _closing(handle):
            self.enter(handle, path)


def _content(handle: int, size: int, limit: int) -> bytes:
    chunks = []
    # A request for one more byte shows the file's end at the first reading.
    most = min(size + 1, 1 << 24)
    while limit > 0:
        wanted = min(limit, most)
        chunk = os.read(handle, wanted)
        chunks.append(chunk)
        limit -= len(chunk)
        if len(chunk) < wanted:
            # Of a regular file, a short read is its end.
            break
    return b"".join(chunks)


def kind_of(mode: int) -> str:
    """Return the kind of an entry that is neither file nor folder, by its mode."""
    return next((name for is_sort, name in _SORTS if is_sort(mode)), "something that is not a file")


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


@contextlib.contextmanager
def _closing(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)

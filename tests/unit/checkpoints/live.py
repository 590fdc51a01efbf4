"""A checkpoint that changes while it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from airflow_streaming.model.spark.listing import Listing
from airflow_streaming.storage.blobs import Elsewhere
from airflow_streaming.storage.folders import Choice, Entry, Folders, open_folders


class Live:
    """
    Folders that call somebody before each file is copied.

    :param happen: Told the path that is about to be read, once the walk is done.
    """

    def __init__(self, root: Path, happen: Callable[[str], object] = lambda path: None) -> None:
        self._folders = open_folders(str(root))
        self._happen = happen
        self.uri = self._folders.uri
        self.read_paths: list[str] = []
        self.walks = 0

    def entries(self, folder: str, choose: Choice) -> list[Entry] | None:
        return self._folders.entries(folder, choose)

    def read(self, path: str, limit: int) -> bytes | None:
        self.read_paths.append(path)
        self._happen(path)
        return self._folders.read(path, limit)

    def stream(self, path: str) -> Iterator[bytes] | None:
        self.read_paths.append(path)
        self._happen(path)
        return self._folders.stream(path)

    def elsewhere(self, path: str) -> Elsewhere | None:
        return self._folders.elsewhere(path)

    def tree(self) -> Listing | None:
        self.walks += 1
        return self._folders.tree()

    def below(self, folder: str) -> Folders:
        return self._folders.below(folder)

"""The other half of a walk: one recursive listing of an fsspec file system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_streaming.checkpoint.limits import check_count, check_depth, is_usable, shown
from airflow_streaming.checkpoint.remote_info import size_in, stamp_in
from airflow_streaming.core.checkpoint.listing import FileStat, Listing


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

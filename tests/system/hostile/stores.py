"""
Crafts backup stores as one who may write them could, and holds what is done with them against it.

    python -m tests.system.hostile.stores [--seed 1] [--share 1.0]

Whatever is in a store, it is listed, verified, restored and cleaned up without hanging, without an
error of another kind than the package's, without a write outside the target or the store, and
without a byte of what lies outside; and retention never removes the last backup that can be restored.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import hashlib
import io
import json
import random
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.retention import apply_retention
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.model.arguments.keeping import RetentionPolicy
from tests.system.hostile.watching import SPECIALS, Counts, Outside, special
from tests.unit.checkpoints.made import NOON
from tests.unit.checkpoints.restoring import back_up, run_batches
from tests.unit.fuzz.hostile import HOSTILE

STREAM: Final = "orders"
Craft = Callable[[Path], None]
PATHS: Final = (
    *(
        "/etc/passwd",
        "../../outside/secret",
        "a/../../outside/x",
        "..",
        ".",
        "",
        "a//b",
        "a/",
        "~/x",
    ),
    *("\x00", "a\nb", "a\tb", "a" * 300, "/".join("a" * 600), "C:\\x", "%2e%2e/x", "metadata/x"),
)


class Store:
    """A store with three backups of a checkpoint that grew; the first one is what an attack spares."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "store"
        store = open_backup_store(str(self.root), create=True)
        self.backups = [
            back_up(store, run_batches(folder / "checkpoint", last), STREAM) for last in (2, 4, 6)
        ]
        self.first, self.last = self.backups[0].id, self.backups[-1].id

    def manifest(self, root: Path, backup_id: str) -> Path:
        return root / STREAM / "backups" / f"{backup_id}.json"


def sealed(record: dict[str, Any]) -> bytes:
    """Return a manifest whose checksum is right: whoever writes the store can make it so."""
    text = json.dumps(record).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    return b'{"backup": ' + text + b', "sha256": "' + digest + b'"}\n'


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = tree if isinstance(tree, dict) else range(len(tree))
    for step in list(steps):
        yield (*path, step)
        if isinstance(tree[step], dict | list):
            yield from leaves(tree[step], (*path, step))


def with_field(store: Store, path: tuple[Any, ...], value: Any) -> Craft:
    def craft(root: Path) -> None:
        file = store.manifest(root, store.last)
        record = json.loads(file.read_bytes())["backup"]
        inner = record
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = copy.deepcopy(value)
        file.write_bytes(sealed(record))

    return craft


def with_index(store: Store, change: Callable[[list[str]], list[str]]) -> Craft:
    """Change the lines of an index, and have the manifest and the index's name agree with it."""

    def craft(root: Path) -> None:
        file = store.manifest(root, store.last)
        record = json.loads(file.read_bytes())["backup"]
        use = record["bundles"][0]
        old = root / STREAM / "packs" / f"{use['index']}.index.gz"
        lines = change(gzip.decompress(old.read_bytes()).decode().splitlines())
        data = gzip.compress(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"), mtime=0)
        use["index"], use["index_size"] = hashlib.sha256(data).hexdigest(), len(data)
        (root / STREAM / "packs" / f"{use['index']}.index.gz").write_bytes(data)
        file.write_bytes(sealed(record))

    return craft


def with_pack(
    store: Store, make: Callable[[tarfile.TarFile, list[tarfile.TarInfo]], None]
) -> Craft:
    """Put another archive in the place of a pack; index and manifest agree with its digest and size."""

    def craft(root: Path) -> None:
        file = store.manifest(root, store.last)
        record = json.loads(file.read_bytes())["backup"]
        use = record["bundles"][0]
        folder = root / STREAM / "packs"
        lines = (
            gzip.decompress((folder / f"{use['index']}.index.gz").read_bytes())
            .decode()
            .splitlines()
        )
        head = json.loads(lines[0])
        with tarfile.open(folder / f"{head['pack']}.tar.gz") as old:
            members = old.getmembers()
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w:gz") as new:
            make(new, members)
        data = held.getvalue()
        head["pack"], head["pack_size"] = hashlib.sha256(data).hexdigest(), len(data)
        (folder / f"{head['pack']}.tar.gz").write_bytes(data)
        index = gzip.compress(("\n".join([json.dumps(head), *lines[1:]]) + "\n").encode(), mtime=0)
        use["index"], use["index_size"] = hashlib.sha256(index).hexdigest(), len(index)
        (folder / f"{use['index']}.index.gz").write_bytes(index)
        file.write_bytes(sealed(record))

    return craft


def of_sort(kind: bytes, target: str = "../../outside/secret") -> Any:
    def make(new: tarfile.TarFile, members: list[tarfile.TarInfo]) -> None:
        for member in members:
            one = tarfile.TarInfo(member.name)
            one.type, one.linkname, one.size = kind, target, 0
            new.addfile(one)

    return make


def renamed(name: str) -> Any:
    def make(new: tarfile.TarFile, members: list[tarfile.TarInfo]) -> None:
        one = tarfile.TarInfo(name)
        one.size = 5
        new.addfile(one, io.BytesIO(b"hello"))

    return make


def bomb(new: tarfile.TarFile, members: list[tarfile.TarInfo]) -> None:
    one = tarfile.TarInfo(members[0].name)
    one.size = 300 << 20
    new.addfile(one, io.BytesIO(bytes(one.size)))


def nothing(new: tarfile.TarFile, members: list[tarfile.TarInfo]) -> None:
    pass


def at_object(store: Store, sort: str, number: int, outside: Path) -> Craft:
    def craft(root: Path) -> None:
        files = sorted(path for path in root.rglob("*") if path.is_file())
        special(files[number % len(files)], sort, outside)

    return craft


def linked_folder(name: str, outside: Path) -> Craft:
    def craft(root: Path) -> None:
        place = root / STREAM / name
        shutil.rmtree(place, ignore_errors=True)
        place.symlink_to(outside)

    return craft


def newer_copies(store: Store, count: int, *, index: str) -> Craft:
    """Add newer manifests of which nothing can be restored, as retention would rather keep them."""

    def craft(root: Path) -> None:
        file = store.manifest(root, store.last)
        for number in range(count):
            record = json.loads(file.read_bytes())["backup"]
            record["id"] = f"20991231-23{number:02d}00-000000-forged{number}"
            record["begun_at"] = record["finished_at"] = f"2099-12-31T23:{number:02d}:00+00:00"
            if index:
                record["bundles"][0]["index"] = index
            store.manifest(root, record["id"]).write_bytes(sealed(record))

    return craft


def forged_checks(store: Store, backup_id: str, **changes: Any) -> Craft:
    def craft(root: Path) -> None:
        opened = open_backup_store(str(root))
        verify(opened, backup_id, Level.FULL, by="eve", now=NOON, stream=STREAM)
        folder = root / STREAM / "checks" / backup_id
        (said,) = folder.iterdir()
        record = {**json.loads(said.read_bytes()), **changes}
        (folder / "000002.json").write_text(json.dumps(record))

    return craft


def crafts(store: Store, chance: random.Random, outside: Path) -> Iterator[tuple[str, Craft]]:
    yield from of_manifests(store, chance)
    yield from of_contents(store)
    yield from of_places(outside, store)


def of_manifests(store: Store, chance: random.Random) -> Iterator[tuple[str, Craft]]:
    record = json.loads(store.manifest(store.root, store.last).read_bytes())["backup"]
    for path in leaves(record):
        for value in chance.sample(range(len(HOSTILE)), 4):
            yield "manifest field", with_field(store, path, HOSTILE[value])
    for name in PATHS:
        yield "query folder", with_field(store, ("queries", 0, "folder"), name)
        yield "id of a manifest", with_field(store, ("id",), name)
        yield "checkpoint of a query", with_field(store, ("queries", 0, "checkpoint"), name)
    for count in (1, 3, 30):
        for index in ("", "0" * 64, "/etc/passwd"):
            yield "newer manifests", newer_copies(store, count, index=index)


def of_contents(store: Store) -> Iterator[tuple[str, Craft]]:
    for name in PATHS:
        yield "member path", with_index(store, partial(_renamed, name))
        yield "name in a pack", with_pack(store, renamed(name))
    for kind in (
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
        tarfile.DIRTYPE,
    ):
        yield "sort in a pack", with_pack(store, of_sort(kind))
        yield "sort in a pack", with_pack(store, of_sort(kind, "/etc/passwd"))
    yield "bomb in a pack", with_pack(store, bomb)
    yield "empty pack", with_pack(store, nothing)
    yield "bomb as index", with_index(store, lambda lines: [*lines, "x" * (200 << 20)])
    yield "index doubled", with_index(store, lambda lines: [*lines, *lines[1:]])
    yield "index without members", with_index(store, lambda lines: lines[:1])


def of_places(outside: Path, store: Store) -> Iterator[tuple[str, Craft]]:
    for sort in SPECIALS:
        for number in range(12):
            yield f"a {sort} as an object", at_object(store, sort, number, outside)
    for name in ("backups", "packs", "files", "checks", "holds", "doomed", "removed"):
        yield "linked folder", linked_folder(name, outside)
    for change in (
        {"at": "2099-01-01T00:00:00+00:00"},
        {"manifest": "0" * 64},
        {"level": "full", "problems": []},
        {"problems": ["x" * 10_000] * 50},
        {"backup": store.first},
        {"at": 7},
    ):
        yield "forged verification", forged_checks(store, store.last, **change)


def _renamed(name: str, lines: list[str]) -> list[str]:
    head, first, *rest = lines
    return [head, "\t".join([name, *first.split("\t")[1:]]), *rest]


def attack(
    store: Store, number: int, sort: str, craft: Craft, folder: Path, counts: Counts
) -> None:
    """Do everything that is done with a store on a crafted copy of it."""
    name = f"{number} {sort}"
    counts.attacks[sort] += 1
    root, target = folder / "crafted", folder / "target"
    shutil.copytree(store.root, root)
    outside = Outside(folder / "outside")
    craft(root)
    usable = _restorable(root)
    opened = counts.try_act(name, "open", lambda: open_backup_store(str(root)))
    if opened is not None:
        counts.try_act(name, "list", lambda: [one.backup for one in opened.listed()])
        for level in (Level.QUICK, Level.FULL):
            check = partial(verify, opened, store.last, level, by="eve", now=NOON, stream=STREAM)
            counts.try_act(name, f"verify {level}", check)
        counts.try_act(
            name, "restore", lambda: restore(opened, store.last, Place(to=str(target / "new")))
        )
        policy = RetentionPolicy(keep_last=1)
        counts.try_act(
            name,
            "retention",
            lambda: apply_retention(opened, STREAM, policy, by="eve", grace=timedelta(0)),
        )
        if usable and not _restorable(root):
            counts.wrong.append(f"{name}: retention removed the last backup that can be restored")
    counts.wrong += [f"{name}: {one}" for one in outside.problems(target, root)]
    counts.wrong += [f"{name}: {one} was restored" for one in _odd(target)]


def _restorable(root: Path) -> bool:
    """Tell whether a backup verifies whole, asked of a copy, as asking leaves a record."""
    asked = root.parent / "asked"
    shutil.copytree(root, asked, symlinks=True, copy_function=_copy)
    try:
        store = open_backup_store(str(asked))
        return any(
            verify(store, one.id, Level.FULL, by="eve", now=NOON, stream=STREAM).holds
            for one in store.backups(STREAM)
        )
    except Exception:  # noqa: BLE001 - what breaks is told by the acts
        return False
    finally:
        shutil.rmtree(asked)


def _copy(source: str, target: str, *, follow_symlinks: bool = True) -> None:
    file = Path(source)
    if file.is_symlink():
        Path(target).symlink_to(file.readlink())
    elif file.is_file() and file.stat().st_size < 1 << 28:
        shutil.copyfile(source, target)


def _odd(target: Path) -> Iterator[str]:
    if target.exists():
        yield from (
            str(path.relative_to(target))
            for path in target.rglob("*")
            if path.is_symlink() or not (path.is_file() or path.is_dir())
        )


def main(words: list[str] | None = None) -> int:
    """Attack; return 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="tests.system.hostile.stores", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="of the attacks that are tried")
    asked = parser.parse_args(words)
    begun, counts, chance = time.monotonic(), Counts(), random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="hostile-") as text:
        base = Path(text)
        store = Store(base)
        choice = random.Random(asked.seed + 1)
        for number, (sort, craft) in enumerate(crafts(store, chance, base / "0" / "outside")):
            if choice.random() >= asked.share:
                continue
            folder = base / "0"
            folder.mkdir()
            try:
                attack(store, number, sort, craft, folder, counts)
            finally:
                shutil.rmtree(folder)
    return counts.say("crafted stores", begun)


if __name__ == "__main__":
    sys.exit(main())

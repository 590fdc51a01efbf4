"""
Corrupts backups at random and counts what a full verification finds.

Every corruption is of an intact store with several backups, and is undone afterwards. It counts as
found when verifying the backup it hit fails, be it because there no longer is one. Between the
corruptions the intact store is verified: whatever is found then is a false alarm.

Run it with ``python -m tests.system.corruptions [--count 10000] [--seed 1]``.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.vault.layout import manifest_path
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.exceptions import BackupNotFound
from airflow_streaming.model.arguments.choices import Level
from tests.unit.checkpoints.made import NOON, STREAM, local_store, make_backup, some_files

EVERY: Final = 25
"""After so many corruptions the intact store is verified."""


@dataclass(slots=True)
class Count:
    """
    What was tried and found.

    :param missed: What a verification did not find, in words.
    :param alarms: What it found in an intact store.
    """

    tried: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    intact: int = 0
    missed: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class World:
    """A store with intact backups, and one object of it that is about to suffer."""

    root: Path
    backup: Backup
    target: Path
    chance: random.Random

    @property
    def others(self) -> list[Path]:
        """Return the other objects of the same sort."""
        mine = "".join(self.target.suffixes)
        return [
            path
            for path in sorted(self.target.parent.iterdir())
            if path != self.target and "".join(path.suffixes) == mine
        ]


def flip(world: World) -> str:
    data = bytearray(world.target.read_bytes())
    at = world.chance.randrange(len(data))
    data[at] ^= 1 << world.chance.randrange(8)
    world.target.write_bytes(data)
    return f"a bit of byte {at}"


def truncate(world: World) -> str:
    data = world.target.read_bytes()
    size = world.chance.randrange(len(data))
    world.target.write_bytes(data[:size])
    return f"cut to {size} of {len(data)} bytes"


def delete(world: World) -> str:
    world.target.unlink()
    return "deleted"


def add(world: World) -> str:
    names = [
        f"{world.chance.randbytes(32).hex()}.tar.gz",
        f"{world.chance.randbytes(32).hex()}.index.gz",
        world.chance.randbytes(32).hex(),
        "notes.txt",
        world.target.name + ".bak",
    ]
    name = world.chance.choice(names)
    folder = world.chance.choice(["packs", "files"])
    world.root.joinpath(STREAM, folder, name).write_bytes(world.chance.randbytes(50))
    return f"{folder}/{name} added"


def append(world: World) -> str:
    with world.target.open("ab") as file:
        file.write(world.chance.randbytes(world.chance.randint(1, 600)))
    return "bytes appended"


def swap(world: World) -> str:
    other = world.chance.choice(world.others)
    mine, theirs = world.target.read_bytes(), other.read_bytes()
    world.target.write_bytes(theirs)
    other.write_bytes(mine)
    return f"swapped with {other.name}"


def rename(world: World) -> str:
    name = world.chance.randbytes(32).hex() + "".join(world.target.suffixes)
    world.target.rename(world.target.with_name(name))
    return "renamed"


def zero(world: World) -> str:
    data = bytearray(world.target.read_bytes())
    at = world.chance.choice([n for n, byte in enumerate(data[:4096]) if byte])
    size = world.chance.randint(1, 512)
    data[at : at + size] = bytes(len(data[at : at + size]))
    world.target.write_bytes(data)
    return f"{size} zeros at {at}"


def older(world: World) -> str:
    other = world.chance.choice(world.others)
    shutil.copyfile(other, world.target)
    return f"content of {other.name}"


def shuffle(world: World) -> str:
    data = world.target.read_bytes()
    cut = world.chance.randrange(1, len(data))
    if data[cut:] + data[:cut] == data:
        return delete(world)
    world.target.write_bytes(data[cut:] + data[:cut])
    return f"parts exchanged at {cut}"


CORRUPTIONS: Final[tuple[Callable[[World], str], ...]] = (
    flip, truncate, delete, add, append, swap, rename, zero, older, shuffle,
)  # fmt: skip


def corrupt(folder: Path, count: int, seed: int) -> Count:
    """Corrupt ``count`` times in a new store under a folder."""
    chance, found = random.Random(seed), Count()
    store = local_store(folder / "store")
    backups = _backups(store, seed)
    original = folder / "store"
    before = _contents(original)
    for number in range(count):
        backup = chance.choice(backups)
        target = original / chance.choice(_objects(store, backup))
        act = chance.choice(CORRUPTIONS)
        words = act(World(original, backup, target, chance))
        found.tried[act.__name__] += 1
        if _is_found(store, backup):
            found.found[act.__name__] += 1
        else:
            found.missed.append(f"{number}: {act.__name__} of {target.name}: {words}")
        _restore(original, before)
        if number % EVERY == 0:
            _look_at_intact(store, backups, found)
    return found


def _backups(store: BackupStore, seed: int) -> list[Backup]:
    """Small and large, alone and sharing bundles, of one bundle and of several."""
    first = some_files(seed, small=20, large=1)
    changed = {**first, "counts/offsets/18": b"v1\n{}", "counts/state/0/1/x.delta": b"d" * 700}
    return [
        make_backup(store, first, number=1),
        make_backup(store, changed, number=2),
        make_backup(store, some_files(seed + 1, small=5, large=0), number=3),
        make_backup(store, some_files(seed + 2, small=0, large=2), number=4),
    ]


def _objects(store: BackupStore, backup: Backup) -> list[str]:
    return [*sorted(store.needed(backup)), manifest_path(backup.stream, backup.id)]


def _contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in _files(root)}


def _files(root: Path) -> Iterator[Path]:
    for place in ("packs", "files", "backups"):
        yield from sorted((root / STREAM / place).iterdir())


def _restore(root: Path, before: dict[Path, bytes]) -> None:
    for path in list(_files(root)):
        if path not in before:
            path.unlink()
    for path, data in before.items():
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)
    # Verifications are kept for every corruption.
    shutil.rmtree(root / STREAM / "checks", ignore_errors=True)


def _is_found(store: BackupStore, backup: Backup) -> bool:
    try:
        return not verify(
            store, backup.id, Level.FULL, by="corruptions", now=NOON, stream=STREAM
        ).holds
    except BackupNotFound:
        return True


def _look_at_intact(store: BackupStore, backups: list[Backup], found: Count) -> None:
    for backup in backups:
        verification = verify(
            store, backup.id, Level.FULL, by="corruptions", now=NOON, stream=STREAM
        )
        found.intact += 1
        found.alarms.extend(verification.problems)


def main() -> int:
    """Run the program and print the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = corrupt(Path(folder), arguments.count, arguments.seed)
    told = {
        "corruptions": sum(found.tried.values()),
        "found": sum(found.found.values()),
        "verified_intact": found.intact,
        "false_alarms": len(found.alarms),
        "by_sort": {name: f"{found.found[name]}/{n}" for name, n in sorted(found.tried.items())},
        "missed": found.missed[:20],
        "seconds": round(time.monotonic() - begun),
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    return 0 if not found.missed and not found.alarms else 1


if __name__ == "__main__":
    raise SystemExit(main())

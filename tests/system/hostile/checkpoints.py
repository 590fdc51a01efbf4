"""
Damages real checkpoints as one who may write them could, and holds what reads them against it.

    python -m tests.system.hostile.checkpoints [--count 1100] [--seed 1]

Checkpoints that released Sparks wrote (``tests.golden``) are inspected, backed up and restored after a
file of theirs was damaged, or replaced by something that is no plain file, or after files with hostile
names were added. Nothing hangs, ends with an error of another kind than the package's, writes outside
its target, or takes over a byte of what lies outside.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from airflow_streaming.checkpoints.reader import Reader, inspect
from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.storage.folders import LARGEST_VARIABLE, open_folders
from tests.golden import golden_checkpoints
from tests.system.hostile.watching import SPECIALS, Counts, Outside, is_small, special
from tests.unit.checkpoints.damage import HOSTILE, damaged
from tests.unit.checkpoints.restoring import back_up

NAMES: Final = (
    *(
        "9" * 30,
        "9" * 200,
        "-1",
        "1e5",
        "\u0661",
        "17 ",
        "17\n",
        "\udcff",
        "..17",
        "17.delta",
        "a" * 250,
    ),
    *("metadata.tmp", ".metadata.crc", "_metadata", "00000000000000000017", "$(id)", "<script>"),
)
"""Of files that stand among those of Spark."""
LOGS: Final = ("offsets", "commits", "sources/0", "state/0/0", "")


def damage(file: Path, chance: random.Random, outside: Path) -> None:
    file.write_bytes(damaged(file.read_bytes() or b"\n", chance))


def replace(file: Path, chance: random.Random, outside: Path) -> None:
    special(file, chance.choice(SPECIALS), outside)


def remove(file: Path, chance: random.Random, outside: Path) -> None:
    file.unlink()


def fill(file: Path, chance: random.Random, outside: Path) -> None:
    file.write_bytes(chance.choice(HOSTILE) * chance.choice((1, 1000, 100_000)))


def grow(file: Path, chance: random.Random, outside: Path) -> None:
    os.truncate(file, 1 << chance.choice((24, 31, 40)))


def link_folder(file: Path, chance: random.Random, outside: Path) -> None:
    folder = file.parent
    shutil.rmtree(folder)
    folder.symlink_to(chance.choice((outside, Path("/dev"), folder)))


def swap(file: Path, chance: random.Random, outside: Path) -> None:
    others = sorted(path for path in file.parent.iterdir() if is_small(path) and path != file)
    if others:
        file.write_bytes(chance.choice(others).read_bytes())
    else:
        file.unlink()


DAMAGES: Final[tuple[Callable[[Path, random.Random, Path], None], ...]] = (
    *(damage, damage, replace, replace, remove, fill, grow, link_folder, swap),
)


def add(checkpoint: Path, chance: random.Random, outside: Path) -> None:
    """Add a file with a hostile name to one of the folders, plain or not."""
    folder = checkpoint / chance.choice(LOGS)
    if not folder.is_dir():
        folder = checkpoint
    # What an attack before has made a link leads to what must stay as it is.
    if not folder.resolve().is_relative_to(checkpoint.parent.resolve() / checkpoint.name):
        return
    file = folder / chance.choice(NAMES)
    if os.path.lexists(file):
        return
    file.write_bytes(chance.choice(HOSTILE))
    if chance.random() < 0.5:
        special(file, chance.choice(SPECIALS), outside)


def attack(
    original: Path, number: int, chance: random.Random, folder: Path, counts: Counts
) -> None:
    """Damage a copy of a checkpoint, and do with it what is done with checkpoints."""
    checkpoint = folder / "checkpoint"
    shutil.copytree(original, checkpoint)
    outside = Outside(folder / "outside")
    for _ in range(chance.choice((1, 1, 1, 3))):
        if not checkpoint.is_dir():
            break  # it was made a link to itself
        files = sorted(path for path in checkpoint.rglob("*") if is_small(path))
        act = chance.choice(DAMAGES)
        if chance.random() < 0.15 or not files:
            counts.attacks["add"] += 1
            add(checkpoint, chance, outside.folder)
        else:
            counts.attacks[act.__name__] += 1
            act(chance.choice(files), chance, outside.folder)
    name, uri = f"{number} {original.parent.name}", str(checkpoint)
    counts.try_act(name, "inspect", lambda: inspect(uri))
    counts.try_act(
        name, "inspect in full", lambda: Reader(open_folders(uri)).inspect(thorough=True)
    )
    store = open_backup_store(str(folder / "store"), create=True)
    backup = counts.try_act(name, "back up", lambda: back_up(store, checkpoint))
    if backup is not None:
        place = Place(to=str(folder / "target" / "new"))
        counts.try_act(name, "restore", lambda: restore(store, backup.id, place))
    found = outside.problems(folder / "store", folder / "target") if folder.exists() else ()
    counts.wrong += [f"{name}: {one}" for one in found]


def main(words: list[str] | None = None) -> int:
    """Attack; return 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="tests.system.hostile.checkpoints", description=__doc__)
    parser.add_argument("--count", type=int, default=1_100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(words)
    # What is larger is refused, instead of copied for minutes.
    os.environ[LARGEST_VARIABLE] = "1"
    begun, counts, originals = time.monotonic(), Counts(), golden_checkpoints()
    with tempfile.TemporaryDirectory(prefix="hostile-") as text:
        for number in range(asked.count):
            chance = random.Random(f"{asked.seed} {number}")
            folder = Path(text) / str(number)
            folder.mkdir()
            try:
                attack(originals[number % len(originals)].path, number, chance, folder, counts)
            finally:
                shutil.rmtree(folder)
    return counts.say(f"hostile checkpoints ({asked.count})", begun)


if __name__ == "__main__":
    sys.exit(main())

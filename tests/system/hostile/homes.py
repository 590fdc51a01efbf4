"""
Damages homes at random, and holds what the command line and the pages show of them against it.

    python -m tests.system.hostile.homes [--count 1620] [--seed 1]

Whatever was done to files of a home, a command ends with one of its codes, nothing hangs, no byte of
what lies outside is shown, nothing but the home is changed, and the streams whose files were left
alone are listed as before.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from airflow_streaming.cli import status
from airflow_streaming.cli.main import main as command
from airflow_streaming.home.history import PartCache
from airflow_streaming.home.home import open_home
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.plugins.lists import timeline_view
from airflow_streaming.plugins.views import StreamWatch
from tests.page.homes import write_home
from tests.system.hostile.checkpoints import DAMAGES
from tests.system.hostile.watching import CANARY, Counts, Outside, is_small
from tests.unit.fuzz.hostile import HOSTILE

STREAMS: Final = {
    "orders": "healthy",
    "clicks": "gave_up",
    "fraud": "cutover",
    "bills": "restarted",
    "idle": "idle",
}
COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    ("status", "{}", "--json"),
    ("status", "{}"),
    ("events", "{}"),
    ("live", "{}", "--json"),
    ("log", "{}"),
    ("prune", "{}", "--dry-run", "--json"),
    ("upgrade", "status", "{}"),
    ("cutover", "status", "{}", "--json"),
    ("doctor", "{}", "--cores", "4"),
    ("top", "--once"),
    ("stop", "{}", "--reason", "x"),
    ("start", "{}", "--reason", "x"),
    ("declare-dead", "{}", "--epoch", "1", "--reason", "x"),
)
FILES: Final = (
    "999999999999.json",
    "000000.json",
    "9" * 200 + ".json",
    "-1.json",
    "x.json",
    "\udcff.json",
)
"""Hostile names of records."""
FOLDERS: Final = (
    "epochs",
    "circuit",
    "desired",
    "deployments",
    "changes",
    "live",
    "alerts",
    "sizes",
)


class Ended(Exception):
    """A command ended with a code that is none of its own."""


def told(home: str, words: tuple[str, ...]) -> str:
    """Return the output of a command."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        try:
            code = command(["--home", home, *words])
        except SystemExit as err:
            code = err.code if isinstance(err.code, int) else 99
    if code not in (0, 1, 2, 3):
        raise Ended(f"{' '.join(words)} ended with {code}")
    text = shown.getvalue()
    if CANARY.decode() in text:
        raise Ended(f"{' '.join(words)} shows what lies outside")
    if "Traceback (most recent call last)" in text:
        raise Ended(f"{' '.join(words)} shows a traceback")
    return text


def listed(home: str) -> set[str]:
    return {one["stream"] for one in json.loads(told(home, ("list", "--json")))["streams"]}


def other_value(file: Path, chance: random.Random, outside: Path) -> None:
    """Change values inside a record that stays JSON."""
    try:
        record = json.loads(file.read_bytes())
    except ValueError:
        return
    if not isinstance(record, dict) or not record:
        return
    for _ in range(chance.choice((1, 1, 3))):
        record[chance.choice(sorted(record))] = chance.choice(HOSTILE)
    file.write_text(json.dumps(record))


def hostile_name(file: Path, chance: random.Random, outside: Path) -> None:
    """Copy a record under another name, in its folder or in that of other records."""
    folder = file.parent if chance.random() < 0.5 else file.parents[1] / chance.choice(FOLDERS)
    if folder.is_dir() and not folder.is_symlink():
        shutil.copyfile(file, folder / chance.choice(FILES))


HOME_DAMAGES: Final = (*DAMAGES, other_value, other_value, other_value, hostile_name, hostile_name)


def page(home: str, stream: str, show: Callable[[StreamWatch], Any]) -> None:
    opened = open_home(home)
    watch = StreamWatch(home=opened.stream(stream), parts=PartCache(), probe=open_launcher().probe)
    text = json.dumps(show(watch), default=str, allow_nan=False)
    if CANARY.decode() in text:
        raise Ended("a page shows what lies outside")


def attack(
    original: Path, number: int, chance: random.Random, folder: Path, counts: Counts
) -> None:
    """Damage a copy of a home in one stream, and look at it."""
    home = folder / "home"
    shutil.copytree(original, home)
    outside = Outside(folder / "outside")
    stream = chance.choice(sorted(STREAMS))
    for _ in range(chance.choice((1, 1, 2, 4))):
        place = home / stream
        files = [path for path in place.rglob("*") if is_small(path)]
        if not files:
            break
        act = chance.choice(HOME_DAMAGES)
        counts.attacks[act.__name__] += 1
        act(chance.choice(sorted(files)), chance, outside.folder)
    name, uri, now = f"{number} {stream}", str(home), datetime.now(UTC)
    seen = counts.try_act(name, "list", partial(listed, uri))
    if seen is not None and not STREAMS.keys() - {stream} <= seen:
        counts.wrong.append(f"{name}: list hides {sorted(STREAMS.keys() - seen)}")
    for words in chance.sample(COMMANDS, 4):
        spoken = tuple(word.format(stream) for word in words)
        counts.try_act(name, words[0], partial(told, uri, spoken))
    shows: dict[str, Callable[[StreamWatch], Any]] = {
        "row": lambda watch: watch.row(now),
        "page": lambda watch: watch.whole(now),
        "timeline": lambda watch: timeline_view(watch.home, most=60),
    }
    for what in chance.sample(sorted(shows), 2):
        counts.try_act(name, what, partial(page, uri, stream, shows[what]))
    counts.wrong += [f"{name}: {one}" for one in outside.problems()]


def main(words: list[str] | None = None) -> int:
    """Attack; return 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="tests.system.hostile.homes", description=__doc__)
    parser.add_argument("--count", type=int, default=1_620)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(words)
    logging.disable(logging.CRITICAL)
    status.WATCH_SECONDS = 0.0
    begun, counts = time.monotonic(), Counts()
    with tempfile.TemporaryDirectory(prefix="hostile-") as text:
        original = Path(text) / "original"
        write_home(original, dict(STREAMS), hours=0.3, batch=30)
        for number in range(asked.count):
            folder = Path(text) / str(number)
            folder.mkdir()
            try:
                attack(original, number, random.Random(f"{asked.seed} {number}"), folder, counts)
            finally:
                shutil.rmtree(folder)
    return counts.say(f"damaged homes ({asked.count})", begun)


if __name__ == "__main__":
    sys.exit(main())

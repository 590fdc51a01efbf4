"""What has to hold whatever an attacker has written: what is seen of one act, and the counts of all."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airflow_streaming.exceptions import StreamingError

CANARY: Final = b"canary-8f14e45f"
"""Content of a file outside of all that is attacked; nothing may read or change it."""
MOST_SECONDS: Final = 20


class Hung(BaseException):
    """An act that took too long; nothing it calls takes this for an error."""


@contextmanager
def deadline(seconds: int = MOST_SECONDS) -> Iterator[None]:
    """End the block when it takes too long, also one that waits for a pipe."""

    def ring(*_: object) -> None:
        raise Hung(f"{seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass(slots=True)
class Counts:
    """
    What was tried.

    :param acts: Ends of acts, by ``act: end``; an end is ``done`` or ``refused``.
    :param wrong: What did not hold, in words.
    """

    attacks: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def try_act(
        self, attack: str, name: str, act: Callable[[], Any], *, seconds: int = MOST_SECONDS
    ) -> Any:
        """Do an act, which answers or refuses in time; return its answer, ``None`` for a refusal."""
        try:
            with deadline(seconds):
                found = act()
        except StreamingError as err:
            self.acts[f"{name}: refused"] += 1
            if not str(err).strip():
                self.wrong.append(f"{attack}: {name} was refused without a reason")
            return None
        except (Exception, Hung) as err:  # noqa: BLE001 - whatever else it is, it is counted
            self.acts[f"{name}: broke"] += 1
            where = traceback.extract_tb(err.__traceback__)[-1]
            self.wrong.append(
                f"{attack}: {name}: {type(err).__name__}: {err!s:.120} at {where.filename}:{where.lineno}"
            )
            return None
        self.acts[f"{name}: done"] += 1
        return found

    def say(self, what: str, begun: float) -> int:
        """Print the counts; return 1 when something did not hold."""
        lines = [
            f"{what}: {self.attacks.total()} attacks, {self.acts.total()} acts, {len(self.wrong)} wrong, "
            + f"{time.monotonic() - begun:.0f} s",
            *(f"  {name}: {count}" for name, count in sorted(self.attacks.items())),
            *(f"  {name}: {count}" for name, count in sorted(self.acts.items())),
            *(f"WRONG {one}" for one in self.wrong[:60]),
        ]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        return 1 if self.wrong else 0


class Outside:
    """A folder beside what is attacked, to which links of the attacker lead."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "secret").write_bytes(CANARY)
        (folder / "below").mkdir()

    def problems(self, *places: Path) -> Iterator[str]:
        """Yield what was changed outside, and what of it came into some places."""
        left = sorted(path.name for path in self.folder.rglob("*"))
        if left != ["below", "secret"] or (self.folder / "secret").read_bytes() != CANARY:
            yield f"files outside were changed: {left}"
        for place in places:
            for file in place.rglob("*"):
                if file.is_symlink() or not file.is_file() or file.stat().st_size > 1 << 20:
                    continue
                if CANARY in file.read_bytes():
                    yield f"{file} has what lies outside"


def is_small(path: Path) -> bool:
    """Tell whether a path is that of a plain file that an attack can read."""
    return not path.is_symlink() and path.is_file() and path.stat().st_size < 1 << 22


def special(path: Path, sort: str, outside: Path) -> None:
    """Put something that is no plain file in the place of a file."""
    path.unlink(missing_ok=True)
    if sort == "pipe":
        os.mkfifo(path)
    elif sort == "folder":
        path.mkdir()
    elif sort == "socket":
        # A path of a socket is short.
        with socket.socket(socket.AF_UNIX) as one:
            here = os.open(path.parent, os.O_RDONLY)
            try:
                one.bind(f"/proc/self/fd/{here}/{path.name[:60]}")
            finally:
                os.close(here)
        made = path.parent / path.name[:60]
        if made != path:
            made.rename(path)
    elif sort == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    elif sort == "device":
        path.symlink_to("/dev/zero")
    elif sort == "loop":
        path.symlink_to(path.name)
    else:
        path.symlink_to(outside / "secret")


SPECIALS: Final = ("pipe", "folder", "socket", "huge", "device", "loop", "link")

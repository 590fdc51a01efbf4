"""
The backup tools that are compared: this provider's command, restic, rclone, rsync and ``cp``.

Each is run as its own program, as a user or a dag would run it, so that its start counts as well.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

_LIMIT_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """
    Where backups go.

    :param local: A folder; ``None`` on S3.
    :param endpoint: ``http://host:port`` of an S3 server; ``bucket``, ``key`` and ``secret`` are
        for it.
    """

    local: Path | None = None
    endpoint: str = ""
    bucket: str = ""
    key: str = ""
    secret: str = field(default="", repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """Return what every tool needs to reach it."""
        if self.local is not None:
            return {}
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
            "FSSPEC_S3_ENDPOINT_URL": self.endpoint,
            "RCLONE_CONFIG_PLACE_TYPE": "s3",
            "RCLONE_CONFIG_PLACE_PROVIDER": "Other",
            "RCLONE_CONFIG_PLACE_ENDPOINT": self.endpoint,
            "RCLONE_CONFIG_PLACE_ACCESS_KEY_ID": self.key,
            "RCLONE_CONFIG_PLACE_SECRET_ACCESS_KEY": self.secret,
        }


class Tool(Protocol):
    """One tool with one store."""

    name: str
    stored: str
    """Its folder in the place, to count what it wrote."""

    def prepare(self) -> None:
        """Prepare once before the first backup."""

    def back_up(self, tree: Path) -> None:
        """Back up a tree, the second time on top of the first."""

    def verify(self, tree: Path) -> None:
        """Read everything that is in the store."""

    def restore(self, to: Path) -> None:
        """Write the newest backup to a new folder."""


class Ours:
    """``airflow-streaming checkpoint``."""

    name = "airflow-streaming"

    def __init__(self, place: Place, turn: int) -> None:
        self._place, self._newest, self.stored = place, "", f"ours{turn}"
        self._store = (
            str(place.local / self.stored) if place.local else f"s3://{place.bucket}/{self.stored}"
        )

    def prepare(self) -> None:
        """Nothing: the first backup makes the store."""

    def back_up(self, tree: Path) -> None:
        told = self._run("backup", str(tree), "--to", self._store, "--json")
        self._newest = json.loads(told)["backup_id"]

    def verify(self, tree: Path) -> None:
        self._run("verify", self._store, self._newest, "--level", "full")

    def restore(self, to: Path) -> None:
        self._run("restore", self._store, self._newest, "--to", str(to))

    def _run(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "airflow_streaming.cli.main", "checkpoint", *arguments]
        return run(command, self._place.environment)


class Restic:
    """restic, with its own encryption and the settings it comes with."""

    name = "restic"

    def __init__(self, place: Place, folder: Path, turn: int) -> None:
        self.stored = f"restic{turn}"
        where = f"s3:{place.endpoint}/{place.bucket}/{self.stored}"
        self._environment = {
            **place.environment,
            "RESTIC_PASSWORD": "benchmark",
            "RESTIC_CACHE_DIR": str(folder / "restic-cache"),
            "RESTIC_REPOSITORY": str(place.local / self.stored) if place.local else where,
        }

    def prepare(self) -> None:
        self._run("init")

    def back_up(self, tree: Path) -> None:
        run(["restic", "-q", "backup", "."], self._environment, tree)

    def verify(self, tree: Path) -> None:
        self._run("check", "--read-data")

    def restore(self, to: Path) -> None:
        self._run("restore", "latest", "--target", str(to))

    def _run(self, *arguments: str) -> None:
        run(["restic", "-q", *arguments], self._environment)


class Rclone:
    """rclone with 16 transfers at once."""

    name = "rclone"

    def __init__(self, place: Place, turn: int) -> None:
        self.stored = f"rclone{turn}"
        self._environment = place.environment
        self._there = (
            str(place.local / self.stored) if place.local else f"place:{place.bucket}/{self.stored}"
        )

    def prepare(self) -> None:
        """Nothing to do."""

    def back_up(self, tree: Path) -> None:
        self._run("sync", str(tree), self._there)

    def verify(self, tree: Path) -> None:
        self._run("check", "--download", str(tree), self._there)

    def restore(self, to: Path) -> None:
        self._run("copy", self._there, str(to))

    def _run(self, *arguments: str) -> None:
        run(["rclone", "-q", "--transfers=16", "--checkers=16", *arguments], self._environment)


class Rsync:
    """``rsync -a``; a local folder only."""

    name = "rsync"

    def __init__(self, folder: Path, turn: int) -> None:
        self.stored = f"rsync{turn}"
        self._there = folder / self.stored

    def prepare(self) -> None:
        """Nothing to do."""

    def back_up(self, tree: Path) -> None:
        run(["rsync", "-a", "--delete", f"{tree}/", f"{self._there}/"])

    def verify(self, tree: Path) -> None:
        run(["rsync", "-anc", f"{tree}/", f"{self._there}/"])

    def restore(self, to: Path) -> None:
        run(["rsync", "-a", f"{self._there}/", f"{to}/"])


class Copy:
    """``cp -a``; a local folder only, all of it each time."""

    name = "cp"

    def __init__(self, folder: Path, turn: int) -> None:
        self.stored = f"cp{turn}"
        self._there = folder / self.stored

    def prepare(self) -> None:
        """Nothing to do."""

    def back_up(self, tree: Path) -> None:
        shutil.rmtree(self._there, ignore_errors=True)
        run(["cp", "-a", str(tree), str(self._there)])

    def verify(self, tree: Path) -> None:
        run(["diff", "-r", str(tree), str(self._there)])

    def restore(self, to: Path) -> None:
        run(["cp", "-a", str(self._there), str(to)])


def tools(place: Place, folder: Path, turn: int = 0) -> list[Tool]:
    """Return every tool that is installed here and can use the place, with a store for each turn."""
    found: list[Tool] = [Ours(place, turn)]
    if shutil.which("restic"):
        found.append(Restic(place, folder, turn))
    if shutil.which("rclone"):
        found.append(Rclone(place, turn))
    if place.local is not None:
        if shutil.which("rsync"):
            found.append(Rsync(place.local, turn))
        found.append(Copy(place.local, turn))
    return found


def run(
    command: Sequence[str], environment: Mapping[str, str] | None = None, at: Path | None = None
) -> str:
    """Run a program to its end and return what it printed; fail with its words."""
    done = subprocess.run(
        command,
        check=False,
        env={**_plain_environment(), **(environment or {})},
        cwd=at,
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:6])} failed ({done.returncode}): {done.stderr[-2000:]}")
    return done.stdout


def keep_bytecode(cache: Path) -> None:
    """Let ours keep bytecode, as an installed package does, wherever this environment forbids it."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(cache)


def _plain_environment() -> dict[str, str]:
    # rclone refuses to start with a bundle of certificates, which a plain-text server needs not.
    return {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}

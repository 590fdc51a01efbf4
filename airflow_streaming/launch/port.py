"""
The port through which a driver is started, found again, looked at and killed.

A launcher knows processes and nothing else: which epoch may start, what a silent driver means and
whether to kill it is decided elsewhere. There is one implementation so far, ``local``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from airflow_streaming.core.epoch import Epoch, Host, Launch
from airflow_streaming.core.observation import Process

TOKEN_OPTION: Final = "--token"  # noqa: S105  # an option, and the token is an id
"""The wrapper's option whose value is the epoch's token: how a driver is recognised."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LaunchRequest:
    """
    One driver to start. It has no ``repr`` of its fields: the environment may hold secrets.

    :param epoch: The right to start it.
    :param command: ``spark-submit`` with all its arguments, the script and the script's arguments;
        among them ``--token`` and the epoch's token.
    :param environment: The driver's whole environment; nothing is inherited.
    :param log: File for the driver's output, appended to; made private to its owner.
    :param private_files: Files with secrets that the command names. The driver deletes them once
        Spark has read them; whoever does not get to start the driver deletes them instead.
    """

    epoch: Epoch
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    private_files: tuple[Path, ...] = ()

    def discard(self) -> None:
        """Delete the private files of a driver that is not going to be started."""
        for file in self.private_files:
            file.unlink(missing_ok=True)


class Launcher(Protocol):
    """Starts drivers and sees their processes."""

    kind: str
    """Name under which epochs record who started them, e.g. ``local``."""

    def host(self) -> Host:
        """Return the host on which ``launch`` would start a driver."""

    def launch(self, request: LaunchRequest) -> Launch:
        """
        Start the driver and return at once; it outlives the caller.

        :raises LaunchError: it could not be started; no process of it exists.
        """

    def find(self, epoch: Epoch) -> Launch | None:
        """Find the epoch's driver on this host, for a caller that died before recording it."""

    def probe(self, epoch: Epoch, launch: Launch | None, /) -> Process:
        """Look at the driver's processes; what cannot be seen is ``UNSEEN``, never an error."""

    def kill(self, epoch: Epoch, launch: Launch | None) -> Process:
        """
        Kill every process of the driver and wait at most 10 s for the proof.

        :returns: The last look: ``GONE``, or what is still there and why.
        """

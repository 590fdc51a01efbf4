"""
What a driver is told to run: its command line, then the records the command line points to.

Nothing is started before all of it was checked: the token is the epoch's, the script is the one
that was deployed, and no newer epoch exists.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.epoch import Epoch
from airflow_streaming.core.names import Layout, number_of
from airflow_streaming.exceptions import DriverRefusal, FencedError
from airflow_streaming.files.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """
    The driver's command line.

    :param properties_file: Spark's configuration, which may hold secrets; deleted at the start.
    """

    home: str
    stream: str
    epoch: int
    token: str
    properties_file: str | None = None

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Order:
        """Parse the command line; wrong use ends the process with code 2."""
        parser = argparse.ArgumentParser(prog="airflow_streaming driver", allow_abbrev=False)
        parser.add_argument("--home", required=True)
        parser.add_argument("--stream", required=True)
        parser.add_argument("--epoch", required=True, type=int)
        parser.add_argument("--token", required=True)
        parser.add_argument("--properties-file")
        return cls(**vars(parser.parse_args(arguments)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """
    One epoch's work.

    :param home: The home's URI, as the user wrote it.
    :param source: The script, byte for byte as deployed.
    """

    home: str
    epoch: Epoch
    deployment: Deployment
    source: bytes


def forget_properties(path: str | None) -> None:
    """Delete the private properties file, which Spark has read by now."""
    if path is None:
        return
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        # In cluster mode the path means nothing on this host; whatever lies there is not ours.
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid():
            Path(path).unlink()


def read_epoch(store: Store, layout: Layout, order: Order) -> Epoch:
    """
    Read the epoch and check that this process is its driver.

    :raises DriverRefusal: there is no such epoch, it is not ours, or it has ended.
    :raises RecordError: the record is malformed.
    :raises HomeUnavailable: the home cannot be read.
    """
    epoch = Epoch.from_bytes(_read(store, layout.record("epochs", order.epoch)))
    if epoch.token != order.token:
        raise DriverRefusal(
            f"The token on the command line is not that of epoch {order.epoch} of stream "
            f"{order.stream!r}. Start drivers through the provider only."
        )
    if store.read(layout.epoch(epoch.number, "exit.json")) is not None:
        raise DriverRefusal(
            f"Epoch {epoch.number} of stream {order.stream!r} has ended already; an epoch starts "
            "one driver. Start the stream again through the provider."
        )
    return epoch


def read_assignment(store: Store, layout: Layout, order: Order, epoch: Epoch) -> Assignment:
    """
    Read and check what this driver has to run.

    :raises DriverRefusal: a record is missing, or the script is not the deployed one.
    :raises RecordError: a record is malformed.
    :raises HomeUnavailable: the home cannot be read.
    """
    deployment = Deployment.from_bytes(_read(store, layout.record("deployments", epoch.deployment)))
    copy = layout.application(epoch.deployment, deployment.application_sha256)
    source = _read(store, copy)
    if hashlib.sha256(source).hexdigest() != deployment.application_sha256:
        raise DriverRefusal(
            f"{store.uri}/{copy} is not the script of deployment "
            f"{epoch.deployment}: its digest differs. Deploy the stream again."
        )
    return Assignment(home=order.home, epoch=epoch, deployment=deployment, source=source)


def check_newest(store: Store, layout: Layout, epoch: int) -> None:
    """
    Check that no newer epoch exists.

    :raises FencedError: naming the newer epoch.
    """
    names = store.names(layout.folder("epochs"))
    newest = max((number_of(name) or 0 for name in names), default=0)
    if newest > epoch:
        raise FencedError(
            f"Epoch {newest} of stream {layout.root!r} exists, so epoch {epoch} may not run."
        )


def _read(store: Store, path: str) -> bytes:
    data = store.read(path)
    if data is None:
        raise DriverRefusal(
            f"{store.uri}/{path} does not exist. Check that this host sees the stream's home."
        )
    return data

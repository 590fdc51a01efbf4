"""
The driver's work: its command line, then the records to which the command line points.

Checked before any start: the token belongs to the epoch, the script is the deployed script, and no
newer epoch exists.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import os
import re
import stat
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from airflow_streaming.exceptions import DriverRefusal, FencedError, RecordError
from airflow_streaming.model.names import Layout, number_of
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, Exit
from airflow_streaming.model.spark.conf import PRIVATE_CONF, PRIVATE_CONF_FILE
from airflow_streaming.model.spark.failures import hide
from airflow_streaming.model.spark.secret_conf import secret_values
from airflow_streaming.model.storage import Store
from airflow_streaming.model.wire import Record, parse_json_text

R = TypeVar("R", bound=Record)
_CONTINUED: Final = re.compile(r"\\\n[ \t\f]*")
_PROPERTY: Final = re.compile(r"(?![#!])((?:\\.|[^\\\s=:])+)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverArgs:
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
    def parse(cls, arguments: Sequence[str]) -> DriverArgs:
        """Parse the command line; wrong use ends the process with code 2."""
        parser = argparse.ArgumentParser(prog="airflow_streaming driver", allow_abbrev=False)
        parser.add_argument("--home", required=True)
        parser.add_argument("--stream", required=True)
        parser.add_argument("--epoch", required=True, type=int)
        parser.add_argument("--token", required=True)
        parser.add_argument("--properties-file")
        return cls(**vars(parser.parse_args(arguments)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    """
    An epoch's work.

    :param home: The home's URI, as the user wrote it.
    :param source: The script, byte for byte as deployed.
    """

    home: str
    epoch: Epoch
    deployment: Deployment
    source: bytes


def forget_properties(path: str | None) -> None:
    """
    Delete the private properties file, which Spark has read by now, and hide its secrets.

    The same with the file of Java options beside it, which Java has read.
    """
    if path is not None:
        hide(secret_values(properties_in(_taken(Path(path)))))
        options = _taken(Path(path).with_suffix(".java")).splitlines()
        hide(secret_values({option: option.strip('"') for option in options}))


def take_private_conf(environment: MutableMapping[str, str]) -> dict[str, str]:
    """
    Return the secret configuration of a driver on a cluster, and hide its values.

    It is taken out of the environment, so that no process of the script's inherits it.

    :raises DriverRefusal: it is there and cannot be read.
    """
    text, path = environment.pop(PRIVATE_CONF, ""), environment.pop(PRIVATE_CONF_FILE, "")
    try:
        if path:
            text = Path(path).read_text(encoding="utf-8")
        if text and not text.lstrip().startswith("{"):
            # Base64, where a shell would change quotes on the way.
            text = base64.b64decode(text, validate=True).decode()
        conf = parse_json_text(text) if text else {}
    except (OSError, ValueError, RecordError):
        # Not chained: the cause could quote it.
        raise DriverRefusal(
            "The secret part of the Spark configuration did not reach this driver: "
            f"{path or PRIVATE_CONF} cannot be read. Start the stream again through the provider."
        ) from None
    found = conf.items() if isinstance(conf, dict) else ()
    conf = {key: value for key, value in found if isinstance(value, str)}
    hide(secret_values(conf, all_of=tuple(conf)))
    return conf


def _taken(path: Path) -> str:
    """Return and delete a private file's text; empty if another user owns the file."""
    with contextlib.suppress(OSError):
        found = path.lstat()
        # In cluster mode the path means nothing on this host; a file there may belong to another
        # user.
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid():
            text = path.read_text(encoding="utf-8", errors="replace")
            path.unlink()
            return text
    return ""


def properties_in(text: str) -> dict[str, str]:
    """Return the keys and values of Java properties."""
    found: dict[str, str] = {}
    for line in _CONTINUED.sub("", text).splitlines():
        match = _PROPERTY.fullmatch(line.strip(" \t\f"))
        if match is not None:
            found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _LETTERS.get(m[2], m[2]), text)
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def read_epoch(store: Store, layout: Layout, order: DriverArgs) -> Epoch:
    """
    Read the epoch and check that this process is its driver.

    :raises DriverRefusal: the epoch does not exist, has ended, or belongs to another driver.
    :raises RecordError: the record is malformed.
    """
    epoch = _record(Epoch, store, layout, number=order.epoch)
    if not epoch.is_carried_by([order.token]):
        raise DriverRefusal(
            f"The token on the command line does not match epoch {order.epoch} of stream "
            f"{order.stream!r}. Start drivers through the provider only."
        )
    if store.read(layout.place(Exit, epoch=epoch.number)) is not None:
        raise DriverRefusal(
            f"Epoch {epoch.number} of stream {order.stream!r} has ended already; an epoch starts "
            "one driver. Start the stream again through the provider."
        )
    return epoch


def read_assignment(store: Store, layout: Layout, order: DriverArgs, epoch: Epoch) -> LaunchContext:
    """
    Read and check what this driver must run.

    :raises DriverRefusal: a record is missing, or the script is not the deployed one.
    :raises RecordError: a record is malformed.
    """
    deployment = _deployment(store, layout, epoch)
    copy = layout.application(epoch.deployment, deployment.application_sha256)
    source = _read(store, copy)
    if hashlib.sha256(source).hexdigest() != deployment.application_sha256:
        raise DriverRefusal(
            f"{store.uri}/{copy} is not the script of deployment "
            f"{epoch.deployment}: its digest differs. Deploy the stream again."
        )
    return LaunchContext(home=order.home, epoch=epoch, deployment=deployment, source=source)


def _deployment(store: Store, layout: Layout, epoch: Epoch) -> Deployment:
    if not epoch.serves or epoch.change is None:
        return _record(Deployment, store, layout, number=epoch.deployment)
    # Warmed for an upgrade, whose terms name records that do not exist yet. Only such a driver
    # needs them.
    from airflow_streaming.model.records.control import Change
    from airflow_streaming.model.records.upgrade import UpgradeTerms

    change = _record(Change, store, layout, number=epoch.change)
    terms = _record(UpgradeTerms, store, layout, change=change.number, digest=change.terms)
    proposed = terms.proposed
    if (proposed.number, proposed.stream) != (epoch.deployment, epoch.serves):
        raise DriverRefusal(
            f"The terms of change {change.number} of stream {epoch.serves!r} hold deployment "
            f"{proposed.number} of {proposed.stream!r}, not {epoch.deployment}. Start the upgrade again."
        )
    return proposed


def check_newest(store: Store, layout: Layout, epoch: int) -> None:
    """
    Check that no newer epoch exists.

    :raises FencedError: naming the newer epoch.
    """
    names = store.names(layout.folder(Epoch))
    newest = max((number_of(name) or 0 for name in names), default=0)
    if newest > epoch:
        raise FencedError(
            f"Epoch {newest} of stream {layout.root!r} exists, so epoch {epoch} may not run."
        )


def _record(cls: type[R], store: Store, layout: Layout, **fields: int | str) -> R:
    return layout.parse(cls, _read(store, layout.place(cls, **fields)), **fields)


def _read(store: Store, path: str) -> bytes:
    data = store.read(path)
    if data is None:
        raise DriverRefusal(
            f"{store.uri}/{path} does not exist. Check that this host sees the stream's home."
        )
    return data

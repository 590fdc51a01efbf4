"""
Reads a driver from the web pages of a standalone cluster: the place of its output, and its end.

The submission server knows a driver's worker, and the active master's page the address of that
worker's pages. Workers that can be reached through their master only (``spark.ui.reverseProxy``)
are read there. A worker keeps a driver's output after the driver has ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.launch.clusters.rest import Answer, Unreachable, ask
from airflow_streaming.launch.port import DriverLog

UI_PORT: Final = 8080
"""Of a master's pages, by default."""
OUTPUTS: Final = ("stdout", "stderr")
_ADDRESS: Final = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}")
_HEADER: Final = re.compile(
    rb"==== Bytes ([0-9]{1,18})-[0-9]{1,18} of ([0-9]{1,18}) of [^\n]* ====\n"
)
"""First line of Spark's answer: the bytes that it shows, and how many there are."""
_MOST_HEADER: Final = 8192
_TITLE: Final = 64
"""Bytes, at most, that we put above each output."""
_A_CHARACTER: Final = 3
"""Maximum bytes per byte of the file: at a cut, or for invalid UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """
    The end of one of a driver's outputs, from the begin of a line on.

    :param size: Bytes of all of it.
    """

    tail: bytes
    size: int

    @classmethod
    def of(cls, answer: Answer) -> Output | None:
        """Read a worker's answer; ``None`` if it is not an output."""
        header = _HEADER.match(answer.raw)
        if not answer.is_success or header is None:
            return None
        tail = answer.raw[header.end() :]
        if int(header[1]) > 0:
            # It begins within a line, and half a secret would not be recognized as one.
            tail = tail.partition(b"\n")[2]
        return cls(tail=tail, size=int(header[2]))


def worker_address(answer: Answer, worker: str) -> str:
    """
    Return the address of a worker's pages by a master's list; empty where it is not in it.

    :param answer: To a question for ``/json/``.
    """
    workers = answer.body.get("workers")
    for one in workers if answer.is_success and isinstance(workers, list) else []:
        if isinstance(one, dict) and one.get("id") == worker:
            address = str(one.get("webuiaddress"))
            return address if _ADDRESS.fullmatch(address) else ""
    return ""


def read_log(masters: Sequence[str], driver: str, worker: str, most: int) -> DriverLog:
    """
    Return the end of a driver's output; it never raises.

    :param masters: Addresses of the masters' pages.
    :param driver: Its submission id.
    :param worker: Id of its worker.
    :param most: Bytes to return at most.
    """
    place, troubles = f"stdout and stderr of {driver} on {worker}", list[str]()
    for master in masters:
        try:
            direct = worker_address(ask(f"{master}/json/"), worker)
        except Unreachable as err:
            troubles.append(
                f"{err}; where masters have their pages at another port than {UI_PORT}, the Spark "
                "connection names it as webui-port in its extra"
            )
            continue
        if not direct:
            troubles.append(f"{master} has no worker {worker}")
            continue
        place = f"{direct}/logPage/?driverId={driver}&logType=stderr"
        for address in (direct, f"{master}/proxy/{worker}"):
            try:
                return _read(address, driver, place, most)
            except Unreachable as err:
                troubles.append(str(err))
    return DriverLog(place=place, trouble="; ".join(troubles))


def _read(address: str, driver: str, place: str, most: int) -> DriverLog:
    """Read both outputs."""
    each, found = max(1, most // len(OUTPUTS) - _TITLE), dict[str, Output]()
    for kind in OUTPUTS:
        path = f"log/?driverId={driver}&logType={kind}&byteLength={each}"
        output = Output.of(ask(f"{address}/{path}", most=_A_CHARACTER * each + _MOST_HEADER))
        if output is not None:
            found[kind] = output
    if not found:
        raise Unreachable(f"{address} has no output of {driver}")
    parts = (f"==== {kind}\n".encode() + one.tail.rstrip(b"\n") for kind, one in found.items())
    return DriverLog(
        place=place, tail=b"\n".join(parts), size=sum(one.size for one in found.values())
    )

"""
Operator metadata: the records of Spark 4.0 and newer on each stateful operator.

Modified UTF-8 has two bytes for NUL and writes the two halves of a surrogate pair one by one. Spark
cuts long texts into chunks by characters, so a pair may span two chunks.

Version 1 is ``state/<op>/_metadata/metadata``. Version 2 is ``state/<op>/_metadata/v2/<batch>``, of
operators with state variables: it names its schema files by *absolute* paths, so moving such a
checkpoint requires rewriting them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.logs import (
    MAX_LOG_BYTES,
    count,
    items,
    json_object,
    mapping,
    split_version,
    string,
)

_NUL: Final = b"\xc0\x80"

OPERATOR_METADATA_VERSIONS: Final = (1, 2)
_WHAT: Final = "operator metadata"
_PATHS: Final = "stateSchemaFilePaths"


class JavaInput:
    """Reads values one after another."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data, self._what, self._at = data, what, 0

    def short(self) -> int:
        """
        Read a signed number of two bytes.

        :raises RecordError: the data ends before, as in every other reader.
        """
        return int.from_bytes(self._take(2), "big", signed=True)

    def length(self) -> int:
        """
        Read a number of four bytes that counts things which follow.

        :raises RecordError: it is below zero, or more than could follow.
        """
        number = int.from_bytes(self._take(4), "big", signed=True)
        if not 0 <= number <= len(self._data) - self._at:
            raise RecordError(f"The {self._what} counts {number} parts, and has no room for them.")
        return number

    def text(self) -> str:
        """
        Read one text.

        :raises RecordError: Not modified UTF-8.
        """
        return self._whole(self._piece())

    def chunks(self) -> str:
        """
        Read a text in chunks.

        :raises RecordError: as ``text``.
        """
        return self._whole("".join([self._piece() for _ in range(self.length())]))

    def end(self) -> None:
        """
        Check that everything was read.

        :raises RecordError: bytes are left.
        """
        if left := len(self._data) - self._at:
            raise RecordError(f"The {self._what} has {left} bytes after its end.")

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise RecordError(f"The {self._what} is cut off after {len(self._data)} bytes.")
        self._at += size
        return taken

    def _piece(self) -> str:
        size = int.from_bytes(self._take(2), "big")
        try:
            return self._take(size).replace(_NUL, b"\0").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as err:
            raise self._no_text() from err

    def _whole(self, text: str) -> str:
        if text.isascii():
            return text
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as err:
            raise self._no_text() from err

    def _no_text(self) -> RecordError:
        return RecordError(f"The {self._what} has bytes that are not Java's modified UTF-8.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStore:
    """
    A state store of an operator.

    :param prefix_columns: Leading key columns usable in searches.
    :param schema_paths: Absolute URIs of its schema files, oldest first; version 2 only.
    """

    name: str
    prefix_columns: int
    partitions: int
    schema_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorMetadata:
    """
    A stateful operator.

    :param version: 1 or 2.
    :param id: Its number in the plan.
    :param name: Spark's name of it, e.g. ``stateStoreSave``.
    :param properties: Spark's JSON of its state variables, time mode and output mode; version 2
        only.
    """

    version: int
    id: int
    name: str
    stores: tuple[OperatorStore, ...]
    properties: Mapping[str, Any] = field(default_factory=dict)


def parse_operator_metadata(data: bytes) -> OperatorMetadata:
    """
    Parse an operator's metadata.

    :raises RecordError: too large (1 MiB), of an unknown version, or not an operator's metadata.
    """
    version, about = _parsed(data)
    operator = mapping(about.get("operatorInfo"), "operatorInfo")
    return OperatorMetadata(
        version=version,
        id=count(operator.get("operatorId"), "operatorId"),
        name=string(operator.get("operatorName"), "operatorName"),
        stores=tuple(map(_store, _stores(about))),
        properties=_properties(about.get("operatorPropertiesJson")),
    )


def with_schema_paths(data: bytes, rewrite: Callable[[str], str]) -> bytes:
    """
    Return an operator's metadata with its schema files named anew.

    :param rewrite: Gives the new URI of an old one.
    :return: The very same bytes where there is nothing to rewrite.
    :raises RecordError: as ``parse_operator_metadata``, or the result would be too large.
    """
    parse_operator_metadata(data)
    version, about = _parsed(data)
    before = [store.get(_PATHS) for store in _stores(about)]
    for store in _stores(about):
        if store.get(_PATHS) is not None:
            store[_PATHS] = [rewrite(path) for path in store[_PATHS]]
    if before == [store.get(_PATHS) for store in _stores(about)]:
        return data
    text = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
    written = f"v{version}\n{text}".encode()
    if len(written) > MAX_LOG_BYTES:
        raise RecordError(f"The {_WHAT} with other paths is larger than {MAX_LOG_BYTES} bytes.")
    return written


def _parsed(data: bytes) -> tuple[int, dict[str, Any]]:
    version, body = split_version(data, OPERATOR_METADATA_VERSIONS, _WHAT, limit=MAX_LOG_BYTES)
    return version, json_object(body.strip(), _WHAT)


def _stores(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = items(about.get("stateStoreInfo"), "stateStoreInfo")
    return [mapping(store, "stateStoreInfo") for store in found]


def _store(store: Mapping[str, Any]) -> OperatorStore:
    paths = store.get(_PATHS)
    return OperatorStore(
        name=string(store.get("storeName"), "storeName"),
        prefix_columns=count(store.get("numColsPrefixKey"), "numColsPrefixKey"),
        partitions=count(store.get("numPartitions"), "numPartitions"),
        schema_paths=tuple(string(path, _PATHS) for path in items(paths or [], _PATHS)),
    )


def _properties(value: Any) -> dict[str, Any]:
    # An operator without properties has an empty text here.
    text = string(value or "", "operatorPropertiesJson")
    return json_object(text, "operatorPropertiesJson") if text else {}

"""
Operator metadata: what Spark 4.0 and newer note of each stateful operator.

Version 1 is ``state/<op>/_metadata/metadata``. Version 2 is ``state/<op>/_metadata/v2/<batch>``,
of operators with state variables: it names its schema files by *absolute* paths, so that such a
checkpoint can only be moved when they are rewritten.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.core.checkpoint.texts import (
    MAX_LOG_BYTES,
    count,
    items,
    json_object,
    mapping,
    split_version,
    string,
)
from airflow_streaming.exceptions import RecordError

OPERATOR_METADATA_VERSIONS: Final = (1, 2)

_WHAT: Final = "operator metadata"
_PATHS: Final = "stateSchemaFilePaths"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStore:
    """
    One state store of an operator.

    :param prefix_columns: Leading key columns it can be searched by.
    :param partitions: State partitions.
    :param schema_paths: Absolute URIs of its schema files, oldest first; version 2 only.
    """

    name: str
    prefix_columns: int
    partitions: int
    schema_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorMetadata:
    """
    One stateful operator.

    :param version: 1 or 2.
    :param id: Its number in the plan.
    :param name: Spark's name of it, e.g. ``stateStoreSave``.
    :param properties: What it tells of its state variables, time mode and output mode, as Spark
        wrote it; version 2 only.
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

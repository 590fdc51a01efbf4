"""
The state variables of a transformWithState, read from its processor.

The processor's ``init`` creates them, on the workers, when a query starts. In plan mode it is
called here with a handle that only records its calls.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.driver.patching import patch_method
from airflow_streaming.driver.plan.nodes import read_tree
from airflow_streaming.model.plan.schema import Column, columns_of
from airflow_streaming.model.plan.variables import StateVariable

_PARAMETERS: Final = {
    "value": ("stateName", "schema", "ttlDurationMs"),
    "list": ("stateName", "schema", "ttlDurationMs"),
    "map": ("stateName", "userKeySchema", "valueSchema", "ttlDurationMs"),
}
"""Parameters of pyspark's method for each kind of variable."""
_GETTERS: Final = {f"get{kind.capitalize()}State": kind for kind in _PARAMETERS}


class Variables:
    """The variables of the processors that a script has used, by the id of Spark's function."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[StateVariable, ...]] = {}
        self.notes: list[str] = []

    def patch(self, grouped: type) -> None:
        """Patch the class of grouped rows."""
        for name in ("transformWithStateInPandas", "transformWithState"):
            if hasattr(grouped, name):
                owner = next(one for one in grouped.__mro__ if name in one.__dict__)
                patch_method(owner, name, self._ask)

    def _ask(self, original: Any, grouped: Any, given: Mapping[str, Any]) -> Any:
        # The processor is Spark's to keep: what init sets on it stays on a copy.
        frame = original(grouped, **given)
        try:
            handle = Handle()
            copy.copy(given["statefulProcessor"]).init(handle)
            key = _function_of(frame)
        except Exception as err:  # noqa: BLE001 - the user's code, where it was not meant to run
            self.notes.append(
                "The state variables of a transformWithState could not be read here: "
                f"{type(err).__name__}."
            )
        else:
            self.found[key] = handle.variables
        return frame


class Handle:
    """Answers a processor's ``init``, and remembers the variables it makes."""

    def __init__(self) -> None:
        self._made: list[StateVariable] = []

    @property
    def variables(self) -> tuple[StateVariable, ...]:
        """Return the variables by name."""
        return tuple(sorted(self._made, key=lambda one: one.name))

    def __getattr__(self, name: str) -> Any:
        kind = _GETTERS.get(name)
        if kind is None:
            return lambda *_, **__: None

        def get(*args: Any, **kwargs: Any) -> Any:
            self._made.append(_described(kind, args, kwargs))
            return _Nothing()

        return get


class _Nothing:
    """A state that is not used yet."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


def _described(kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> StateVariable:
    given = {**dict(zip(_PARAMETERS[kind], args, strict=False)), **kwargs}
    ttl = int(given.get("ttlDurationMs") or 0)
    key, value = given.get("userKeySchema"), given.get("valueSchema", given.get("schema"))
    return StateVariable(
        kind=kind,
        name=str(given["stateName"]),
        key=() if key is None else _columns(key),
        value=_columns(value),
        has_ttl=ttl > 0,
        ttl_ms=ttl,
    )


def _columns(schema: Any) -> tuple[Column, ...]:
    """Return the columns of a schema, which is a type or DDL."""
    from pyspark.sql.types import StructType, _parse_datatype_string

    struct = schema if isinstance(schema, StructType) else _parse_datatype_string(str(schema))
    return columns_of(struct.jsonValue())


def _function_of(frame: Any) -> str:
    tree = read_tree(frame._jdf.queryExecution().analyzed().toJSON())
    for node in tree.walk():
        function = node.expression("functionExpr")
        if function is not None:
            return str(function.fields["resultId"]["id"])
    raise ValueError("the plan holds no function")

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

_GETTERS: Final = {
    "getValueState": "value",
    "getListState": "list",
    "getMapState": "map",
}


class Variables:
    """The variables of the processors that a script has used, by the id of Spark's function."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
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
            self.found[key] = handle.text
        return frame


class Handle:
    """Answers a processor's ``init``, and remembers the variables it makes."""

    def __init__(self) -> None:
        self._made: list[str] = []

    @property
    def text(self) -> str:
        """Return the variables by name, e.g. ``value total (n bigint); list seen (k string)``."""
        return "; ".join(sorted(self._made))

    def __getattr__(self, name: str) -> Any:
        sort = _GETTERS.get(name)
        if sort is None:
            return lambda *_, **__: None

        def get(*args: Any, **kwargs: Any) -> Any:
            self._made.append(_described(sort, args, kwargs))
            return _Nothing()

        return get


class _Nothing:
    """A state that is not used yet."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


def _described(sort: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    name, *schemas = [*args, *(v for k, v in kwargs.items() if k != "ttlDurationMs")]
    lives = [kwargs.get("ttlDurationMs"), *(one for one in schemas if isinstance(one, int))]
    life = next(filter(None, lives), None)
    ttl = f" with a time to live of {life} ms" if life else ""
    # Of a map the first is the key's and the second the value's.
    told = " -> ".join(_schema(one) for one in schemas if not isinstance(one, int))
    return f"{sort} {name} ({told}){ttl}"


def _schema(schema: Any) -> str:
    simple = getattr(schema, "simpleString", None)
    text = simple() if callable(simple) else str(schema)
    return text.removeprefix("struct<").removesuffix(">") if text.startswith("struct<") else text


def _function_of(frame: Any) -> str:
    tree = read_tree(frame._jdf.queryExecution().analyzed().toJSON())
    for node in tree.walk():
        function = node.expression("functionExpr")
        if function is not None:
            return str(function.fields["resultId"]["id"])
    raise ValueError("the plan holds no function")

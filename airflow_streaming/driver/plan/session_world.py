"""
Objects of a session that code finds by name: temporary views, registered functions, data sources, configuration.

Functions and data sources are noted when the script registers them, because Spark keeps them in a form that
cannot be read again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from airflow_streaming.driver.code.code_world import configuration
from airflow_streaming.driver.code.functions import Closure, closure_of
from airflow_streaming.driver.plan.columns import Names
from airflow_streaming.driver.plan.expressions import NAMING, Wording, node_options
from airflow_streaming.driver.plan.hidden import Hidden
from airflow_streaming.driver.plan.nodes import read_tree
from airflow_streaming.model.plan.tree import Expr
from airflow_streaming.model.spark.plan import OPAQUE

_WORD: Final = re.compile(r"\w+")
_NOTED: Final = "_airflow_streaming_registered"
"""The attribute of a class with its registered objects, by name."""
_OF_SESSION: Final = {
    "UDFRegistration": "function",
    "UDTFRegistration": "function",
    "DataSourceRegistration": "data source",
}


def note_registrations() -> None:
    """Patch the classes that register functions and data sources, to note what each name stands for."""
    for kind, owner in _registrations():
        if "register" in owner.__dict__ and not hasattr(owner, _NOTED):
            setattr(owner, _NOTED, {})
            owner.register = _noting(owner, owner.register, kind)


def registered(name: str, kind: str) -> Closure | None:
    """Return the closure of a function or data source that was registered under a name."""
    for known, owner in _registrations():
        found = getattr(owner, _NOTED, {}).get(name.lower())
        if known == kind and found is not None:
            return closure_of(getattr(found[1], "func", found[1]))
    return None


def reads_of_source(name: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a data source in Python; nothing for any other source."""
    closure = registered(name, "data source")
    if closure is not None:
        yield f"data source {name}", closure.code
        yield from closure.pieces.items()


def reads_in_session(session: Any, closure: Closure) -> Iterator[tuple[str, str]]:
    """Yield the objects of the session whose names are in the code of a sink's function."""
    words = {word.lower() for text in closure.texts for word in _WORD.findall(text)}
    words |= {word.lower() for word in closure.words}
    for _, owner in _registrations():
        for name in sorted(words & {*getattr(owner, _NOTED, {})}):
            found = registered(name, "function")
            if found is not None:
                yield f"function {name}", found.code
                yield from found.pieces.items()
    catalog = session._jsparkSession.sessionState().catalog()
    for name in sorted(_views(catalog)):
        if name.lower() in words:
            yield f"view {name}", _digest_of_view(session, catalog, name)
    yield from configuration(closure.texts, lambda key: _setting(session, key))


def digest_of_plan(plan: Any, gateway: Any) -> str:
    """Return the digest of a plan's nodes; ``opaque:...`` where one of them cannot be read."""
    tree = read_tree(plan.toJSON())
    hidden = Hidden(plan, gateway).placed(tree)
    names = Names(tree, Wording(hidden=hidden))
    nodes = [
        Expr(
            node.name,
            map(names.tree, node.all_expressions()),
            options=node_options(node, names.wording),
        ).to_json()
        for node in tree.walk()
        if node.name not in NAMING
    ]
    whole = json.dumps([nodes, hidden.reads], sort_keys=True)
    if OPAQUE in whole:
        return f"{OPAQUE} rows or code"
    return hashlib.sha256(whole.encode()).hexdigest()[:20]


def merged(*parts: Mapping[str, str]) -> dict[str, str]:
    """Return the pieces of several functions; two digests of one piece are joined."""
    found: dict[str, str] = {}
    for part in parts:
        for name, digest in part.items():
            known = found.get(name)
            found[name] = digest if known in (None, digest) else "+".join(sorted({known, digest}))
    return dict(sorted(found.items()))


def _registrations() -> Iterator[tuple[str, Any]]:
    from pyspark.sql import udf, udtf

    modules = [udf, udtf]
    with contextlib.suppress(ImportError):  # Spark 3.5 has no data sources in Python
        from pyspark.sql import datasource

        modules.append(datasource)
    for module in modules:
        for name, kind in _OF_SESSION.items():
            if hasattr(module, name):
                yield kind, getattr(module, name)


def _noting(owner: Any, original: Callable[..., Any], kind: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def register(self: Any, *args: Any, **kwargs: Any) -> Any:
        returned = original(self, *args, **kwargs)
        given = [*args, *kwargs.values()]
        with contextlib.suppress(Exception):  # the script continues after any error
            name = str(_name_of(given[0]) if kind == "data source" else given[0])
            getattr(owner, _NOTED)[name.lower()] = (kind, given[-1 if kind == "data source" else 1])
        return returned

    return register


def _name_of(source: Any) -> str:
    return str(source.name())


def _setting(session: Any, key: str) -> Any:
    value = session.conf.get(key, None)
    return session.sparkContext.getConf().get(key) if value is None else value


def _views(catalog: Any) -> list[str]:
    names = str(catalog.listLocalTempViews("*").mkString("\x1e"))
    return [one.strip("`").rpartition(".")[2].strip("`") for one in names.split("\x1e") if one]


def _digest_of_view(session: Any, catalog: Any, name: str) -> str:
    try:
        found = catalog.getTempView(name)
        plan = found.get()
        return digest_of_plan(plan, session.sparkContext._gateway)
    except Exception as err:  # noqa: BLE001 - a Spark that keeps it elsewhere
        return f"{OPAQUE} {type(err).__name__}"

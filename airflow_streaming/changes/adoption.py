"""
Decide which edits turn an existing application into a stream, and where copies of its checkpoints belong.

The script is parsed, never run. A plan by Spark, if there is one, shows a checkpoint location that the script
computes. Nothing is done here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.model.names import is_path_part
from airflow_streaming.model.spark.plan import ScriptPlan
from airflow_streaming.model.uris import is_local, local_path

LOCATION: Final = "checkpointLocation"
SESSION_LOCATION: Final = "spark.sql.streaming.checkpointLocation"
_STARTS: Final = frozenset({"start", "toTable"})
_DEEPEST: Final = 100
"""Variables that are followed to the beginning of a chain of calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSite:
    """
    A call that starts a query.

    :param name: Its name; empty without one, or if the script computes it.
    :param is_named: The script gives it a name.
    :param location: The text of its checkpoint's location; empty when the script gives none.
    :param is_literal: The location is a literal text.
    :param sink: Its format, ``foreachBatch``, ``foreach``, ``table``, or empty for Spark's default.
    """

    line: int
    name: str = ""
    is_named: bool = False
    location: str = ""
    is_literal: bool = False
    sink: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """
    The starts of queries in a script.

    :param session_location: The line on which the session gets a location for all checkpoints.
    """

    sites: tuple[StartSite, ...]
    session_location: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OldCheckpoint:
    """
    A checkpoint that a query continues.

    :param name: Of its folder, or the name that the user gave it.
    :param batch: The newest committed batch; ``None`` before the first.
    """

    uri: str
    name: str
    batch: int | None = None
    is_stateful: bool | None = None
    sources: tuple[str, ...] = ()
    spark: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """A query, the checkpoint that it continues, and the place of the copy in the home."""

    query: str
    checkpoint: OldCheckpoint
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """
    The way of an application to a stream.

    :param edits: Edits of the script, a text each, with its line.
    """

    queries: tuple[Continued, ...]
    edits: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Tell whether the checkpoints can be copied now."""
        return bool(self.queries) and not self.edits and not self.problems


def read_script(source: str | bytes) -> Script:
    """
    Find the calls that start queries in a script.

    :raises SyntaxError: it is not Python.
    """
    tree = ast.parse(source)
    values = _assigned(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    sites = [site for call in calls if (site := _site(call, values)) is not None]
    lines = [call.lineno for call in calls if SESSION_LOCATION in map(_constant, call.args)]
    return Script(
        sites=tuple(sorted(sites, key=lambda site: site.line)),
        session_location=min(lines, default=None),
    )


def _assigned(tree: ast.AST) -> Mapping[str, ast.expr]:
    """Return the value of every variable that is assigned once, and of every function with one ``return``."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            returns = (one for one in ast.walk(node) if isinstance(one, ast.Return))
            found.setdefault(node.name, []).extend(one.value for one in returns if one.value)
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign):
                found.setdefault(target.id, []).append(node.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _site(call: ast.Call, values: Mapping[str, ast.expr]) -> StartSite | None:
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in _STARTS):
        return None
    steps = dict[str, list[ast.Call]]()
    is_stream = False
    for node in _chain(call, values):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            steps.setdefault(node.func.attr, []).append(node)
        is_stream = is_stream or (isinstance(node, ast.Attribute) and node.attr == "writeStream")
    if not is_stream:
        return None
    name, location = _name(call, steps), _location(call, steps)
    text = _constant(location) if location is not None else ""
    return StartSite(
        line=call.end_lineno or call.lineno,
        name=_constant(name) if name is not None else "",
        is_named=name is not None,
        location=text or (ast.unparse(location) if location is not None else ""),
        is_literal=bool(text),
        sink=_sink(call.func.attr, call, steps),
    )


def _chain(call: ast.expr, values: Mapping[str, ast.expr]) -> Iterator[ast.expr]:
    """Yield the calls and attributes before a call, the last one first, through variables."""
    node: ast.expr | None = call
    for _ in range(_DEEPEST):
        if node is None:
            return
        yield node
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Attribute):
            node = node.value
        else:
            node = values.get(node.id) if isinstance(node, ast.Name) else None


def _name(call: ast.Call, steps: Mapping[str, Sequence[ast.Call]]) -> ast.expr | None:
    given = [one.args[0] for one in steps.get("queryName", ()) if one.args]
    return _keyword(call, "queryName") or next(iter(given), None)


def _location(call: ast.Call, steps: Mapping[str, Sequence[ast.Call]]) -> ast.expr | None:
    found = _keyword(call, LOCATION)
    for option in steps.get("option", ()):
        if found is None and len(option.args) == 2 and _constant(option.args[0]) == LOCATION:
            found = option.args[1]
    for options in steps.get("options", ()):
        found = found or _keyword(options, LOCATION)
    return found


def _sink(verb: str, call: ast.Call, steps: Mapping[str, Sequence[ast.Call]]) -> str:
    for function in ("foreachBatch", "foreach"):
        if function in steps:
            return function
    if verb == "toTable":
        return "table"
    given = _keyword(call, "format") or next(
        (one.args[0] for one in steps.get("format", ()) if one.args), None
    )
    return "" if given is None else _constant(given) or ast.unparse(given)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == name), None)


def _constant(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def adoption(
    script: Script, planned: ScriptPlan | None, found: Sequence[OldCheckpoint], target: str
) -> Adoption:
    """
    Return edits, obstacles and places for an application.

    :param planned: The plan of the script; ``None`` where none was made.
    :param found: The checkpoints that it continues.
    :param target: URI of the folder in the home for the checkpoints of the new stream.
    """
    names = _query_names(script, planned)
    edits = [*_naming(script, found), *_locations(script, planned, target)]
    problems = [*_script_problems(script, planned)]
    queries = list[Continued]()
    for checkpoint in found:
        problems += [f"{checkpoint.uri}: {one}" for one in checkpoint.problems]
        query = checkpoint.name
        if len(found) == len(names) == 1:
            query = names[0]
        if query in names:
            queries.append(
                Continued(
                    query=query,
                    checkpoint=checkpoint,
                    to=f"{target}/{_under(query, planned, target)}",
                )
            )
        elif not edits:
            known = ", ".join(names) or "none"
            problems.append(
                f"No query of the script is called {query!r}, after checkpoint {checkpoint.uri}. Its queries: "
                f"{known}. Name the query of a checkpoint: --of QUERY={checkpoint.uri}."
            )
    left = sorted(set(names) - {one.query for one in queries})
    if left and not edits and not problems:
        problems.append(
            f"Query {', '.join(map(repr, left))} has no checkpoint among those given and would start anew. Name "
            "its checkpoint: --of QUERY=URI."
        )
    return Adoption(queries=tuple(queries), edits=tuple(edits), problems=tuple(problems))


def _query_names(script: Script, planned: ScriptPlan | None) -> list[str]:
    if planned is not None and planned.queries:
        return [plan.query for plan in planned.queries]
    return [site.name for site in script.sites if site.name]


def _naming(script: Script, found: Sequence[OldCheckpoint]) -> Iterator[str]:
    taken = {site.name for site in script.sites}
    free = [one.name for one in found if one.name not in taken]
    unnamed = [site for site in script.sites if not site.is_named]
    for site in unnamed:
        # Which of several it is, only the author knows.
        name = free[0] if len(free) == len(unnamed) == 1 and is_path_part(free[0]) else "NAME"
        yield (
            f'line {site.line}: the query has no name. Add .queryName("{name}") before its start: the name finds '
            "the checkpoint."
        )


def _locations(script: Script, planned: ScriptPlan | None, target: str) -> Iterator[str]:
    if script.session_location is not None:
        yield (
            f"line {script.session_location}: {SESSION_LOCATION} gives all queries a place outside of the home. "
            "Remove it: every query gets its place in the home."
        )
    for site in script.sites:
        if site.is_literal:
            yield (
                f"line {site.line}: the checkpoint {site.location!r} is written in the script. Remove the option "
                f"{LOCATION}, or pass the place as an argument: --checkpoint {{checkpoint}}."
            )
        elif site.location and planned is not None:
            plan = planned.query(site.name)
            if plan is not None and not _is_below(plan.checkpoint, target):
                yield (
                    f"line {site.line}: query {plan.query!r} keeps its checkpoint at {plan.checkpoint}, outside of "
                    "the home. Pass the place as an argument of the script, such as --checkpoint "
                    f"{{checkpoint}}, or remove the option {LOCATION}."
                )


def _script_problems(script: Script, planned: ScriptPlan | None) -> Iterator[str]:
    if planned is not None and planned.problem:
        yield f"The script cannot be planned: {planned.problem}"
    if not script.sites and (planned is None or not planned.queries):
        yield "The script starts no query that can be found. Plan it with --runtime."
    if planned is not None:
        return
    for site in script.sites:
        if site.location and not site.is_literal:
            yield (
                f"line {site.line}: the script computes the place of the checkpoint ({site.location}). Give "
                "--runtime, so that a plan of the script shows it."
            )
        if site.is_named and not site.name:
            yield (
                f"line {site.line}: the script computes the name of the query. Give --runtime, so that a plan of the "
                "script shows it."
            )


def _under(query: str, planned: ScriptPlan | None, target: str) -> str:
    """Return the path below the target at which the driver looks for the checkpoint of a query."""
    plan = planned.query(query) if planned is not None else None
    if plan is None or not plan.checkpoint or not _is_below(plan.checkpoint, target):
        return query
    return _plain(plan.checkpoint)[len(_plain(target)) :].strip("/")


def _is_below(place: str, target: str) -> bool:
    return f"{_plain(place)}/".startswith(f"{_plain(target)}/")


def _plain(uri: str) -> str:
    return (local_path(uri) if is_local(uri) else uri).rstrip("/")


def spec_text(
    name: str, application: str, home: str, runtime: str, arguments: Sequence[str]
) -> str:
    """Return the StreamSpec of an adopted stream, as a DAG file has it."""
    lines = [
        f"    name={name!r},",
        f"    application={application!r},",
        f"    home={home!r},",
        f"    runtime={runtime!r},",
    ]
    if arguments:
        lines.append(f"    application_args={list(arguments)!r},")
    return "\n".join(["StreamSpec(", *lines, ")"])

"""
Writes the printed pages of docs: every public name, command, option, metric and code, each by its own docstring.

    .venv/bin/python scripts/reference.py

reference.md lists the names, parameters.md the parameters with defaults, api.md the docstrings for the site.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from enum import EnumMeta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from airflow.sdk import BaseHook, BaseOperator
from airflow.sdk.bases.sensor import BaseSensorOperator
from airflow.triggers.base import BaseTrigger

import airflow_streaming
from airflow_streaming import exceptions
from airflow_streaming.checkpoints.restore.replay import RefusalCode
from airflow_streaming.cli.parser import COMMANDS, Parser, build_parser
from airflow_streaming.get_provider_info import get_provider_info
from airflow_streaming.model.arguments.choices import Origin, SinkReplaySemantics
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.model.records.control import ChangeOutcome, EventKind
from airflow_streaming.model.records.cutover_table import CUTOVER
from airflow_streaming.model.records.epoch import LaunchCause, Outcome
from airflow_streaming.model.records.upgrade_table import UPGRADE
from airflow_streaming.supervision.readiness.subject import EventType

EXPORTING: Final = ("spec", "options", "assets", "live", "pointers", "testing")
"""Modules whose ``__all__`` is public."""
KINDS: Final = {
    "operators": BaseOperator,
    "sensors": BaseSensorOperator,
    "triggers": BaseTrigger,
    "hooks": BaseHook,
}
"""Rooms of which the classes of one kind are public."""
ALSO: Final = frozenset({"RehearsalOperator"})
"""Bases of another class that are used on their own too."""
RECORDED: Final = (
    (EventKind, "Events of the timeline", "`airflow-streaming events --kind`"),
    (AlertKind, "Alerts", "`alert.alert` of a notifier's context, see [alerts](alerts.md)"),
    (EventType, "Events of an asset", "`on` of `stream_asset`, see [gating](gating.md)"),
    (LaunchCause, "Causes of an epoch", "`epoch.cause` of `status --json`"),
    (Outcome, "Ends of a driver", "`exit.outcome` of `status --json`"),
    (ChangeOutcome, "Ends of a change", "the tab *Changes* of the Streams page"),
    (Origin, "Origins of a backup", "`RetentionPolicy(origins=...)` and `checkpoint list`"),
    (
        RefusalCode,
        "Refusals of a restore",
        "`checkpoint restore`, see [checkpoints](checkpoints.md#restoring)",
    ),
    (
        SinkReplaySemantics,
        "Sinks and a batch id that they have seen",
        "`sink_habits`, see [upgrades](upgrades.md#rollback)",
    ),
)
ELSEWHERE: Final = """\
Verdicts and rules are in [health](health.md), kinds of failure in [failures](failures.md), exported metrics in
[metrics](metrics.md), exit codes in [operations](operations.md#exit-codes-and-json), gate decisions in [gates](gates.md) with [every rule](gate-rules.md),
defects of checkpoints in [defects](defects.md), codes of sizing in [sizing](sizing.md), stages of
changes [below](#states-of-changes), risks of the doctor in [configuration](configuration.md#ask-the-doctor)."""
TASKS: Final = {
    "list": "operations.md#commands",
    "status": "operations.md#exit-codes-and-json",
    "top": "streams-page.md",
    "events": "on-call.md#first-three-commands",
    "log": "on-call.md#first-three-commands",
    "live": "blue-green.md#what-consumers-follow",
    "doctor": "configuration.md#ask-the-doctor",
    "check": "install.md#3-make-a-home",
    "conf": "configuration.md",
    "monitoring": "metrics.md#dashboards-and-an-alert",
    "init": "operations.md#a-new-home",
    "start": "operations.md#stop-and-start",
    "pause": "operations.md#hold-a-stream-between-two-batches",
    "stop": "operations.md#stop-and-start",
    "maintenance": "maintenance.md",
    "declare-dead": "lost-hosts.md",
    "hand-over": "security.md#the-owner-of-a-stream",
    "windows": "windows.md",
    "prune": "keeping.md",
    "remove": "keeping.md#removing-a-stream",
    "reuse": "keeping.md#removing-a-stream",
    "prepare-runtime": "runtimes.md#make-its-drivers-start-faster",
    "plan": "gates.md#in-continuous-integration",
    "gate": "gates.md",
    "gate rules": "gate-rules.md",
    "rehearse": "rehearsals.md",
    "adopt": "adopting.md",
    "upgrade": "upgrades.md#on-call",
    "campaign": "campaigns.md",
    "disaster-drill": "disaster.md",
    "cutover": "blue-green.md#before-between-and-after",
    "compare": "blue-green.md#before-between-and-after",
    "checkpoint": "checkpoints.md",
    "checkpoint inspect": "checkpoints.md#reading",
    "checkpoint verify": "checkpoints.md#verifying",
    "checkpoint restore": "checkpoints.md#restoring",
    "checkpoint undo": "checkpoints.md#restoring",
    "checkpoint abandon": "checkpoints.md#restoring",
    "checkpoint repair": "sink-repair.md",
    "checkpoint clone": "checkpoints.md#copies",
    "checkpoint carry-over": "checkpoints.md#copies",
    "checkpoint retain": "checkpoints.md#retention",
    "checkpoint delete": "checkpoints.md#retention",
}
"""The page of the task for which a command is given; a verb without a row has the page of its command."""
PARAMETERS: Final = ("spec", "options", "operators", "sensors", "orchestration", "assets")
"""Rooms whose parameters are listed."""
FIELD: Final = re.compile(r"^:param (\w+):(.*?)(?=^:|\Z)", re.DOTALL | re.MULTILINE)


def public_names() -> dict[str, list[str]]:
    """Return the public names of each public module."""
    found = {"airflow_streaming": [*airflow_streaming.__all__]}
    for name in EXPORTING:
        module = importlib.import_module(f"airflow_streaming.{name}")
        found[module.__name__] = sorted(module.__all__)
    for room in (*KINDS, "links", "orchestration"):
        package = importlib.import_module(f"airflow_streaming.{room}")
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(info.name)
            names = getattr(module, "__all__", None) or _of_kind(module, KINDS.get(room, object))
            if names and (room in KINDS or hasattr(module, "__all__") or room == "links"):
                found[module.__name__] = sorted(names)
    found[exceptions.__name__] = _of_kind(exceptions, Exception)
    return found


def _of_kind(module: Any, kind: type) -> list[str]:
    own = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, kind)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }
    bases = (
        {base for value in own.values() for base in value.__mro__[1:]}
        if kind is not Exception
        else set()
    )
    return [
        name
        for name, value in own.items()
        if (value not in bases or name in ALSO) and not inspect.isabstract(value)
    ]


def purpose(module: Any, name: str) -> str:
    """Return the first sentence of what a module says of a name."""
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return sentence(inspect.getdoc(value) or "")
    return sentence(_attribute_docs(inspect.getsource(module)).get(name, ""))


def member_docs(kind: EnumMeta) -> dict[str, str]:
    """Return the sentences below the members of an enum, by their values."""
    tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    bodies = (
        one.body for one in tree.body if isinstance(one, ast.ClassDef) and one.name == kind.__name__
    )
    docs = _docs_of(next(bodies))
    return {
        str(member.value): sentence(docs.get(name, "")) for name, member in kind.__members__.items()
    }


def _attribute_docs(source: str) -> dict[str, str]:
    return _docs_of(ast.parse(source).body)


def _docs_of(body: Sequence[ast.stmt]) -> dict[str, str]:
    found = {}
    for one, after in pairwise(body):
        target = one.targets[0] if isinstance(one, ast.Assign) else getattr(one, "target", None)
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(target, ast.Name) and is_text:
            found[target.id] = inspect.cleandoc(str(after.value.value))  # type: ignore[attr-defined]
    return found


def sentence(doc: str) -> str:
    """Return the first sentence of a docstring, for a cell of a table."""
    first = " ".join(doc.split("\n\n")[0].split())
    first = re.split(r"(?<=[^.][.])\s+(?=[A-Z`])", first)[0]
    return first.replace("``", "`").replace("|", "\\|")


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield a table of Markdown."""
    heads = [*heads]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def python() -> Iterator[str]:
    """Yield what can be imported."""
    for path, names in public_names().items():
        module = importlib.import_module(path)
        if path == "airflow_streaming":
            yield "The names that most dags need can be imported from `airflow_streaming` as well:"
            shown = ", ".join(f"`{name}`" for name in names if not name.startswith("_"))
            yield from textwrap.wrap(f"{shown}.", 110)
            yield ""
            continue
        yield f"### `{path}`"
        yield ""
        has_templates = ".operators" in path or ".sensors" in path
        heads = ["name", "purpose", *(["templated"] if has_templates else [])]
        yield from table(heads, (_row(module, name, has_templates) for name in names))


def _row(module: Any, name: str, has_templates: bool) -> list[str]:
    fields = getattr(getattr(module, name), "template_fields", ())
    shown = [", ".join(f"`{one}`" for one in fields)] if has_templates else []
    return [f"`{name}`", purpose(module, name), *shown]


def commands() -> Iterator[str]:
    """Yield the commands of the command line, each with the page of its task."""
    kinds = verbs(build_parser())
    for group, several in COMMANDS:
        yield f"### {group}"
        yield ""
        rows = (row for one in several for row in _acts(one.name, one.summary, kinds[one.name][1]))
        yield from table(("command", "effect", "page"), rows)


def _acts(command: str, summary: str, parser: argparse.ArgumentParser) -> Iterator[list[str]]:
    """Yield a row for each verb of a command, or for a command without verbs."""
    effects = {f"{command} {verb}": effect for verb, (effect, _) in verbs(parser).items()}
    for words, effect in (effects or {command: summary}).items():
        page = TASKS.get(words) or TASKS[command]
        title = page.partition(".")[0].replace("-", " ")
        yield [f"`{words}`", f"{effect[0].upper()}{effect[1:]}.", f"[{title}]({page})"]


def verbs(parser: argparse.ArgumentParser) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Return the help and the parser of each subcommand."""
    if isinstance(parser, Parser) and parser.fill is not None:
        fill, parser.fill = parser.fill, None
        fill(parser)
    groups = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    return {
        shown.dest: (str(shown.help), group.choices[shown.dest])
        for group in groups
        for shown in group._choices_actions
    }


def options() -> Iterator[str]:
    """Yield the options of Airflow's configuration."""
    told = get_provider_info()["config"]["streaming"]["options"]
    rows = (
        (f"`{name}`", sentence(one["description"]), f"`{one['default']}`" if one["default"] else "")
        for name, one in told.items()
    )
    yield from table(("option", "meaning", "default"), rows)


def metrics() -> Iterator[str]:
    """Yield the metrics of health rules."""
    rows = (
        (f"`{one.value}`", one.row.words.replace("{}", "…").replace("{column}", "name.column"))
        for one in Metric
    )
    yield from table(("metric", "figure"), rows)


def recorded() -> Iterator[str]:
    """Yield the codes in records."""
    for kind, title, where in RECORDED:
        yield f"### {title}"
        yield ""
        yield f"In {where}."
        yield ""
        rows = ((f"`{value}`", doc) for value, doc in member_docs(kind).items())
        yield from table(("code", "means"), rows)


def states() -> Iterator[str]:
    """Yield the states of the kinds of change."""
    for title, changes in (("Upgrade and restart", UPGRADE), ("Cutover", CUTOVER)):
        yield f"### {title}"
        yield ""
        found: dict[tuple[str, str], list[str]] = {}
        for (before, event), after in changes.rows.items():
            found.setdefault((str(before), str(after)), []).append(f"`{event}`")
        alike: dict[tuple[str, str], list[str]] = {}
        for (before, after), events in found.items():
            alike.setdefault((", ".join(sorted(events)), after), []).append(f"`{before}`")
        rows = ((", ".join(at), events, f"`{to}`") for (events, to), at in alike.items())
        yield from table(("state", "event", "next state"), rows)
        ends = ", ".join(f"`{state}`" for state in type(changes.start) if state in changes.ends)
        yield f"It begins with `{changes.start}` and ends with {ends}."
        yield ""


def parameters() -> str:
    """Return the page of parameters."""
    lines = [
        "# Fields and operators",
        "",
        "Every parameter with its default and effect, printed from the signatures and docstrings by `python scripts/reference.py`.",
        "The operators and sensors also take the arguments of Airflow's `BaseOperator` and `BaseSensorOperator`.",
        "",
    ]
    shown = {
        path: names
        for path, names in public_names().items()
        if path.split(".")[1:2] and path.split(".")[1] in PARAMETERS and not path.endswith("form")
    }
    values = {
        path: [getattr(importlib.import_module(path), name) for name in names]
        for path, names in shown.items()
    }
    elsewhere: dict[str, str] = {}
    for value in (one for several in values.values() for one in several):
        for name, text in _field_docs(value).items():
            elsewhere.setdefault(name, text)
    for path, names in shown.items():
        module = importlib.import_module(path)
        both = zip(names, values[path], strict=True)
        tables = [(name, [*_parameters(value, elsewhere)]) for name, value in both]
        tables.sort(key=lambda one: one[0] != "StreamSpec")
        if any(rows for _, rows in tables):
            lines += [f"## `{path}`", ""]
        for name, rows in tables:
            if rows:
                lines += [f"### {name}", "", purpose(module, name), ""]
                lines += table(("parameter", "default", "effect"), rows)
    return "\n".join(lines).rstrip() + "\n"


def _field_docs(value: Any) -> dict[str, str]:
    if not _is_own(value):
        return {}
    texts = (inspect.getdoc(one) or "" for one in reversed(getattr(value, "__mro__", (value,))))
    return {name: cell(said) for text in texts for name, said in FIELD.findall(text)}


def _parameters(value: Any, elsewhere: dict[str, str]) -> Iterator[list[str]]:
    is_typed_dict = hasattr(value, "__required_keys__")
    if isinstance(value, EnumMeta) or is_typed_dict or not _is_own(value):
        return
    docs = {**elsewhere, **_field_docs(value)}
    for name, one in inspect.signature(value).parameters.items():
        is_named = one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        if is_named and not name.startswith("_"):
            yield [f"`{name}`", default_of(value, one), docs.get(name, "")]


def default_of(value: Any, one: inspect.Parameter) -> str:
    """Return the default of a parameter as a reader would write it."""
    if one.default is one.empty:
        return "required"
    if type(one.default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS":
        made = value.__dataclass_fields__[one.name].default_factory()
        return "empty" if made in ({}, [], (), set()) else f"`{type(made).__name__}()`"
    default = one.default
    if default in ((), ""):
        return "empty"
    if isinstance(default, timedelta):
        return _time(default.total_seconds())
    text = repr(str(default) if isinstance(default, str) else default)
    return f"`{text}`".replace("|", "\\|")


def _time(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def cell(doc: str) -> str:
    """Return a docstring's paragraph for a cell of a table."""
    return " ".join(doc.split()).replace("``", "`").replace("|", "\\|")


def api() -> str:
    """Return the page whose docstrings mkdocstrings fills in."""
    lines = [
        "# Python API",
        "",
        "Docstrings of the public names. [Fields and operators](parameters.md) has the parameters in tables, the",
        "[reference](reference.md) lists every name. The site publishes these names as `objects.inv` for Sphinx and mkdocstrings.",
        "",
    ]
    for path, names in public_names().items():
        if path == "airflow_streaming":
            continue
        lines += [f"## `{path}`", ""]
        module = importlib.import_module(path)
        for name in names:
            value = getattr(module, name)
            if _is_own(value):
                lines += [f"::: {path}.{name}", ""]
    return "\n".join(lines).rstrip() + "\n"


def _is_own(value: Any) -> bool:
    """Tell whether a value is a class or function of the package."""
    is_known = inspect.isclass(value) or inspect.isfunction(value)
    return is_known and str(getattr(value, "__module__", "")).startswith("airflow_streaming")


def page() -> str:
    """Return the page of names."""
    lines = [
        "# Reference",
        "",
        "Printed by `python scripts/reference.py`: each name by the first sentence of its docstring. [Fields and",
        "operators](parameters.md) has the parameters with defaults, the [API](api.md) the whole docstrings.",
        "",
        "## Python",
        "",
        *python(),
        "## Commands",
        "",
        "`airflow-streaming COMMAND --help` shows arguments and examples; see [operations](operations.md#commands).",
        "",
        *commands(),
        "## Configuration",
        "",
        "Section `[streaming]` of Airflow's configuration, or `AIRFLOW__STREAMING__<OPTION>` in the environment.",
        "",
        *options(),
        "## Metrics of rules",
        "",
        "`HealthRule(metric=...)`; see [health](health.md).",
        "",
        *metrics(),
        "## Codes",
        "",
        *ELSEWHERE.splitlines(),
        "",
        *recorded(),
        "## States of changes",
        "",
        "Each step is a record of the change; `airflow-streaming upgrade` and `airflow-streaming cutover` show it.",
        "",
        *states(),
    ]
    return "\n".join(lines).rstrip() + "\n"


PAGES: Final = {"reference.md": page, "parameters.md": parameters, "api.md": api}

if __name__ == "__main__":
    for name, printed in PAGES.items():
        (Path(__file__).parents[1] / "docs" / name).write_text(printed(), encoding="utf-8")

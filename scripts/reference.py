"""
Prints docs/reference.md: every public name, command, option, metric and kind of record, by its own docstring.

    .venv/bin/python scripts/reference.py > docs/reference.md
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import EnumMeta
from itertools import pairwise
from typing import Any, Final

from airflow.sdk import BaseHook, BaseOperator
from airflow.sdk.bases.sensor import BaseSensorOperator
from airflow.triggers.base import BaseTrigger

import airflow_streaming
from airflow_streaming import exceptions
from airflow_streaming.checkpoints.backup.records import Origin
from airflow_streaming.checkpoints.restore.replay import RefusalCode
from airflow_streaming.cli.parser import COMMANDS
from airflow_streaming.get_provider_info import get_provider_info
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.model.records.control import ChangeOutcome, EventKind
from airflow_streaming.model.records.epoch import LaunchCause, Outcome
from airflow_streaming.model.records.upgrade import SinkReplaySemantics
from airflow_streaming.supervision.readiness.asset_events import EventType

EXPORTING: Final = ("spec", "options", "assets", "live", "pointers", "testing")
"""Modules whose ``__all__`` is public."""
KINDS: Final = {
    "operators": BaseOperator,
    "sensors": BaseSensorOperator,
    "triggers": BaseTrigger,
    "hooks": BaseHook,
}
"""Rooms of which the classes of one kind are public."""
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
        "What sinks do with a batch id that they have seen",
        "`sink_habits`, see [upgrades](upgrades.md#rollback)",
    ),
)
ELSEWHERE: Final = """\
Verdicts and rules are in [health](health.md), kinds of failure in [failures](failures.md), exported metrics in
[metrics](metrics.md) and [operations](operations.md#metrics-of-the-provider), exit codes in
[operations](operations.md#exit-codes-and-json), gate decisions in [gates](gates.md) with [every rule](gate-rules.md),
defects of checkpoints in [checkpoints](checkpoints.md), codes of sizing in [sizing](sizing.md), stages of
changes in [upgrades](upgrades.md#stages-and-events) and [blue-green](blue-green.md#states-and-events), risks of the doctor
in [configuration](configuration.md#ask-the-doctor)."""


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
        name for name, value in own.items() if value not in bases and not inspect.isabstract(value)
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
        heads = ["name", "what it is", *(["templated"] if has_templates else [])]
        yield from table(heads, (_row(module, name, has_templates) for name in names))


def _row(module: Any, name: str, has_templates: bool) -> list[str]:
    fields = getattr(getattr(module, name), "template_fields", ())
    shown = [", ".join(f"`{one}`" for one in fields)] if has_templates else []
    return [f"`{name}`", purpose(module, name), *shown]


def commands() -> Iterator[str]:
    """Yield the commands of the command line."""
    for group, several in COMMANDS:
        yield f"### {group}"
        yield ""
        rows = ((f"`{one.name}`", f"{one.summary}.") for one in several)
        yield from table(("command", "what it does"), rows)


def options() -> Iterator[str]:
    """Yield the options of Airflow's configuration."""
    told = get_provider_info()["config"]["streaming"]["options"]
    rows = (
        (f"`{name}`", sentence(one["description"]), f"`{one['default']}`" if one["default"] else "")
        for name, one in told.items()
    )
    yield from table(("option", "what it is", "default"), rows)


def metrics() -> Iterator[str]:
    """Yield the metrics of health rules."""
    rows = (
        (f"`{one.value}`", one.row.words.replace("{}", "…").replace("{column}", "name.column"))
        for one in Metric
    )
    yield from table(("metric", "what a query has done"), rows)


def recorded() -> Iterator[str]:
    """Yield the codes in records."""
    for kind, title, where in RECORDED:
        yield f"### {title}"
        yield ""
        yield f"In {where}."
        yield ""
        rows = ((f"`{value}`", doc) for value, doc in member_docs(kind).items())
        yield from table(("code", "means"), rows)


def page() -> str:
    """Return the whole page."""
    lines = [
        "# Reference",
        "",
        "Printed by `python scripts/reference.py`: each name by the first sentence of its docstring, which says the rest.",
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
    ]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())

"""
Which values of a task's rendered fields come from a run.

The author's text and values are trusted, and so are templates of variables, connections and dates, by
whichever Jinja settings the DAG has. All other templates, results of other tasks, and mapped arguments
come from a run; ``FormPolicy`` judges them before the task opens, fetches or starts anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from airflow_streaming.model.arguments.fields import is_filled_in, is_template
from airflow_streaming.model.arguments.form_refusals import Refusal, RunValue
from airflow_streaming.operators.common.templates import DEFAULT, Templates
from airflow_streaming.spec import StreamSpec

MAPPING: Final = "the mapping of the task"
_MOST_TOLD: Final = 3
_MOST_NAMED: Final = 40
"""A user takes all refused keys out at once; a hostile form may have millions."""


def refusal_text(task_id: str, refused: Sequence[Refusal]) -> str:
    """Return the error of a task with refused values: three with their reasons, more by name."""
    lines, others = [str(one) for one in refused[:_MOST_TOLD]], refused[_MOST_TOLD:]
    if others:
        names = ", ".join(one.name for one in others[:_MOST_NAMED])
        left = len(others) - _MOST_NAMED
        lines.append(f"also {names}" + (f" and {left} more" if left > 0 else ""))
    return "\n- ".join([f"Task {task_id!r} refuses values of this run; nothing was done:", *lines])


def unrendered(written: Iterable[Any], templates: Templates) -> str:
    """
    Return a text with ``{{`` or ``{%`` that the DAG's Jinja settings leave unchanged; empty without one.

    The forms of this provider are written with ``{{ }}``. A DAG with other delimiters would use their text.
    """
    found = (text for value in written for text in _texts(value))
    return next((one for one in found if is_template(one) and templates.is_constant(one)), "")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, StreamSpec):
        yield from _texts([getattr(value, name) for name in value.template_fields])
    elif isinstance(value, Mapping):
        yield from _texts([*value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _texts(one)


def delimiters_text(task_id: str, left: str) -> str:
    """Return the error of a task whose DAG does not render a template of the usual form."""
    return (
        f"Task {task_id!r}: the DAG's Jinja settings do not render {left!r:.160}. The forms of a stream are "
        "templates with {{ }}; nothing was done. Remove variable_start_string and its companions from the "
        "DAG's jinja_environment_kwargs, or use the stream's tasks in a DAG of their own."
    )


def mapped_fields(task: Any, fields: Iterable[str]) -> frozenset[str]:
    """
    Return the fields that a mapping fills in with results of other tasks or parameters.

    Airflow's set of resolved values omits the results that ``expand_kwargs`` gets from a task, and a copy of a
    value has another identity. The DAG still holds the mapping.
    """
    dag = task.get_dag() if task.has_dag() else None
    origin = None if dag is None else dag.task_dict.get(task.task_id)
    if origin is None or not origin.is_mapped:
        return frozenset()
    given = origin._get_specified_expand_input().value
    candidates = frozenset(field for field in fields if field not in origin.partial_kwargs)
    rows = (
        [given] if isinstance(given, Mapping) else given if isinstance(given, list | tuple) else []
    )
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        return candidates
    return frozenset(
        field for field in candidates if any(_is_of_run(row.get(field)) for row in rows)
    )


def _is_of_run(value: Any) -> bool:
    """Tell whether a mapping's value, or a part of it, is known to a run only."""
    if isinstance(value, Mapping):
        return any(map(_is_of_run, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_is_of_run, value))
    # The author's own texts are judged as templates after the mapping was expanded.
    return is_filled_in(value) and not isinstance(value, str)


def run_values(
    field: str,
    written: Any,
    rendered: Any,
    *,
    is_mapped: bool = False,
    templates: Templates = DEFAULT,
) -> Iterator[RunValue]:
    """
    Yield the values of one field that a run has filled in, without the author's own.

    :param written: The field as the DAG has it.
    :param rendered: The same as the task sees it.
    :param is_mapped: The field is filled in by the task's mapping, see ``mapped_fields``.
    :param templates: Reads templates as the DAG's Jinja settings do.
    """
    how: Any = {"is_mapped": is_mapped, "templates": templates}
    if isinstance(written, StreamSpec):
        for name in written.template_fields:
            before, after = getattr(written, name), getattr(rendered, name)
            yield from run_values(name, before, after, **how)
    elif _is_specs(written):
        for before, after in zip(written, rendered, strict=True):
            yield from run_values(field, before, after, **how)
    elif written and is_mapped:
        yield RunValue(field=field, value=_parsed(field, rendered), source=MAPPING)
    elif isinstance(written, set | frozenset):
        if source := _source([*written], templates):
            yield RunValue(field=field, value=[*rendered], source=source)
    elif isinstance(written, Mapping | list | tuple):
        yield from _members(field, written, rendered, templates)
    elif (source := _source(written, templates)) is not None:
        yield RunValue(field=field, value=_parsed(field, rendered), source=source)


def _members(field: str, written: Any, rendered: Any, templates: Templates) -> Iterator[RunValue]:
    """Yield the members of a mapping or a list that a run has filled in."""
    is_mapping = isinstance(written, Mapping)
    for key, text in written.items() if is_mapping else enumerate(written):
        if (source := _source(text, templates)) is not None:
            value = {key: rendered[key]} if is_mapping else rendered[key]
            yield RunValue(field=field, value=value, source=source)


def _is_specs(written: Any) -> bool:
    return (
        isinstance(written, list | tuple)
        and bool(written)
        and all(isinstance(one, StreamSpec) for one in written)
    )


def _source(written: Any, templates: Templates) -> str | None:
    """Return where a run's value comes from; ``None`` for the author's own."""
    if isinstance(written, os.PathLike) or hasattr(written, "protocol"):
        written = str(written)  # Airflow renders the path of an ObjectStoragePath.
    if isinstance(written, str):
        return None if templates.is_authors(written) else f"the template {written!r:.160}"
    if isinstance(written, Mapping):
        written = [*written.values()]
    if isinstance(written, list | tuple | set | frozenset):
        found = (_source(one, templates) for one in written)
        return next((one for one in found if one is not None), None)
    if is_filled_in(written):
        return "a parameter or the result of another task"
    return "a function of the DAG" if callable(written) else None


def is_authors(written: object, templates: Templates = DEFAULT) -> bool:
    """Tell whether a field is filled in by the author alone."""
    return _source(written, templates) is None


def _parsed(field: str, value: Any) -> Any:
    """Return a configuration that a template gives as JSON; any other value as it is."""
    if field != "conf" or not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value

"""
The places of a lane in plans: the values of ``{output}`` and ``{checkpoint}``.

Each lane has its own places, so two plans of the same code differ by them. Fingerprints of functions and
digests of nodes replace each place by a mark. Other texts are compared after a translation to the places of
one lane. Only a whole path counts: ``/data/out/eu`` is inside ``/data/out``, ``/data/output`` is outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeVar

from airflow_streaming.model.plan.tree import Tree, with_texts
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.plan import NodePlan, QueryPlan
from airflow_streaming.model.uris import for_spark, is_local, local_path

T = TypeVar("T")
_MARK: Final = "{{{}}}"
_BEFORE: Final = r"(?<![\w./-])"
_AFTER: Final = r"(?![\w.-])"
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{20}(?:\{output\}|\{checkpoint\})+")


@dataclass(frozen=True, kw_only=True)
class OwnPlaces:
    """
    The places of one deployment; an empty one is unknown.

    :param output: URI of ``{output}``.
    :param checkpoint: URI of ``{checkpoint}``.
    """

    output: str = ""
    checkpoint: str = ""

    @cached_property
    def _spellings(self) -> list[tuple[str, str]]:
        """Return each spelling of each place with the place's name, the longest first."""
        found = [
            (spelling, name)
            for name in ("output", "checkpoint")
            if getattr(self, name)
            for spelling in _spelled(getattr(self, name))
        ]
        return sorted(found, key=lambda one: -len(one[0]))

    def marked(self, text: str) -> str:
        """Return a text with a mark in place of each place, e.g. ``{output}/late``."""
        return self._with(text, _MARK.format)

    def in_terms_of(self, other: OwnPlaces, text: str) -> str:
        return self._with(text, lambda name: getattr(other, name))

    def _with(self, text: str, instead: Callable[[str], str]) -> str:
        for spelling, name in self._spellings:
            if spelling in text:
                pattern = f"{_BEFORE}{re.escape(spelling)}{_AFTER}"
                text = re.sub(pattern, instead(name).replace("\\", r"\\"), text)
        return text


def places_of(deployment: Deployment) -> OwnPlaces:
    return OwnPlaces(output=deployment.output, checkpoint=deployment.checkpoint)


def comparable(plan: QueryPlan, proposed: Deployment, live: Deployment) -> QueryPlan:
    """
    Return the plan of a proposed deployment, ready for a comparison with the live plans.

    Another lane has other places without a change of the script, so its texts get the places of the live
    deployment. In the same lane another place is a real change, so a function that uses it differs.
    """
    own, theirs = places_of(proposed), places_of(live)
    if proposed.stream != live.stream:
        found = _mapped(plan, lambda text: own.in_terms_of(theirs, text))
        # A file sink in another folder lacks the log of earlier batches.
        return replace(found, sink=replace(found.sink, target=plan.sink.target))
    moved = [
        _MARK.format(name)
        for name in ("output", "checkpoint")
        if getattr(own, name) != getattr(theirs, name)
    ]
    return _mapped(plan, lambda text: _apart(text, moved)) if moved else plan


def _apart(text: str, moved: list[str]) -> str:
    def told(found: re.Match[str]) -> str:
        return f"{found[0]} moved" if any(mark in found[0] for mark in moved) else found[0]

    return _FINGERPRINT.sub(told, text)


def _spelled(uri: str) -> set[str]:
    plain = uri.rstrip("/")
    found = {plain, for_spark(uri).rstrip("/")}
    if is_local(uri):
        path = local_path(uri).rstrip("/")
        found |= {path, f"file:{path}", f"file://{path}"}
    return {spelling for spelling in found if len(spelling) > 1}


def _mapped(value: T, change: Callable[[str], str]) -> T:
    """Return a value with each text in it changed."""
    found: Any = value
    if isinstance(value, str):
        found = change(value) if type(value) is str else value
    elif isinstance(value, Tree):
        found = with_texts(value, change)
    elif isinstance(value, tuple):
        found = tuple(_mapped(one, change) for one in value)
    elif isinstance(value, Mapping):
        found = {key: _mapped(one, change) for key, one in value.items()}
    elif is_dataclass(value) and not isinstance(value, type | NodePlan):
        values = {
            field.name: _mapped(getattr(value, field.name), change) for field in fields(value)
        }
        found = replace(value, **values)
    return found  # type: ignore[no-any-return]

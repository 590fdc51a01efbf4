"""
Foreign plans: a plan that was read from a file, with what may be a secret marked as in our own.

Plan mode marks secrets itself, and a file may have been written by anything. Texts of expressions
stay as they are, so that a literal that changes is seen; a report shows them masked.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.core.conf import mask_password, redact
from airflow_streaming.core.plan.plan import QueryPlan, SinkPlan, SourcePlan


def without_secrets(plan: QueryPlan) -> QueryPlan:
    """Return a plan whose options, configuration and places hold no secret."""
    return replace(
        plan,
        checkpoint=mask_password(plan.checkpoint),
        sources=tuple(map(_source, plan.sources)),
        sink=_sink(plan.sink),
        conf=redact(plan.conf),
    )


def _source(source: SourcePlan) -> SourcePlan:
    return replace(
        source, paths=tuple(map(mask_password, source.paths)), options=redact(source.options)
    )


def _sink(sink: SinkPlan) -> SinkPlan:
    return replace(sink, target=mask_password(sink.target), options=redact(sink.options))

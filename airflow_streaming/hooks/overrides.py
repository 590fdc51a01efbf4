"""
Overrides: values of a form that replace the DAG's values until the DAG's author changes them.

A run of a form merges three values. A typed value wins. An empty field keeps the live value while the DAG's
value is the same as at the time of the override. After an edit of the DAG, the DAG's value wins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from airflow_streaming.model.records.deployment import Override
from airflow_streaming.model.spark.conf import conf_text
from airflow_streaming.model.spark.secret_conf import redact
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.spec import StreamSpec

CONF: Final = "conf."
"""Prefix of a Spark setting in the name of a value."""


def values_of(spec: StreamSpec) -> dict[str, str]:
    """Return the values of a stream that a form can set, by name; secrets as a mark."""
    conf = redact({key: conf_text(value) for key, value in spec.conf.items()})
    return {
        "runtime": spec.runtime,
        "application": spec.program,
        **{f"{CONF}{key}": value for key, value in conf.items()},
    }


def with_program(spec: StreamSpec, path: str) -> StreamSpec:
    """Return a stream with another script, or another pipeline."""
    if spec.pipeline:
        return dataclasses.replace(spec, pipeline=path)
    return dataclasses.replace(spec, application=path)


def overrides_between(dag: StreamSpec, spec: StreamSpec) -> tuple[Override, ...]:
    """Return the values in which the stream that a run asks for differs from its DAG."""
    named, wanted = values_of(dag), values_of(spec)
    return tuple(
        Override(what=what, value=wanted.get(what), dag=named.get(what))
        for what in sorted({*named, *wanted})
        if named.get(what) != wanted.get(what)
    )


def with_live(dag: StreamSpec, live: Sequence[Override]) -> StreamSpec:
    """
    Return the stream of a DAG with the values that earlier forms have set.

    :param live: Overrides of the live deployment. An override expires when the DAG's value changes.
    """
    named = values_of(dag)
    kept: dict[str, Any] = {
        one.what: one.value
        for one in live
        if named.get(one.what) == one.dag and one.value != REDACTED
    }
    changes = {what.removeprefix(CONF): kept[what] for what in kept if what.startswith(CONF)}
    conf = {**{k: v for k, v in dag.conf.items() if k not in changes}, **changes}
    return dataclasses.replace(
        with_program(dag, kept.get("application", dag.program)),
        runtime=kept.get("runtime", dag.runtime),
        conf={key: value for key, value in conf.items() if value is not None},
    )

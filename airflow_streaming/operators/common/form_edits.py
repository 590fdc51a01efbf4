"""
The run of an upgrade or a cutover, and what its form asks for and changes of a stream.

An empty field keeps the live value. Values of a form are kept in Airflow's database and shown
to everybody who may see the run, so secrets are refused here and belong into the dag.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import is_template
from airflow_streaming.model.records.control import Change, ChangeKind
from airflow_streaming.model.records.deployment import Override
from airflow_streaming.model.spark.conf import check_conf_key
from airflow_streaming.options import MOST_SOAK, Approval
from airflow_streaming.spec import SoakTerms, StreamSpec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.home.home import StreamHome

_C = TypeVar("_C", bound=StrEnum)
ENDED_XCOM_KEY: Final = "ended"
"""XCom of a task after which nothing is begun, with the reason: a dry run, or a user's no."""
LONGEST: Final = timedelta(days=366)
"""Bound of times that a form takes."""
LONGEST_REHEARSAL: Final = timedelta(days=1)
WRONG_XCOM_KEY: Final = "wrong"
"""XCom of a failed task, with the reason as a sentence."""
SIZES: Final = {
    "executors": "spark.executor.instances",
    "executor_cores": "spark.executor.cores",
    "executor_memory": "spark.executor.memory",
    "shuffle_partitions": "spark.sql.shuffle.partitions",
}
"""Names of sizes, and the Spark configuration that each one is."""
ADVISED: Final = "advised"
"""Value in place of the number of executors: the number that the figures advise."""
_MOST_EXECUTORS: Final = "spark.dynamicAllocation.maxExecutors"
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,5}")
_MEMORY: Final = re.compile(r"[1-9][0-9]{0,8}[kmgt]b?", re.IGNORECASE)
_SIZE: Final = {name: _MEMORY if name == "executor_memory" else _NUMBER for name in SIZES}
_EXAMPLES: Final = {
    name: "memory such as 4g" if name == "executor_memory" else "a whole number above zero"
    for name in SIZES
}


def pulled(context: Context, task_id: str, key: str) -> Any:
    """Return an XCom of a task of this run, ``None`` without one."""
    found = context["ti"].xcom_pull(task_ids=task_id, key=key)
    # Airflow gives a list of nothing for an XCom that was never pushed.
    return None if found == [] else found


def found_change(home: StreamHome, report: Mapping[str, Any] | None) -> Change | None:
    """
    Return the upgrade that a run has begun, or continues with, ended or not; ``None`` before that.

    :param report: Report of the run's preflight.
    """
    if not report:
        return None
    upgrades = [one for one in reversed(home.changes()) if one.what is ChangeKind.UPGRADE]
    if report.get("resumes"):
        return next((one for one in upgrades if one.number == report["resumes"]), None)
    return next((one for one in upgrades if home.request_key(one) == report["key"]), None)


def first_told(context: Context, task_ids: Iterable[str | None], key: str) -> str:
    """Return the first text that one of some tasks has left; empty without one."""
    told = (pulled(context, task_id, key) for task_id in task_ids if task_id)
    return next((str(text) for text in told if text), "")


def edited(
    spec: StreamSpec,
    live: Sequence[Override] = (),
    *,
    runtime: str | None = None,
    application: str | None = None,
    conf: Mapping[str, Any] | str | None = None,
    size: Mapping[str, Any] | None = None,
) -> StreamSpec:
    """
    Return the stream as a form asks for it; see ``hooks.overrides`` for its empty fields.

    :param spec: The stream as its DAG has it.
    :param live: Values that earlier forms have set, as the live deployment records them.
    :param runtime: Name of another Spark installation.
    :param application: Path or URI of another version of the script.
    :param conf: Changes of the configuration, as a mapping or as JSON; ``null`` takes a key out.
    :param size: Sizes by the names in ``SIZES``; an empty value keeps the live size.
    :raises SpecError: a key is not Spark's, or a value is a secret.
    """
    from airflow_streaming.hooks.overrides import with_live, with_program  # not at dag parse

    spec = with_live(spec, live)
    changes = {**conf_changes(conf), **size_changes(spec, size or {})}
    kept = {key: value for key, value in spec.conf.items() if key not in changes}
    added = {key: value for key, value in changes.items() if value is not None}
    return dataclasses.replace(
        with_program(spec, _text(application) or spec.program),
        runtime=_text(runtime) or spec.runtime,
        conf={**kept, **added},
    )


def conf_changes(given: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """
    Return changes of the configuration, checked.

    :raises SpecError: not an object, a key that is not Spark's, or a secret.
    """
    from airflow_streaming.model.spark.secret_conf import redact  # not at dag parse
    from airflow_streaming.model.spark.secrets import REDACTED  # not at dag parse

    changes = _read(
        given, "The changes of the configuration are", '{"spark.executor.memory": "4g"}'
    )
    for key in changes:
        check_conf_key(key)
    given_values = {key: value for key, value in changes.items() if value is not None}
    secret = sorted(key for key, value in redact(given_values).items() if value == REDACTED)
    if secret:
        raise SpecError(
            f"{secret[0]!r} looks like a secret. Airflow stores form values and shows them "
            "with the run. Put it into the conf of the stream in the DAG."
        )
    return changes


def size_changes(spec: StreamSpec, size: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the configuration that gives a stream its size.

    Where Spark itself chooses the number of executors, the most that it may choose is set.

    :raises SpecError: a size that is not known, or not a number above zero.
    """
    values = {name: _text(None if value is None else str(value)) for name, value in size.items()}
    unknown = sorted(values.keys() - SIZES.keys())
    if unknown:
        raise SpecError(f"{unknown[0]!r} is not a size; give {', '.join(SIZES)}.")
    is_dynamic = str(spec.conf.get("spark.dynamicAllocation.enabled", "")).lower() == "true"
    keys = {**SIZES, **({"executors": _MOST_EXECUTORS} if is_dynamic else {})}
    return {keys[name]: _size(name, value) for name, value in values.items() if value}


def check_sizes(spec: StreamSpec, size: object) -> None:
    """
    Check the sizes that an author has written; templates are left for their run to fill in.

    :raises SpecError: no mapping, a size that is not known, or not a number above zero.
    """
    if not isinstance(size, Mapping):
        raise SpecError(f"size is {size!r:.80}; give a mapping of {', '.join(SIZES)} to values.")
    written = {name: value for name, value in size.items() if not is_template(value)}
    if written.get("executors") == ADVISED:
        del written["executors"]
    size_changes(spec, written)


def _size(name: str, value: str) -> str:
    if not _SIZE[name].fullmatch(value):
        raise SpecError(f"{name} is {value!r}; give {_EXAMPLES[name]}.")
    return value


def positive_minutes(
    value: float | str | None, name: str, most: timedelta = LONGEST
) -> timedelta | None:
    """
    Return minutes of a form as a duration, ``None`` for an empty field.

    :raises SpecError: no number within the bounds.
    """
    return _positive(value, name, "minutes", timedelta(minutes=1), most)


def hours(value: float | str | None, name: str, usual: timedelta) -> timedelta:
    """
    Return hours of a form as a duration, the usual one for an empty field.

    :raises SpecError: no number within the bounds.
    """
    asked = _positive(value, name, "hours", timedelta(hours=1), LONGEST)
    return usual if asked is None else asked


def _positive(
    value: float | str | None, name: str, unit: str, one: timedelta, most: timedelta
) -> timedelta | None:
    text = _text(None if value is None else str(value))
    if not text:
        return None
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    duration = one * amount if 0 < amount <= most / one else timedelta()
    if not duration:
        raise SpecError(
            f"{name} is {value!r}; give a number of {unit} above 0, at most {most / one:g}."
        )
    return duration


def choice_of(text: str, name: str, choices: type[_C]) -> _C:
    """
    Return a choice of a form.

    :raises SpecError: the text is not one of the choices.
    """
    if text not in {one.value for one in choices}:
        raise SpecError(f"{name} is {text!r}; give {', '.join(choices)}.")
    return choices(text)


def bounded(soak: SoakTerms, minutes: float | str | None) -> SoakTerms:
    """
    Return the terms of a soak with the bound of a form.

    :param minutes: Replaces ``at_most``, unless it is empty; a longer ``at_least`` is cut.
    :raises SpecError: no number within the bounds.
    """
    bound = positive_minutes(minutes, "soak_minutes", MOST_SOAK)
    if bound is None:
        return soak
    return dataclasses.replace(soak, at_most=bound, at_least=min(soak.at_least, bound))


def is_asked(approval: Mapping[str, Any] | str | None, step: str, usual: Approval) -> bool:
    """
    Return whether a step needs an approval.

    :param approval: ``ask`` or ``auto``, by step, as a mapping or as JSON.
    :param usual: Used for a step without a value.
    :raises SpecError: the value is neither.
    """
    steps = _read(approval, "approval is", '{"begin": "ask"}')
    word = str(steps.get(step) or usual.value)
    return choice_of(word, f"approval[{step!r}]", Approval) is Approval.ASK


def _read(given: Mapping[str, Any] | str | None, what: str, example: str) -> dict[str, Any]:
    """
    Return a mapping that a run has filled in, as a mapping or as JSON.

    :param what: Beginning of the error, e.g. "The value is".
    :raises SpecError: it is neither.
    """
    if not given:
        return {}
    value: Any = given
    if isinstance(given, str):
        try:
            value = json.loads(given)
        except ValueError as err:
            raise SpecError(f"{what} not JSON: {err}") from err
    if not isinstance(value, Mapping | None):
        raise SpecError(f"{what} not an object. Give an object, for example {example}.")
    return dict(value or {})


def _text(value: str | None) -> str:
    # A template that names a parameter without a value renders as one of these words.
    text = (value or "").strip()
    return "" if text in ("None", "null") else text

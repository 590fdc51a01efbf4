"""
Whatever an author writes into a public value, operator, sensor or function, it is taken or refused by name.

What is tried is found by introspection, so that a new option is tried from its first day.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from math import inf, nan
from typing import Any, Final

import pytest
from airflow.sdk import DAG, BaseOperator
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from airflow_streaming.assets import window_asset
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.model.arguments import fields
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.options import SideBySide, Soaked
from airflow_streaming.spec import Metric, RetentionPolicy, SoakTerms, StreamSpec
from tests.conftest import share_of
from tests.unit.fuzz.test_fuzz import quick

VALUES: Final = ("spec", "options", "pointers")
FUNCTIONS: Final = ("assets", "live", "model.health_rules", "advice.profile")
ROOMS: Final = ("operators", "sensors")
BUILDS: Final = ("TaskGroup", "dict[str, DAG]", "dict[str, Param]", "Asset", "LiveOutput")
BUILDS_VALUES: Final = ("Profile", "tuple[HealthRule, ...]", "Mapping[str, LiveOutput]")
"""What functions return that a dag file calls."""
HANDED_OVER: Final = (SideBySide, Soaked)
"""What operators build and hand to an author's checks; nobody else builds them."""

SPEC: Final = StreamSpec(
    name="orders", application="a.py", home="/srv/no-such-home", runtime="spark-4.3"
)
JUNK: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 5, 10**30, -0.5, nan, inf, 1j, Decimal(1)),
    *("", "x", "a\0b", "\ud800", "{{ x }}", "orders.green", "../x", b"x", "https://u:p@h/x?sig=1"),
    *(
        [],
        [5],
        ["x"],
        [None],
        (),
        ("x",),
        [[[]]],
        {},
        {"x": 5},
        {5: "x"},
        {"x": None},
        set(),
        {"x"},
    ),
    *(timedelta(0), timedelta(-1), timedelta.max, datetime(2026, 1, 1, tzinfo=UTC)),
    *(object(), print, int, SoakTerms(), SPEC, iter(()), ValueError(), SoakTerms, StreamSpec),
    *([SPEC, SPEC], [print, print], {"orders": [5]}, {"executors": 10**9}, {"spark.x": object()}),
)

NEEDED: Final[dict[str, Any]] = {
    "task_id": "t",
    "home": SPEC.home,
    "name": "n",
    "runtime": "r",
    "restarts": 1,
    "window": timedelta(hours=1),
    "start": "01:00",
    "end": "02:00",
    "min": 1,
    "max": 4,
    "cores": 4,
    "metric": Metric.BATCH_SECONDS,
    "bound": 1,
    "uri": "/srv/p.json",
    "view": "v",
    "table": "t",
    "conn_id": "c",
    "sql": "SELECT {lane}",
    "forward": print,
    "backward": print,
    "word": "promote",
    "preflight_task_id": "p",
    "checks": [print],
    "soak_task_id": "s",
    "policy": RetentionPolicy(keep_last=1),
    "older_than": "2026-01-01T00:00:00Z",
    "past": "{{ ds }}",
    "below": 1,
    "batch": 1,
    "with_stream": "others",
    "keep_last": 1,
    "until": "ready",
    "streams": ["orders"],
    "tooltip": "?",
    "group_id": "g",
    "complete_within": timedelta(minutes=15),
    "to": "/srv/drills",
    "select": "tier=1",
    "lasts": timedelta(hours=1),
}
OF_ONE: Final[dict[str, dict[str, Any]]] = {
    "CutoverStepOperator": {"until": "shadowing"},
    "CutoverFinishOperator": {"checks": ()},
    "CutoverApprovalOperator": {"subject": "?"},
    "UpgradeApprovalOperator": {"subject": "?"},
    "ClosedWindowsOperator": {"asset": window_asset("orders", SPEC.home)},
    "StreamSpec": {"application": "a.py"},
    "FleetUpgradeOperator": {"streams": [SPEC]},
    "DisasterDrillOperator": {"streams": [SPEC]},
    "fleet_dags": {"streams": [SPEC]},
    "AnnounceWindowsOperator": {
        "start": "2026-11-27T06:00:00Z",
        "end": "2026-11-27T09:00:00Z",
        "reason": "late",
    },
}


def modules(room: str) -> Iterator[Any]:
    package = importlib.import_module(f"airflow_streaming.{room}")
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not found.ispkg:
            yield importlib.import_module(found.name)


def own(module: Any, fits: Callable[[Any], bool]) -> dict[str, Any]:
    return {
        name: one
        for name, one in vars(module).items()
        if not name.startswith("_")
        and getattr(one, "__module__", "") == module.__name__
        and fits(one)
    }


def is_task(one: Any) -> bool:
    return inspect.isclass(one) and issubclass(one, BaseOperator) and not inspect.isabstract(one)


def is_built_by_dags(one: Any) -> bool:
    returned = getattr(one, "__annotations__", {}).get("return")
    return inspect.isfunction(one) and returned in (*BUILDS, *BUILDS_VALUES)


def public() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in VALUES:
        module = importlib.import_module(f"airflow_streaming.{name}")
        values = {one: getattr(module, one) for one in module.__all__}
        found |= {
            one: kind
            for one, kind in values.items()
            if is_dataclass(kind) and kind not in HANDED_OVER
        }
    for room in ROOMS:
        for module in modules(room):
            found |= own(module, is_task)
    for module in (
        *modules("orchestration"),
        *(importlib.import_module(f"airflow_streaming.{name}") for name in FUNCTIONS),
    ):
        found |= own(module, is_built_by_dags)
    return found


PUBLIC: Final = public()


SEVERAL: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@cache
def parameters(one: Any) -> dict[str, inspect.Parameter]:
    """Return what is ours of its parameters; those of every task are Airflow's to check."""
    kinds = one.__mro__ if is_task(one) else (one,)
    ours = [kind for kind in kinds if kind.__module__.startswith("airflow_streaming.")]
    return {
        name: parameter
        for kind in reversed(ours)
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.kind not in SEVERAL and name != "trigger_rule"
    }


def usual(name: str) -> dict[str, Any]:
    """Return arguments with which it can be built."""
    taken = parameters(PUBLIC[name])
    needed = {
        one: NEEDED[one]
        for one, parameter in taken.items()
        if one in NEEDED and parameter.default is inspect.Parameter.empty
    }
    if is_task(PUBLIC[name]):
        needed["task_id"] = "t"
        needed |= {one: NEEDED[one] for one in ("home", "with_stream", "batch") if one in taken}
    if "stream" in taken:
        takes_spec = "StreamSpec" in str(taken["stream"].annotation)
        needed["stream"] = SPEC if takes_spec else "orders"
    if name == "RetentionPolicy":
        needed["keep_last"] = 1
    return needed | OF_ONE.get(name, {}) | ({"home": SPEC.home} if "home" in taken else {})


PLAIN: Final[dict[str, Any]] = {
    "schedule": None,
    "catchup": False,
    "max_active_tasks": 1,
    "max_active_runs": 1,
    "max_consecutive_failed_dag_runs": 0,
    "disable_bundle_versioning": False,
}


def build(name: str, arguments: dict[str, Any]) -> StreamingError | None:
    """Return how it was refused; everything else that is raised is a fault."""
    # A value needs no dag; and a dag asks Airflow's configuration for whatever it is not given.
    is_value = is_dataclass(PUBLIC[name]) and not is_task(PUBLIC[name])
    try:
        with nullcontext() if is_value else DAG("d", **PLAIN):
            PUBLIC[name](**arguments)
    except StreamingError as err:
        return err
    return None


def test_what_authors_write_is_found() -> None:
    assert {
        *("StreamSpec", "SoakTerms", "UpgradeOptions", "SqlPointer", "SparkStreamOperator"),
        *("UpgradePreflightOperator", "StreamHealthSensor", "stream_dags", "rescale", "live"),
        *("upgrade_params", "stream_asset", "production", "recommended_rules"),
    } <= set(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_it_can_be_built_at_all(name: str) -> None:
    refused = build(name, usual(name))
    # There is no such home to look into.
    assert refused is None or name in ("live", "live_together"), refused


FOREIGN: Final = {
    "stream": None,
    "home": None,
    "checkpoint": "/srv/no-such-checkpoint",
    "store": "/srv/no-such-store",
    "application": "a.py",
    "runtime": "r",
    "from_version": "4.2.0",
    "to_version": "4.3.0",
}
"""Of a stream that is not ours."""


@pytest.mark.parametrize(
    "name", sorted(name for name in PUBLIC if "checkpoint_conn_id" in parameters(PUBLIC[name]))
)
def test_it_can_be_built_for_a_stream_that_is_not_ours(name: str) -> None:
    taken = parameters(PUBLIC[name])
    foreign = {one: value for one, value in FOREIGN.items() if one in taken}
    assert build(name, {**usual(name), **foreign}) is None


CASES: Final = [(name, one) for name in sorted(PUBLIC) for one in parameters(PUBLIC[name])]


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_one_wrong_argument_is_refused_by_our_own_error_or_taken(name: str, argument: str) -> None:
    # Python does not print such a number.
    arguments = usual(name)
    for junk in share_of((*JUNK, 10**5_000), f"{name} {argument}", parts=3):
        build(name, {**arguments, argument: junk})


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_mistyped_name_is_refused_with_the_right_one(name: str) -> None:
    arguments, taken = usual(name), parameters(PUBLIC[name])
    for argument in taken:
        refused = build(name, {**arguments, f"{argument}x": None})
        assert str(refused).startswith(
            f"{name} has no parameter '{argument}x'; did you mean '{argument}'?"
        )
    refused = build(name, {**arguments, "qqqqqq": None})
    assert str(refused).startswith(f"{name} has no parameter 'qqqqqq'; give one of ")
    assert all(argument in str(refused) for argument in taken)


@pytest.mark.parametrize("name", sorted(name for name in PUBLIC if is_task(PUBLIC[name])))
def test_a_mistyped_name_of_every_tasks_own_is_refused_too(name: str) -> None:
    refused = build(name, {**usual(name), "retires": 3})
    assert str(refused).startswith(f"{name} has no parameter 'retires'; did you mean 'retries'?")


def test_a_subclass_with_a_constructor_of_its_own_takes_what_it_likes() -> None:
    class Own(PUBLIC["SparkStreamOperator"]):  # type: ignore[misc]
        def __init__(self, **kwargs: Any) -> None:
            self.mine = kwargs.pop("mine")
            super().__init__(**kwargs)

    with DAG("d"):
        assert Own(**usual("SparkStreamOperator"), mine=5).mine == 5
    with DAG("d"), pytest.raises(TypeError, match="yours"):
        Own(**usual("SparkStreamOperator"), mine=5, yours=5)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_several_wrong_ones_are_refused_as_well(name: str) -> None:
    names = sorted(parameters(PUBLIC[name]))
    if not names:
        return
    plain = st.sampled_from(JUNK) | st.floats() | st.text(max_size=4) | st.integers()
    nested = st.recursive(
        plain,
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=2)
        ),
        max_leaves=3,
    )

    arguments = usual(name)

    @settings(quick, max_examples=max(10, quick.max_examples // 3), phases=[Phase.generate])
    @given(st.dictionaries(st.sampled_from(names), nested, max_size=3))
    def attempt(wrong: dict[str, Any]) -> None:
        build(name, {**arguments, **wrong})

    attempt()


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_what_passes_the_quick_test_passes_in_full(name: str) -> None:
    values = (*JUNK, *([one] for one in JUNK), *((one, one) for one in JUNK))
    where, left = fields._Where("x"), fields._Left.NOWHERE
    for hint in hints_of(PUBLIC[name]):
        is_plain = fields._is_plain(hint)
        for value in filter(is_plain, values):
            assert fields._wrong(where, value, hint, left, is_quoted=False) is None


def hints_of(one: Any) -> Iterator[Any]:
    """Return by what its arguments are checked."""
    if is_dataclass(one) and not is_task(one):
        yield from fields._hints_of_fields(one).values()
        return
    own = [vars(kind).get("__init__") for kind in one.__mro__] if is_task(one) else [one]
    for function in filter(None, own):
        if str(getattr(function, "__module__", "")).startswith("airflow_streaming."):
            yield from fields._hints_of_arguments(inspect.unwrap(function)).values()


def test_a_fault_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(*, size: int = 0) -> None:
        size + 1

    monkeypatch.setitem(PUBLIC, "careless", careless)
    with pytest.raises(TypeError):
        build("careless", {"size": None})
    monkeypatch.setitem(PUBLIC, "careless", checked(careless))
    assert build("careless", {"size": None}) is not None

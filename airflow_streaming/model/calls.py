"""Whether what an author gives to be called can be called with what it will be given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from airflow_streaming.exceptions import SpecError


def check_call(what: str, function: Callable[..., Any], *given: str) -> None:
    """
    Check that a function takes what it will be called with; one without a signature passes.

    :param what: The option, for the message, e.g. ``UpgradeOptions.checks[0]``.
    :param given: What it is called with, by position, e.g. ``a Soaked``.
    :raises SpecError: it takes fewer arguments, or asks for more.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*given)
    except TypeError as err:
        name = getattr(function, "__name__", None) or type(function).__name__
        raise SpecError(
            f"{what} is called with {' and '.join(given)}, which {name}{signature} does not take. "
            "Give a function with a parameter for each, and defaults for all others."
        ) from err

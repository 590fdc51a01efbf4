"""What settings of the session mean: a table, ``settings.toml``; a key that is not in it is unknown."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingClass:
    """
    One setting, or all whose keys begin alike.

    :param decides_values: It changes what rows are read or what expressions come to.
    :param source: Where that is known from.
    """

    decides_values: bool
    source: str


@cache
def all_classes() -> Mapping[str, SettingClass]:
    """Return the classes by key; a key that ends with a dot stands for all that begin so."""
    text = files("airflow_streaming.gates").joinpath("settings.toml").read_text(encoding="utf-8")
    return {
        key: SettingClass(decides_values=decides, source=group["source"])
        for decides, name in ((True, "values"), (False, "nothing"))
        for group in tomllib.loads(text)[name]
        for key in group["keys"]
    }


def meaning_of(key: str) -> SettingClass | None:
    """Return the class of a setting, ``None`` of one that the table does not know."""
    known = all_classes()
    if key in known:
        return known[key]
    parts = key.split(".")
    prefixes = (".".join(parts[:size]) + "." for size in range(len(parts) - 1, 0, -1))
    return next((known[prefix] for prefix in prefixes if prefix in known), None)

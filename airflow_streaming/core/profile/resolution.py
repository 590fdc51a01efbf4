"""
Profile + the stream's own conf → the values that Spark gets, each with where it came from.

The stream's own conf wins, key by key. What it replaced stays visible.

A checkpoint that is carried on keeps what it was begun with. Spark ignores most changes of a pinned
setting without a word, and some kill the query: Spark 4.1 refuses to read the commits of a
checkpoint of another format. So a profile never changes a pinned setting under an existing
checkpoint; whoever wants to must write it into the stream's own conf.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from airflow_streaming.core.conf import conf_text, parse_spark_version, redact
from airflow_streaming.core.profile.profile import Profile, StateStore
from airflow_streaming.core.profile.settings import STATE_PROVIDER, Setting, settings


class ConfSource(StrEnum):
    """Where a value of the configuration came from."""

    PROFILE = "profile"
    STREAM = "stream"
    """The stream's own conf, and the profile has nothing on it."""
    OVERRIDE = "stream over profile"
    """The stream's own conf, instead of the profile's value."""
    KEPT = "kept with the checkpoint"
    """Pinned, so as the deployment had it that began or carried on the checkpoint."""
    LEFT_OUT = "left out"
    """The profile has it for another Spark version or state store; Spark gets nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfValue:
    """
    One value of the configuration.

    :param value: As Spark reads it, possibly a secret; ``None`` when it is left out.
    :param why: The profile's reason for its value, or for leaving it out.
    :param pinned: An existing checkpoint keeps the value it was begun with.
    :param replaces: The profile's value that another one took the place of.
    """

    key: str
    value: str | None = field(repr=False)
    source: ConfSource
    why: str = ""
    pinned: bool = False
    replaces: str | None = None

    @property
    def shown(self) -> str | None:
        """Return the value with a secret as a mark."""
        return None if self.value is None else redact({self.key: self.value})[self.key]


def resolve(
    profile: Profile | None,
    spark_version: str,
    user_conf: Mapping[str, Any],
    *,
    carried_on: Mapping[str, str] | None = None,
) -> tuple[ConfValue, ...]:
    """
    Return every value of the configuration: the profile's in its own order, then the stream's.

    :param spark_version: Of the runtime, e.g. ``4.3.0``; not looked at without a profile.
    :param user_conf: The stream's own ``conf``.
    :param carried_on: Conf of the deployment whose checkpoint goes on; ``None`` for a new one.
    :raises SpecError: not a Spark version.
    """
    own = {key: conf_text(value) for key, value in user_conf.items()}
    taken = () if profile is None else tuple(_taken(profile, spark_version, own, carried_on))
    known = {value.key for value in taken}
    rest = sorted(key for key in own if key not in known)
    return (
        *taken,
        *(ConfValue(key=key, value=own[key], source=ConfSource.STREAM) for key in rest),
    )


def _taken(
    profile: Profile,
    spark_version: str,
    own: Mapping[str, str],
    carried_on: Mapping[str, str] | None,
) -> Iterable[ConfValue]:
    kept = {} if carried_on is None else carried_on
    default = StateStore.HDFS if carried_on is not None else profile.state_store
    provider = own.get(STATE_PROVIDER) or kept.get(STATE_PROVIDER) or default.provider
    for setting in settings(profile, parse_spark_version(spark_version), provider):
        if setting.key in own:
            yield _value(setting, ConfSource.OVERRIDE, own[setting.key])
        elif setting.pinned and carried_on is not None:
            yield _value(setting, ConfSource.KEPT, carried_on.get(setting.key))
        elif setting.value is None:
            yield _value(setting, ConfSource.LEFT_OUT, None)
        else:
            yield _value(setting, ConfSource.PROFILE, setting.value)


def _value(setting: Setting, source: ConfSource, value: str | None) -> ConfValue:
    return ConfValue(
        key=setting.key,
        value=value,
        source=source,
        why=setting.why,
        pinned=setting.pinned,
        replaces=setting.value if setting.value != value else None,
    )


def effective(values: Iterable[ConfValue]) -> dict[str, str]:
    """Return what Spark gets; secrets are in it."""
    return {value.key: value.value for value in values if value.value is not None}


def summary(profile: Profile, values: Sequence[ConfValue]) -> str:
    """Return one line for a log: how many values came from where, and what was not taken."""
    counted = Counter(value.source for value in values if value.value is not None)
    told = ", ".join(f"{counted[source]} {words}" for source, words in _IN_WORDS if counted[source])
    passed = [
        f"{value.key}={value.replaces}"
        for value in values
        if value.source is ConfSource.KEPT and value.replaces is not None
    ]
    not_taken = f" Not taken, as the checkpoint goes on: {', '.join(passed)}." if passed else ""
    return (
        f"Profile {profile.name!r} for {profile.cores} cores: {told or 'no value'}.{not_taken} "
        "'airflow-streaming conf' explains each value."
    )


_IN_WORDS: Final = (
    (ConfSource.PROFILE, "values from the profile"),
    (ConfSource.KEPT, "kept with the checkpoint"),
    (ConfSource.OVERRIDE, "overridden by the stream"),
    (ConfSource.STREAM, "of the stream alone"),
)

"""
A campaign: one change of many streams, wave after wave, as a record and numbered steps.

The record holds the streams of each wave and never changes. Each step is a record that only one process can create,
so two workers on one campaign get one history.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import Annotated, ClassVar, Final
from urllib.parse import urlsplit

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.accepted import accepted_codes
from airflow_streaming.model.arguments.fields import Range, check_values
from airflow_streaming.model.arguments.policies import Blackout
from airflow_streaming.model.names import check_is_stream, check_names, check_stream_name
from airflow_streaming.model.spark.conf import check_conf_key
from airflow_streaming.model.spark.secrets import is_secret_name
from airflow_streaming.model.wire import Record

MOST_AT_ONCE: Final = 100
MOST_BLACKOUTS: Final = 20
SIZES: Final = ("executors", "executor_cores", "executor_memory", "shuffle_partitions")
"""The sizes that a form of a rescale has, too."""

_BOUND: Final = re.compile(
    r"\s*(?P<sign><=|>=|<|>)\s*(?P<value>-?[0-9]{1,15}(?:\.[0-9]{1,15})?)\s*"
)
_SIGNS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}

AtOnce = Annotated[int, Range(least=1, most=MOST_AT_ONCE)]
WaveSoak = Annotated[timedelta, Range(least=timedelta(0), most=timedelta(days=30))]
StreamSoak = Annotated[timedelta, Range(least=timedelta(minutes=1), most=timedelta(days=7))]


class BadSoak(StrEnum):
    """Which streams return to their old deployment after the first bad soak."""

    STREAM = "stream"
    """The bad stream; streams of its wave that soaked well are kept."""
    WAVE = "wave"
    """All streams of its wave: none of them is kept before the whole wave has soaked well."""


class ApproveWaves(StrEnum):
    """Which waves begin only after a user has approved them."""

    NONE = "none"
    SECOND = "second"
    """The wave after the canary."""
    EACH = "each"
    """Every wave after the canary."""


class CampaignEvent(StrEnum):
    """An event or a command of a campaign."""

    WAVE_OPENED = "wave_opened"
    ADMITTED = "admitted"
    """The streams may be upgraded; recorded before their upgrades begin."""
    GOOD = "good"
    """The streams have soaked well, and are not kept yet."""
    KEPT = "kept"
    BAD = "bad"
    """The streams return to their old deployment, or have returned, and the campaign did not ask for that."""
    RETURNING = "returning"
    """The campaign puts the streams back; recorded before the command."""
    ROLLED_BACK = "rolled_back"
    REFUSED = "refused"
    """The streams are not upgraded, and nothing of them was changed."""
    WAVE_PASSED = "wave_passed"
    TAKEN_OUT = "taken_out"
    """A command: the streams do not belong to the campaign any more."""
    APPROVED = "approved"
    """A command: the next wave may begin."""
    PAUSED = "paused"
    RESUMED = "resumed"
    ABORTED = "aborted"
    """A command: nothing more begins, and what is not kept yet returns."""
    CLOSED = "closed"


class CampaignOutcome(StrEnum):
    """How a campaign ended."""

    DONE = "done"
    STOPPED = "stopped"
    """A bad soak stopped it."""
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """
    The change that a campaign makes to each stream; an empty field leaves the live value.

    :param conf: Changes of the configuration; ``None`` removes a key. An image of Kubernetes is
        ``spark.kubernetes.container.image``.
    :param size: Changes of the size: ``executors``, ``executor_cores``, ``executor_memory``, ``shuffle_partitions``.
    :raises SpecError: it changes nothing, or has a secret.
    """

    runtime: str = ""
    application: str = ""
    conf: Mapping[str, str | None] = field(default_factory=dict)
    size: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        secret = next((key for key in self.conf if is_secret_name(key)), None)
        if secret is not None:
            raise SpecError(
                f"The campaign would record the secret {secret!r:.80}. Give it to each stream by its DAG."
            )
        for key in self.conf:
            check_conf_key(key)
        unknown = sorted(set(self.size) - set(SIZES))
        if unknown:
            raise SpecError(f"{unknown[0]!r:.80} is not a size; give {', '.join(SIZES)}.")

    @property
    def is_empty(self) -> bool:
        """Tell whether it changes nothing."""
        return not (self.runtime or self.application or self.conf or self.size)

    def __str__(self) -> str:
        parts = [
            f"runtime {self.runtime}" if self.runtime else "",
            f"script {self.application}" if self.application else "",
            *(
                f"{key} removed" if new is None else f"{key}={new}"
                for key, new in self.conf.items()
            ),
            *(f"{key}={new}" for key, new in self.size.items()),
        ]
        return ", ".join(filter(None, parts)) or "no change"


@dataclass(frozen=True, slots=True)
class Bound:
    """A condition on a number, such as ``>= 0.99``."""

    sign: str
    value: float

    @classmethod
    def parsed(cls, text: str) -> Bound:
        """
        Return the condition of a text.

        :raises SpecError: it cannot be read.
        """
        match = _BOUND.fullmatch(text)
        if match is None:
            raise SpecError(f"{text!r:.80} is not a condition such as '>= 0.99' or '< 5'.")
        return cls(match["sign"], float(match["value"]))

    def holds(self, number: float) -> bool:
        return _SIGNS[self.sign](number, self.value)

    def __post_init__(self) -> None:
        if self.sign not in _SIGNS:
            raise SpecError(f"{self.sign!r:.80} is not a condition; give {', '.join(_SIGNS)}.")

    def __str__(self) -> str:
        return f"{self.sign} {self.value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveQuery:
    """
    A query by HTTP that judges a wave; between both conditions it is inconclusive.

    :param url: Without a user or password, because the campaign records it.
    :param path: Where the JSON reply has the number, such as ``checks.lag``; empty for a reply of Prometheus.
    :param failure: ``None``: whatever is no success fails.
    :raises SpecError: the URL cannot be asked.
    """

    name: str
    url: str
    success: Bound
    failure: Bound | None = None
    path: str = ""

    def __post_init__(self) -> None:
        place = urlsplit(self.url)
        if place.scheme not in ("http", "https") or not place.hostname or place.username:
            raise SpecError(
                f"Query {self.name!r:.80} needs a URL that begins with http:// or https:// and names no user."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTerms:
    """
    The limits and judgment of a campaign.

    :param at_once: Streams that are upgraded at the same time.
    :param blackouts: Periods in which no stream is admitted; upgrades in progress continue.
    :param bad_soak: Which streams return after the first bad soak.
    :param wave_soak: How long a wave is watched after the last soak of its streams.
    :param soak: Maximum duration of the soak of a stream; default: of the operator.
    :param approve: Which waves a user approves.
    :param accept: Codes of findings that are accepted, as for an upgrade.
    :param queries: Judge each wave at its end, beside the soaks.
    """

    at_once: AtOnce = 1
    blackouts: tuple[Blackout, ...] = ()
    bad_soak: BadSoak = BadSoak.STREAM
    wave_soak: WaveSoak = timedelta(0)
    soak: StreamSoak | None = None
    approve: ApproveWaves = ApproveWaves.NONE
    accept: tuple[str, ...] = ()
    queries: tuple[WaveQuery, ...] = ()

    def __post_init__(self) -> None:
        check_values(self)
        check_names("The campaign", [query.name for query in self.queries])
        accepted_codes(self.accept)
        if len(self.blackouts) > MOST_BLACKOUTS:
            raise SpecError(
                f"The campaign has {len(self.blackouts)} blackouts; the limit is {MOST_BLACKOUTS}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign(Record):
    """
    A campaign; ``_fleet/campaigns/000004.json``.

    :param selector: The selector that gave the streams, for people.
    :param waves: The streams of each wave, in the order of their data.
    :param follows: By stream, the streams of the campaign whose output it reads directly.
    :param key: Identifies the request, so that a retry finds its campaign; empty for a command.
    """

    KIND: ClassVar[str] = "campaign"

    number: int
    selector: str
    change: FleetChange
    waves: tuple[tuple[str, ...], ...]
    by: str
    reason: str
    at: datetime
    terms: CampaignTerms = field(default_factory=CampaignTerms)
    follows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    key: str = ""

    def __post_init__(self) -> None:
        if not all(self.waves):
            raise SpecError("A campaign needs at least one wave, and each wave a stream.")
        check_names("The campaign", self.streams)
        for name in self.streams:
            check_is_stream(check_stream_name(name))

    @property
    def streams(self) -> tuple[str, ...]:
        """Return all streams, wave after wave."""
        return tuple(chain.from_iterable(self.waves))

    @property
    def request_key(self) -> str:
        """Return the key of the upgrade of each of its streams."""
        return f"campaign {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignStep(Record):
    """
    A step of a campaign; ``_fleet/campaigns/000004/steps/000002.json``.

    :param number: From 1, without gaps.
    :param streams: The streams it is about; empty for the whole campaign.
    :param wave: From 1; 0 for a step that is not about a wave.
    :param facts: Facts for people: changes, verdicts, the outcome.
    """

    KIND: ClassVar[str] = "campaign_step"

    campaign: int
    number: int
    event: CampaignEvent
    reason: str
    at: datetime
    by: str
    streams: tuple[str, ...] = ()
    wave: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)

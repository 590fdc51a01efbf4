"""What happens in one simulated course, drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from tests.system.cutovers.model.world import Shape

WORD_STATES: Final = (
    *("starting", "catching_up", "shadowing", "ready", "warming", "draining", "switching"),
    *("live", "soaking"),
)
CODES: Final = ("works",) * 8 + ("fails_at_once", "fails_later")
NEVER: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """
    One cutover of a course.

    :param deaths: Durable steps after which the workers, one after the other, are killed.
    :param overtaken: Step before which the first worker is suspended, while others go on; then it
        wakes. ``None`` when it is not.
    :param word: What a person says: ``abort``, ``roll_back``, ``keep`` or nothing; ``word_at`` the
        state in which.
    :param kills: Seconds after its beginning at which the driver that acts next is killed.
    :param stops_after: Seconds after which the stream is wanted stopped; ``None`` for never.
    """

    code: str
    deaths: tuple[int, ...] = ()
    overtaken: int | None = None
    word: str = ""
    word_at: str = ""
    kills: tuple[float, ...] = ()
    stops_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Everything that is drawn from a seed."""

    seed: int
    shape: Shape
    way: SwitchMethod
    start: StartWay
    legs: tuple[Leg, ...] = field(default_factory=tuple)


def drawn(seed: int) -> Course:
    """Return the course of a seed."""
    chance = Random(f"course {seed}")
    way = chance.choice([*SwitchMethod])
    is_stateful = chance.random() < 0.7
    has_log = chance.random() < 0.5 and (way is SwitchMethod.PARALLEL or not is_stateful)
    is_carried = way is SwitchMethod.HANDOVER and not is_stateful
    return Course(
        seed=seed,
        shape=Shape(
            is_stateful=is_stateful,
            reads_files=chance.random() < 0.6,
            has_gate=not has_log,
            has_log=has_log,
        ),
        way=way,
        start=StartWay.CARRIED if is_carried else StartWay.FRESH,
        legs=tuple(_leg(chance) for _ in range(chance.choice([1, 1, 2]))),
    )


def _leg(chance: Random) -> Leg:
    code = chance.choice(CODES)
    # Nobody can help a stream whose new code fails, and was kept all the same.
    word = chance.choice(["", "", "abort", "roll_back", "keep" if code == "works" else ""])
    return Leg(
        code=code,
        deaths=tuple(chance.randrange(1, 70) for _ in range(chance.choice([0, 1, 2, 3]))),
        overtaken=chance.randrange(1, 70) if chance.random() < 0.15 else None,
        word=word,
        word_at=chance.choice(WORD_STATES) if word else "",
        kills=tuple(sorted(chance.uniform(0, 90) for _ in range(chance.choice([0, 0, 1, 2])))),
        stops_after=chance.uniform(1, 90) if chance.random() < 0.05 else None,
    )

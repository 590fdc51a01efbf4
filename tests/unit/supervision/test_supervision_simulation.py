"""The simulation of slow and of broken streams plays what an observer reads today."""

from __future__ import annotations

from tests.system.judging import detection, false_alarms


def test_a_few_histories_are_judged_as_they_should_be() -> None:
    # ``python -m tests.system.judging`` tries as many as wanted.
    alarms = [alarm for seed in range(3) for alarm in false_alarms(seed)[1]]
    found = [detection(seed)[1] for seed in range(3)]

    assert alarms == []
    assert None not in found

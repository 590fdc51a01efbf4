"""A small set of simulated campaigns; ``tests.system.campaign_simulated`` plays two hundred large ones."""

from __future__ import annotations

import logging

import pytest

from tests.system.campaign_simulated import played


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_simulated_campaign_ends_as_its_records_say(seed: int) -> None:
    logging.disable(logging.CRITICAL)
    try:
        assert played(seed, streams=24, bad=0.05)["faults"] == []
    finally:
        logging.disable(logging.NOTSET)

"""Every attack of the catalogue, on a real server over HTTP."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from evals.attacks.suite import ATTACKS, Fought, fight, stands

CATALOGUE = Path(__file__).parents[3] / "docs/attacks.md"
TIMES = 10 if os.environ.get("OSTIARY_SOAK") == "1" else 1


@pytest.mark.slow
@pytest.mark.timeout(1_800 * TIMES)
def test_no_attack_works_and_every_control_sees() -> None:
    fought: list[Fought] = list(fight(times=TIMES))

    assert [each.line() for each in fought if not stands([each])] == []
    assert len(fought) == len(ATTACKS)


def test_the_catalogue_lists_every_attack_by_its_name() -> None:
    rows = re.findall(r"^\| (\S+) \| ([^|]+?) \|", CATALOGUE.read_text(), re.MULTILINE)
    listed = {number: name for number, name in rows if number != "#" and "-" not in number}

    assert listed == {each.number: each.name for each in ATTACKS}


def test_an_unknown_number_is_named() -> None:
    with pytest.raises(KeyError, match="no attack 99"):
        next(fight(["99"]))

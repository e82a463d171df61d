"""Runs the attacks, and says for each what it did and what came of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import ClassVar

from evals.attacks import answers, doors, indexed, leaks, races
from evals.attacks.case import Attack, Outcome, Verdict
from evals.attacks.ground import open_ground

ATTACKS: tuple[Attack, ...] = (
    *indexed.ATTACKS, *leaks.ATTACKS, *answers.ATTACKS, *doors.ATTACKS, *races.ATTACKS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fought:
    """An attack and its outcome."""

    HEADS: ClassVar[tuple[str, ...]] = (
        "#", "attack", "tries", "worked", "bound at 95 %", "control saw", "verdict",
    )  # fmt: skip

    attack: Attack
    outcome: Outcome

    def line(self) -> dict[str, str]:
        """Give what stands on its line."""
        done = self.outcome
        worked = "" if not done.n else str(done.n_events)
        if done.auc is not None and done.control_auc is not None:
            low, high = done.auc.low, done.auc.high
            worked = f"{worked}; AUC {done.auc.value:.3f} [{low:.3f}, {high:.3f}]"
            control = f"AUC {done.control_auc.value:.3f}"
        else:
            control = str(done.control) if done.n else ""
        bound = "" if done.bound is None else f"{done.bound:.2g}"
        cells = (
            self.attack.number, self.attack.name, f"{done.n:,}" if done.n else "", worked, bound,
            control, done.why or done.verdict.value,
        )  # fmt: skip
        return dict(zip(self.HEADS, cells, strict=True))

    def as_json(self) -> dict[str, object]:
        """Give all of it for a machine."""
        named = {"number": self.attack.number, "name": self.attack.name}
        return {**named, **asdict(self.outcome), "bound": self.outcome.bound,
                "verdict": self.outcome.verdict.value}  # fmt: skip


def fight(only: Collection[str] = (), times: int = 1) -> Iterator[Fought]:
    """Run the attacks one by one on one ground; the ground's server is stopped in the end.

    Args: only: their numbers; all if empty. times: so many times the usual tries.
    Raises: KeyError for a number that no attack has.
    """
    if unknown := set(only) - {each.number for each in ATTACKS}:
        raise KeyError(f"no attack {', '.join(sorted(unknown))}")
    chosen = [each for each in ATTACKS if not only or each.number in only]
    with open_ground() as ground:
        for attack in chosen:
            ground.engine.fresh()
            yield Fought(attack, attack.run(ground, times))


def stands(fought: Collection[Fought]) -> bool:
    """Say whether every attack was held off, with a control that saw, or has no door."""
    return all(each.outcome.verdict in {Verdict.HELD, Verdict.APART} for each in fought)

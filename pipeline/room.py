"""The ledger as the index sees it."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.errors import LedgerFull
from pipeline.ledger import MAPPED, RAM, Holding, Ledger
from pipeline.machine import give_back
from pipeline.making import Made
from retrieval.sizes import building_nbytes


class LedgerRoom:
    """Room in this process's memory (`retrieval.room.Room`).

    One policy for all tiers: what is asked for is in memory; where there is no room for it, the
    indexes that were asked for longest ago are let go of, one after the other, and are in
    their files alone until they are asked for again.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._coolers: list[Callable[[str], bool]] = []

    def ask(self, cool: Callable[[str], bool]) -> None:
        """Add who can let go of something for a tenant's sake, and says whether it did."""
        self._coolers.append(cool)

    def hold(self, owner: str, nbytes: int) -> Holding:
        """Hold bytes, if need be of what nobody asked for lately. Raises: LedgerFull."""
        tenant = owner.split("/")[1]
        while True:
            try:
                return self._ledger.hold(RAM, owner, nbytes)
            except LedgerFull:
                possible = nbytes <= self._ledger.capacity(RAM)
                if not possible or not any(cool(tenant) for cool in self._coolers):
                    raise

    def note(self, owner: str, nbytes: int, mapped_nbytes: int = 0) -> Callable[[], None]:
        """Write down what is there; gives what takes it back."""
        own = self._ledger.note(RAM, owner, nbytes)
        mapped = self._ledger.note(MAPPED, owner, mapped_nbytes)

        def release() -> None:
            own.release()
            mapped.release()

        return release

    def upload(self, tenant: str, made: Made) -> Holding:
        """Hold what a document will take in its tenant's index. Raises: LedgerFull."""
        n_letters = sum(len(piece.text) + len(made.parsed.title) for piece in made.pieces)
        widths = [vectors.shape[1] for vectors in made.vectors.values()]
        nbytes = sum(building_nbytes(len(made.pieces), width, n_letters) for width in widths)
        return self.hold(f"index/{tenant}/upload", nbytes)

    def tidy(self) -> None:
        """Return what was freed to the system."""
        give_back()

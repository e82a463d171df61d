"""The ledger as the index sees it."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.ledger import MAPPED, RAM, Holding, Ledger
from pipeline.machine import give_back
from pipeline.making import Made
from retrieval.sizes import building_nbytes


class LedgerRoom:
    """Room in this process's memory (`retrieval.room.Room`)."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def hold(self, owner: str, nbytes: int) -> Holding:
        """Hold bytes. Raises: LedgerFull."""
        return self._ledger.hold(RAM, owner, nbytes)

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
        return self._ledger.hold(RAM, f"index/{tenant}/upload", nbytes)

    def tidy(self) -> None:
        """Return what was freed to the system."""
        give_back()

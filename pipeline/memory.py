"""Who holds which bytes and why, for operators: on this machine, and over HTTP."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from acl.directory import tenants
from acl.session import Database
from pipeline.ledger import MAPPED, RAM, Ledger
from pipeline.machine import gpu_memory, process_memory
from retrieval.sizes import building_nbytes

_LETTERS = 800  # of the passage by which it is said how many would fit

_WHY = {
    "program": "interpreter, libraries and models, as measured before indexes were opened",
    "layout": "ids, documents and the orders over them",
    "dense": "codes, and the rows that are not in files yet",
    "lexical": "postings and vocabulary that are not in files yet",
    "building": "a change or a whole index being built, estimated before it is read",
    "merging": "parts being joined, estimated",
    "opening": "a snapshot being opened",
    "upload": "a document on its way into the index",
    "loading": "room for a copy while a model loads",
    "kv": "keys and values of the embedded engine's slots",
    "scratch": "compute buffers of the embedded engine, as measured",
}

_WHY_MAPPED = {
    "weights": "the model's files",
    "dense": "float32 rows and codes, in snapshots",
    "lexical": "postings and vocabulary, in snapshots",
}


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes of one owner."""

    owner: str
    nbytes: int
    why: str


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """One device. budget: what may be held, None where nothing bounds it. measured: what the
    system or the driver says, None if it does not. other: measured and held by nobody.
    """

    device: str
    budget: int | None
    held: int
    free: int | None
    measured: int | None
    other: int | None
    owners: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class WholeMemory:
    """All devices. passages_fit: how many more a tenant could bring at once, by RAM."""

    devices: tuple[DeviceMemory, ...]
    passages_fit: int


class Memory:
    """Reads the ledger for operators: it counts every tenant. Calls block."""

    def __init__(
        self, database: Database, ledger: Ledger, *, gpu: int | None = None, width: int = 0
    ) -> None:
        self._database = database
        self._ledger = ledger
        self._gpu = gpu
        self._width = width

    def whole(self) -> WholeMemory:
        """Say everything of this process."""
        names = {found: name for name, found in tenants(self._database).items()}
        held = self._ledger.held()
        devices = sorted(
            {RAM, MAPPED, *held} | ({f"gpu:{self._gpu}"} if self._gpu is not None else set())
        )
        shown = tuple(self._device(each, held.get(each, {}), names) for each in devices)
        one = building_nbytes(1000, self._width, 1000 * _LETTERS)
        return WholeMemory(shown, max(0, self._ledger.free(RAM)) * 1000 // one)

    def whole_json(self) -> bytes:
        """Give `whole` as JSON."""
        return json.dumps(asdict(self.whole())).encode()

    def _device(self, device: str, held: dict[str, int], names: dict[str, str]) -> DeviceMemory:
        total = sum(held.values())
        budget = None if device == MAPPED else self._ledger.capacity(device)
        measured = self._measured(device)
        # Mapped pages are in memory only as far as they are used.
        other = None if measured is None or device == MAPPED else measured - total
        reasons = _WHY_MAPPED if device == MAPPED else _WHY
        owners = tuple(
            Held(_named(owner, names), nbytes, reasons.get(owner.rpartition("/")[2], ""))
            for owner, nbytes in sorted(held.items(), key=lambda each: -each[1])
        )
        free = None if budget is None else budget - total
        return DeviceMemory(device, budget, total, free, measured, other, owners)

    def _measured(self, device: str) -> int | None:
        if device in (RAM, MAPPED):
            found = process_memory()
            if found is None:
                return None
            return found.private if device == RAM else found.mapped
        on_gpu = gpu_memory(int(device.rpartition(":")[2]))
        return None if on_gpu is None else on_gpu.ours


def _named(owner: str, names: dict[str, str]) -> str:
    kind, _, rest = owner.partition("/")
    tenant, _, leg = rest.partition("/")
    return f"{kind}/{names[tenant]}/{leg}" if kind == "index" and tenant in names else owner

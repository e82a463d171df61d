"""Which slot of llama.cpp serves which salt: its isolation and its cache at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from generation.errors import EngineBusy


@dataclass(slots=True)
class _Slot:
    id: int
    salt: str | None = None
    text: str = ""
    used: int = 0
    busy: bool = False


class SlotBook:
    """Lends the slots of one engine, each to one answer at a time.

    A prompt goes to the idle slot of its own salt that remembers the longest common prefix;
    one that continues nothing takes a slot nobody has used yet; else the idle slot of its
    salt; else the idle slot unused for longest. An idle slot is always taken at once; only
    when all are busy does a request wait, first come first served.
    """

    def __init__(self, n_slots: int) -> None:
        self._slots = [_Slot(i) for i in range(n_slots)]
        self._idle = asyncio.Semaphore(n_slots)
        self._clock = 0

    async def take(self, salt: str, text: str, timeout_s: float) -> int:
        """Lend a slot for a prompt.

        Returns: the slot's id, in [0, n_slots).
        Raises: EngineBusy if no slot came free within timeout_s.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.acquire()
        except TimeoutError:
            raise EngineBusy(
                f"all {len(self._slots)} slots stayed busy for {timeout_s:.1f} s"
            ) from None
        slot = self._choose(salt, text)
        self._clock += 1
        slot.salt, slot.text, slot.used, slot.busy = salt, text, self._clock, True
        return slot.id

    def give_back(self, slot: int) -> None:
        """End a loan; the slot remembers salt and prompt."""
        self._slots[slot].busy = False
        self._idle.release()

    def forget(self) -> None:
        """Forget what the slots remember: the engine started anew."""
        for slot in self._slots:
            slot.salt, slot.text = None, ""

    def _choose(self, salt: str, text: str) -> _Slot:
        idle = [slot for slot in self._slots if not slot.busy]
        own = [slot for slot in idle if slot.salt == salt]
        shared = {slot.id: _n_shared(slot.text, text) for slot in own}
        if own:
            best = max(own, key=lambda slot: (shared[slot.id], slot.used))
            if 2 * shared[best.id] >= min(len(best.text), len(text)):
                return best
        fresh = [slot for slot in idle if slot.salt is None]
        if fresh:
            return fresh[0]
        if own:
            return min(own, key=lambda slot: slot.used)
        return min(idle, key=lambda slot: slot.used)


def _n_shared(one: str, other: str) -> int:
    length = min(len(one), len(other))
    return next((i for i in range(length) if one[i] != other[i]), length)

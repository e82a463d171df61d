"""The lists of access classes on a GPU: the same rows as on the processor, never more.

Classic FAISS backend (`use_cuvs` off): its search of named lists reads no others, and its
selectors, which it ignores without an error, are not used. One thread owns the device.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import faiss
import numpy as np

from retrieval.errors import IndexUnsound
from retrieval.layout import best_first
from retrieval.lists.codes import CodeLists, prove_lists, search_lists
from retrieval.types import Ids, Vectors

_MOST_LISTS = 2_048  # FAISS's classic kernels take no more in one call
_MOST_DEPTH = 2_048
SMALL_LIST = 32
"""Lists are laid out in blocks of so many rows: smaller ones would be mostly padding."""

Hold = Callable[[str, int], AbstractContextManager[None]]
"""Reserve bytes of the device for an owner before they are taken; refuses what does not fit."""


def device_count() -> int:
    """Count the GPUs that this build of FAISS can use; 0 for the build without any."""
    count: Callable[[], int] | None = getattr(faiss, "get_num_gpus", None)
    return 0 if count is None else int(count())


def needed_nbytes(n_rows: int, width: int, n_lists: int, widest: int = _MOST_LISTS) -> int:
    """Say what lists of a part take on the device at most, scratch of one search included.

    fp16 codes and 8-byte ids, in lists padded to blocks of 32 rows; a zero centroid for each
    list; and for one search of `widest` lists the centroids that FAISS gathers and never uses.
    """
    padded = n_rows + n_lists * (SMALL_LIST - 1)
    return padded * (2 * width + 8) + n_lists * width * 4 + scratch_nbytes(width, widest)


def scratch_nbytes(width: int, widest: int = _MOST_LISTS) -> int:
    """Say what one search of `widest` lists needs beside them; it is set aside for each part.

    FAISS would set aside 1.5 GiB for each by itself, which no plan here has.
    """
    return widest * (width * 4 + 12 * _MOST_DEPTH)


class DeviceLists:
    """A part's lists of at least 32 rows on a GPU; searches of other lists are not taken.

    Args: starts: int64 [l + 1] of the part. vectors: float32 [n, d] by row. hold: reserves the
        bytes while the lists live, e.g. in a memory ledger.
    Raises: IndexUnsound if the device returns other rows than the asked lists hold.
    """

    def __init__(self, starts: Ids, vectors: Vectors, device: int, hold: Hold) -> None:
        sizes = np.diff(starts)
        self._lists = np.flatnonzero(sizes >= SMALL_LIST)
        chosen = sizes[self._lists]
        self._sizes = chosen
        # Rows of the chosen lists, in order; the device numbers its own lists from 0.
        self._rows: Ids = np.concatenate(
            [np.arange(starts[n], starts[n + 1], dtype=np.int64) for n in self._lists]
            or [np.empty(0, dtype=np.int64)]
        )
        own_starts = np.append(0, np.cumsum(chosen)).astype(np.int64)
        nbytes = needed_nbytes(len(self._rows), vectors.shape[1], len(self._lists))
        held = hold("index", nbytes)
        held.__enter__()
        self._owner = ThreadPoolExecutor(1, thread_name_prefix=f"gpu-{device}")
        self._on_device: list[faiss.GpuIndex] = []
        # Also when the last search that uses these lists lets go of them.
        self.close = weakref.finalize(self, _freed, self._owner, self._on_device, held)
        try:
            codes = CodeLists.build(own_starts, vectors[self._rows])
            self._on_device += self._owner.submit(_copied, codes, len(self._lists), device).result()
            # A part whose lists are all small has nothing on the device to prove.
            if len(self._lists):
                proof = (self._one, own_starts, vectors[self._rows[0]])
                self._owner.submit(prove_lists, *proof).result()
        except BaseException:
            self.close()
            raise

    def takes(self, lists: Ids, depth: int) -> bool:
        """Say whether all of these lists are on the device and the depth is within its bounds."""
        at = self._lists.searchsorted(lists)
        inside = at < len(self._lists)
        whole = bool(inside.all()) and np.array_equal(self._lists[at], lists)
        return whole and depth <= min(_MOST_DEPTH, int(self._sizes[at].sum()))

    def search(self, query: Vectors, lists: Ids, depth: int) -> tuple[Ids, Vectors]:
        """Give the best rows of these lists by their codes, best first.

        Raises: IndexUnsound if a list is not on the device.
        """
        if not self.takes(lists, depth):
            raise IndexUnsound(f"{len(lists)} lists to depth {depth} are not on the device")
        keys = self._lists.searchsorted(lists).astype(np.int64)
        rows, scores = self._owner.submit(self._chunks, query, keys, depth).result()
        order = best_first(rows, scores, depth)
        return self._rows[rows[order]], scores[order]

    def _chunks(self, query: Vectors, keys: Ids, depth: int) -> tuple[Ids, Vectors]:
        found = [
            self._one(query, keys[start : start + _MOST_LISTS], depth)
            for start in range(0, len(keys), _MOST_LISTS)
        ]
        return np.concatenate([r for r, _ in found]), np.concatenate([s for _, s in found])

    def _one(self, query: Vectors, keys: Ids, depth: int) -> tuple[Ids, Vectors]:
        return search_lists(self._on_device[0], len(self._lists), query, keys, depth)


def device_self_test(device: int, hold: Hold) -> None:
    """Prove on this build and device that search stays in the asked lists, without a selector.

    Raises: IndexUnsound.
    """
    vectors = np.random.default_rng(7).standard_normal((5 * 40, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    lists = DeviceLists(np.arange(6, dtype=np.int64) * 40, vectors, device, hold)
    lists.close()


def _copied(codes: CodeLists, n_lists: int, device: int) -> list[faiss.GpuIndex]:
    """Copy lists to the device. Runs in the thread that owns it."""
    index = codes.index
    # The device reads a centroid for each list, though it is asked for none.
    index.quantizer.add(np.zeros((n_lists, index.d), dtype=np.float32))
    options = faiss.GpuClonerOptions()
    options.use_cuvs = False
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(scratch_nbytes(index.d))
    copied = faiss.index_cpu_to_gpu(resources, device, index, options)
    copied.referenced_objects = [resources]  # type: ignore[attr-defined]  # lives as long
    return [copied]


def _freed(
    owner: ThreadPoolExecutor, on_device: list[faiss.GpuIndex], held: AbstractContextManager[None]
) -> None:
    owner.submit(on_device.clear).result()
    owner.shutdown()
    held.__exit__(None, None, None)

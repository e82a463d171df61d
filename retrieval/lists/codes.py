"""fp16 codes of rows, one FAISS inverted list per access class: what goes on a device."""

from __future__ import annotations

from collections.abc import Callable

import faiss
import numpy as np

from retrieval.errors import IndexUnsound
from retrieval.lists.kernel import code_error, exact_scores
from retrieval.types import Ids, Vectors


class CodeLists:
    """fp16 codes in FAISS inverted lists, one list per access class; immutable once made."""

    def __init__(self, index: faiss.IndexIVFScalarQuantizer, n_lists: int, width: int) -> None:
        """Take a FAISS index; `build` makes one."""
        if index.code_size != 2 * width:
            raise IndexUnsound(f"an fp16 code has {index.code_size} bytes, not {2 * width}")
        if index.nlist != max(n_lists, 1):
            raise IndexUnsound(f"the codes have {index.nlist} lists; the layout has {n_lists}")
        self._index = index
        self._n_lists = n_lists

    @property
    def index(self) -> faiss.IndexIVFScalarQuantizer:
        """FAISS's own index, to be copied to a device."""
        return self._index

    @classmethod
    def build(cls, starts: Ids, vectors: Vectors) -> CodeLists:
        """Encode rows. starts: int64 [l + 1], each list's first row. vectors: float32 [n, d]."""
        n_rows, width = vectors.shape
        n_lists = len(starts) - 1
        # Stays empty, lists are named by us; the index keeps a reference.
        quantizer = faiss.IndexFlatIP(width)
        index = faiss.IndexIVFScalarQuantizer(
            quantizer,
            width,
            max(n_lists, 1),
            faiss.ScalarQuantizer.QT_fp16,
            faiss.METRIC_INNER_PRODUCT,
            False,
        )
        index.is_trained = True  # fp16 has nothing to learn
        inverted = index.invlists
        if inverted is None:
            raise IndexUnsound("FAISS made an index without inverted lists")
        for number in range(n_lists):
            low, high = int(starts[number]), int(starts[number + 1])
            rows = np.arange(low, high, dtype=np.int64)
            # numpy rounds to nearest on every machine, which `code_error` counts on.
            codes = np.ascontiguousarray(vectors[low:high], dtype=np.float16).view(np.uint8)
            inverted.add_entries(number, high - low, faiss.swig_ptr(rows), faiss.swig_ptr(codes))
        index.ntotal = n_rows
        return cls(index, n_lists, width)

    def search(self, query: Vectors, lists: Ids, depth: int) -> tuple[Ids, Vectors]:
        """Give the best rows of these lists by their codes, best first; see `search_lists`."""
        return search_lists(self._index, self._n_lists, query, lists, depth)


def search_lists(
    index: faiss.Index, n_lists: int, query: Vectors, lists: Ids, depth: int
) -> tuple[Ids, Vectors]:
    """Give the best rows of some lists of a FAISS index by their codes, best first.

    FAISS checks none of this: with more keys than lists it reads the keys of others, with a
    key twice it returns rows twice, and it fills up with -1.

    Args: index: with n_lists inverted lists, on the CPU or on a device.
    Raises: IndexUnsound if the lists are not unique, ascending and existing.
    """
    keys = np.ascontiguousarray(lists, dtype=np.int64)
    n_keys = len(keys)
    if keys.ndim != 1 or not 0 < n_keys <= n_lists:
        raise IndexUnsound(f"{n_keys} lists asked; there are {n_lists}")
    if keys[0] < 0 or keys[-1] >= n_lists or (keys[1:] <= keys[:-1]).any():
        raise IndexUnsound(f"lists asked are not unique and ascending below {n_lists}")
    # Each array keeps a name until the call is over: swig_ptr does not hold it.
    question = np.ascontiguousarray(query)
    coarse = np.zeros(n_keys, dtype=np.float32)
    scores = np.empty(depth, dtype=np.float32)
    rows = np.empty(depth, dtype=np.int64)
    faiss.omp_set_num_threads(1)
    index.search_preassigned_c(  # type: ignore[attr-defined]  # added at run time
        1,
        faiss.swig_ptr(question),
        depth,
        faiss.swig_ptr(keys),
        faiss.swig_ptr(coarse),
        faiss.swig_ptr(scores),
        faiss.swig_ptr(rows),
        False,
        faiss.SearchParametersIVF(nprobe=n_keys),  # type: ignore[call-arg]  # as above
    )
    found = rows != -1
    return rows[found], scores[found]


Search = Callable[[Vectors, Ids, int], tuple[Ids, Vectors]]


def prove_lists(search: Search, starts: Ids, query: Vectors, n_proofs: int = 8) -> None:
    """Prove that a search of lists gives the rows that these hold, and no others.

    Asked are single lists spread over all, pairs of them, and all while they are few. FAISS
    gives at most 2,048 rows, so of longer lists it must give that many, all their own.

    Args: starts: int64 [l + 1], at least one list.
    Raises: IndexUnsound.
    """
    n_lists = len(starts) - 1
    spread = np.unique(np.linspace(0, n_lists - 1, min(n_lists, n_proofs)).astype(np.int64))
    asked = [spread[at : at + 1] for at in range(len(spread))]
    asked += [spread[at : at + 2] for at in range(len(spread) - 1)]
    for lists in [*asked, spread]:
        permitted = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in lists])
        depth = min(len(permitted), 2_048)
        rows, _ = search(query, lists, depth)
        if len(np.unique(rows)) != depth or not np.isin(rows, permitted).all():
            raise IndexUnsound("FAISS returned other rows than the asked lists hold")


def self_test() -> None:
    """Prove on this build that search stays in the asked lists and scores as promised.

    For the start of a process: every set of five small lists is searched with the vectors of
    all five, asking for more rows than the set holds; and the kernel scores each row the same
    alone as among others, at any alignment.

    Raises: IndexUnsound.
    """
    n_lists, width, per_list = 5, 24, 3
    spread = np.random.default_rng(7).standard_normal((n_lists * per_list, width))
    spread[:, ::3] *= 1e-6  # subnormal in fp16
    spread /= np.linalg.norm(spread, axis=1, keepdims=True)
    vectors = spread.astype(np.float32)
    starts = np.arange(n_lists + 1, dtype=np.int64) * per_list
    codes = CodeLists.build(starts, vectors)
    for asked in range(1, 2**n_lists):
        lists = np.flatnonzero([asked >> number & 1 for number in range(n_lists)])
        permitted = np.flatnonzero(np.isin(np.arange(len(vectors)) // per_list, lists))
        for query in vectors:
            rows, scores = codes.search(query, lists, len(vectors))
            if not np.array_equal(np.sort(rows), permitted):
                raise IndexUnsound("self-test: FAISS returned other rows than the asked lists hold")
            if np.any(np.abs(scores - exact_scores(vectors, query, rows)) > code_error(width)):
                raise IndexUnsound("self-test: FAISS scores lie outside the bound of fp16 codes")
    for columns in (1, 7, 24, 384):
        _same_alone(columns)


def _same_alone(width: int) -> None:
    vectors = np.random.default_rng(8).standard_normal((37, width)).astype(np.float32)
    moved = np.empty(vectors.size + 1, dtype=np.float32)[1:].reshape(vectors.shape)
    moved[:] = vectors
    together = exact_scores(vectors, vectors[0])
    for number in range(len(vectors)):
        alone = exact_scores(moved, vectors[0], np.array([number], dtype=np.int64))
        if alone.tobytes() != together[number : number + 1].tobytes():
            raise IndexUnsound("self-test: FAISS scores a row otherwise alone than among others")

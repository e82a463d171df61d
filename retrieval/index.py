"""The dense leg: exact nearest rows from the lists of access classes. Sole importer of faiss."""

from __future__ import annotations

import math

import faiss
import numpy as np

from retrieval.errors import IndexMismatch, IndexUnsound
from retrieval.layout import Layout, among, best_first
from retrieval.types import Ids, Vectors

UNIT_SLACK = 1e-3
"""How far from 1 the length of a unit vector may lie."""

_CHUNK = 512  # rows whose products stay in the processor's cache
_LIST_NBYTES = 165  # what FAISS spends on an inverted list, even an empty one


def exact_scores(rows: Vectors, query: Vectors) -> Vectors:
    """Score rows against one query by the kernel that decides every ranking.

    One float32 product per column, then the columns are folded in halves. All steps are
    elementwise, so IEEE 754 fixes each bit: a row scores the same alone as in any batch, at
    any alignment, on any machine. Sums by BLAS or einsum do not.

    Args: rows: float32 [n, d]. query: float32 [d], d at least 1.
    Returns: float32 [n].
    """
    scores = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), _CHUNK):
        sums = rows[start : start + _CHUNK] * query
        width = sums.shape[1]
        while width > 1:
            half = width // 2
            sums[:, :half] += sums[:, width - half : width]
            width -= half
        scores[start : start + _CHUNK] = sums[:, 0]
    return scores


def code_error(width: int) -> float:
    """Bound how far a score on fp16 codes can lie from the exact score of the same row.

    For rows x, codes y and query q, with |x|, |q| <= 1 + UNIT_SLACK = s, u = 2^-24:
    - a component is rounded to nearest: by at most 2^-11 of itself, or by 2^-25 where it is
      subnormal in fp16; so |x - y| <= 2^-11 s + 2^-25 sqrt(d), and |<q, x - y>| <= s times that;
    - a float32 sum of d products, in any order, with or without fused steps, errs by at most
      g = d u / (1 - d u) times sum |q_i y_i| <= s (s + |x - y|): once in FAISS, once here;
    - float32 products that underflow add less than d 2^-149 in each.
    It is a constant of the width: a maximum over the stored rows would tell of forbidden ones.

    Source: N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
    """
    unit = 1 + UNIT_SLACK
    rounded = 2.0**-11 * unit + 2.0**-25 * math.sqrt(width)
    growth = width * 2.0**-24 / (1 - width * 2.0**-24)
    return unit * rounded + 2 * growth * unit * (unit + rounded) + width * 2.0**-148


def check_units(vectors: Vectors) -> None:
    """Refuse rows that are not finite unit vectors: the bound above rests on it.

    Raises: IndexMismatch.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    if not np.all(np.abs(lengths - 1) <= UNIT_SLACK):
        n_wrong = int(np.sum(~(np.abs(lengths - 1) <= UNIT_SLACK)))
        raise IndexMismatch(f"{n_wrong} of {len(vectors)} vectors are not unit; needed all")


def check_query(vector: Vectors, width: int) -> Vectors:
    """Give the query vector as the kernels take it.

    Raises: ValueError if it is not a finite float32 unit vector of this width.
    """
    if vector.dtype != np.float32 or vector.shape != (width,):
        found = f"{vector.dtype} {list(vector.shape)}"
        raise ValueError(f"query vector is {found}; needed float32 [{width}]")
    length = math.sqrt(float(np.sum(vector.astype(np.float64) ** 2)))
    if not abs(length - 1) <= UNIT_SLACK:
        raise ValueError(f"query vector has length {length:.4f}; needed 1 within {UNIT_SLACK}")
    return np.ascontiguousarray(vector)


class CodeLists:
    """fp16 codes in FAISS inverted lists, one list per access class; immutable once built.

    Args: starts: int64 [l + 1], the first row of each list. vectors: float32 [n, d] by row.
    """

    def __init__(self, starts: Ids, vectors: Vectors) -> None:
        n_rows, width = vectors.shape
        self._n_lists = len(starts) - 1
        self._quantizer = faiss.IndexFlatIP(width)  # stays empty: lists are named by us
        self._index = faiss.IndexIVFScalarQuantizer(
            self._quantizer,
            width,
            max(self._n_lists, 1),
            faiss.ScalarQuantizer.QT_fp16,
            faiss.METRIC_INNER_PRODUCT,
            False,
        )
        self._index.is_trained = True  # fp16 has nothing to learn
        # numpy rounds to nearest on every machine, which `code_error` counts on.
        codes = np.ascontiguousarray(vectors, dtype=np.float16).view(np.uint8)
        if self._index.code_size != 2 * width:
            raise IndexUnsound(f"an fp16 code has {self._index.code_size} bytes, not {2 * width}")
        rows = np.arange(n_rows, dtype=np.int64)
        inverted = self._index.invlists
        if inverted is None:
            raise IndexUnsound("FAISS made an index without inverted lists")
        for number in range(self._n_lists):
            low, high = int(starts[number]), int(starts[number + 1])
            held_rows, held_codes = rows[low:high], codes[low:high]
            inverted.add_entries(
                number, high - low, faiss.swig_ptr(held_rows), faiss.swig_ptr(held_codes)
            )
        self._index.ntotal = n_rows

    def search(self, query: Vectors, lists: Ids, depth: int) -> tuple[Ids, Vectors]:
        """Give the best rows of these lists by their codes, best first.

        FAISS checks none of this: with more keys than lists it reads the keys of others, with
        a key twice it returns rows twice, and it fills up with -1.

        Raises: IndexUnsound if the lists are not unique, ascending and existing.
        """
        keys = np.ascontiguousarray(lists, dtype=np.int64)
        n_keys = len(keys)
        if keys.ndim != 1 or not 0 < n_keys <= self._n_lists:
            raise IndexUnsound(f"{n_keys} lists asked; there are {self._n_lists}")
        if keys[0] < 0 or keys[-1] >= self._n_lists or np.any(keys[1:] <= keys[:-1]):
            raise IndexUnsound(f"lists asked are not unique and ascending below {self._n_lists}")
        # Each array keeps a name until the call is over: swig_ptr does not hold it.
        coarse = np.zeros(n_keys, dtype=np.float32)
        scores = np.empty(depth, dtype=np.float32)
        rows = np.empty(depth, dtype=np.int64)
        faiss.omp_set_num_threads(1)
        self._index.search_preassigned_c(  # type: ignore[attr-defined]  # added at run time
            1,
            faiss.swig_ptr(query),
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


class DensePart:
    """An immutable set of vectors that answers exactly, touching the asked classes only.

    Args: layout: where the rows lie. vectors: float32 [n, d], unit rows, in layout order.
    Raises: IndexMismatch if a vector is not a unit.
    """

    def __init__(self, layout: Layout, vectors: Vectors) -> None:
        if vectors.dtype != np.float32 or len(vectors) != layout.n_rows:
            found = f"{vectors.dtype} {list(vectors.shape)}"
            raise ValueError(f"vectors are {found}; needed float32 [{layout.n_rows}, d]")
        check_units(vectors)
        self.vectors = np.ascontiguousarray(vectors)
        self._layout = layout
        self._codes = CodeLists(layout.starts, self.vectors)
        self._error = code_error(vectors.shape[1])

    @property
    def nbytes(self) -> int:
        """How many bytes codes, float32 rows, ids and lists take."""
        n_rows, width = self.vectors.shape
        return int(n_rows * (6 * width + 8) + self._layout.n_lists * _LIST_NBYTES)

    def nearest(self, vector: Vectors, classes: Ids, depth: int, dead: Ids) -> tuple[Ids, Vectors]:
        """Give the exact best live rows of these classes: ids and scores, best first.

        Codes are searched first, twice as deep as asked, and what they find is scored by
        `exact_scores`. That is the answer if the last place beats whatever was left out by
        more than `code_error`; else once more twice as deep; else every row is scored.

        Args:
            classes: int64, ascending and unique; those without rows here add nothing.
            depth: at least 1; more than there are rows gives all.
            dead: int64, ascending rows that are no longer there.

        Raises: ValueError for an unfit vector; IndexUnsound if FAISS strayed.
        """
        query = check_query(vector, self.vectors.shape[1])
        lists = self._layout.lists(classes)
        n_scope = int(np.sum(self._layout.sizes(lists)))
        gone = self._layout.marked(lists, dead)
        wanted = min(depth, n_scope - len(gone))
        if wanted < 1:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        first_reach = 2 * (depth + len(gone))
        for reach in (first_reach, 2 * first_reach):
            if reach >= n_scope:
                break
            rows, coarse = self._codes.search(query, lists, reach)
            self._refuse_strays(rows, classes, reach)
            ids, scores = self._ranked(rows[~among(rows, gone)], query, wanted)
            if float(scores[-1]) > float(coarse.min()) + self._error:
                return ids, scores
        every = self._layout.rows(lists)
        return self._ranked(every[~among(every, gone)], query, wanted)

    def scores(self, rows: Ids, vector: Vectors) -> Vectors:
        """Give the exact scores of these rows: float32 [n]. Raises: ValueError, as above."""
        return self._scored(rows, check_query(vector, self.vectors.shape[1]))

    def _ranked(self, rows: Ids, query: Vectors, depth: int) -> tuple[Ids, Vectors]:
        ids, scores = self._layout.ids[rows], self._scored(rows, query)
        order = best_first(ids, scores, depth)
        return ids[order], scores[order]

    def _scored(self, rows: Ids, query: Vectors) -> Vectors:
        scores = np.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), _CHUNK):
            taken = rows[start : start + _CHUNK]
            scores[start : start + _CHUNK] = exact_scores(self.vectors[taken], query)
        return scores

    def _refuse_strays(self, rows: Ids, classes: Ids, reach: int) -> None:
        if np.any((rows < 0) | (rows >= self._layout.n_rows)):
            raise IndexUnsound(f"FAISS returned a row outside the part's {self._layout.n_rows}")
        if len(np.unique(rows)) != reach:
            raise IndexUnsound(f"FAISS returned {len(np.unique(rows))} rows; {reach} were there")
        n_strays = int(np.sum(~among(self._layout.class_of(rows), classes)))
        if n_strays:
            raise IndexUnsound(f"FAISS returned {n_strays} rows of classes that were not asked")


def self_test() -> None:
    """Prove on this build that search stays in the asked lists and scores fp16 as bounded.

    For the start of a process: every set of five small lists is searched with the vectors of
    all five, asking for more rows than the set holds.

    Raises: IndexUnsound.
    """
    n_lists, width, per_list = 5, 24, 3
    spread = np.random.default_rng(7).standard_normal((n_lists * per_list, width))
    spread[:, ::3] *= 1e-6  # subnormal in fp16
    spread /= np.linalg.norm(spread, axis=1, keepdims=True)
    vectors = spread.astype(np.float32)
    starts = np.arange(n_lists + 1, dtype=np.int64) * per_list
    codes = CodeLists(starts, vectors)
    for asked in range(1, 2**n_lists):
        lists = np.flatnonzero([asked >> number & 1 for number in range(n_lists)])
        permitted = np.flatnonzero(np.isin(np.arange(len(vectors)) // per_list, lists))
        for query in vectors:
            rows, scores = codes.search(query, lists, len(vectors))
            if not np.array_equal(np.sort(rows), permitted):
                raise IndexUnsound("self-test: FAISS returned other rows than the asked lists hold")
            if np.any(np.abs(scores - exact_scores(vectors[rows], query)) > code_error(width)):
                raise IndexUnsound("self-test: FAISS scores lie outside the bound of fp16 codes")

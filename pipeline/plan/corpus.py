"""What the passages take: in memory, in mapped files, and on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.indexing import GPU_ROWS
from retrieval.lists.device import needed_nbytes
from retrieval.sizes import PartCounts, PartSizes, building_nbytes, part_sizes

_HEAPS_K, _HEAPS_B = 44, 0.49
_TERM_LETTERS = 7
_WORD_LETTERS = 6  # with the space behind it


@dataclass(frozen=True, slots=True)
class CorpusSize:
    """How much is searched. n_passages: of all tenants. n_classes: access classes of each
    tenant. words: of a passage. different: share of them that are different terms.
    """

    n_passages: int
    width: int = 384
    n_tenants: int = 1
    n_classes: int = 100
    words: int = 130
    different: float = 0.7


@dataclass(frozen=True, slots=True)
class CorpusNeeds:
    """Bytes of all tenants' indexes. on_device: on a GPU, with the scratch of a search.

    building: what the ledger holds while one tenant's index is built whole.
    """

    sizes: PartSizes
    per_passage: float
    on_device: int
    building: int
    formulas: tuple[str, ...]


def corpus_needs(size: CorpusSize) -> CorpusNeeds:
    """Work out what the indexes take, each tenant's alike, by the index's own sums.

    Vocabulary: Heaps' law, M = k T^b with k = 44 and b = 0.49 for T words of a tenant.
    Source: C. Manning et al., Introduction to Information Retrieval, 2008, section 5.1.1.
    """
    n_each = -(-size.n_passages // max(1, size.n_tenants))
    n_terms = round(_HEAPS_K * (max(1, n_each * size.words)) ** _HEAPS_B)
    counts = PartCounts(
        n_rows=n_each,
        n_lists=min(size.n_classes, n_each),
        n_postings=round(n_each * size.words * size.different),
        n_terms=n_terms,
        n_letters=n_terms * _TERM_LETTERS,
    )
    one = part_sizes(counts, size.width)
    n = size.n_tenants
    sizes = PartSizes(n * one.layout, n * one.codes, n * one.lexical, n * one.rows)
    on_device = 0
    if n_each >= GPU_ROWS:  # smaller indexes stay on the processor
        on_device = n * needed_nbytes(n_each, size.width, counts.n_lists)
    rows = max(1, n_each * n)
    formulas = (
        f"layout {sizes.layout / rows:.0f} B a passage: ids, documents and both in order",
        f"dense {sizes.codes / rows:.0f} B: {size.width} x int8 codes, a scale",
        f"lexical {sizes.lexical / rows:.0f} B: {counts.n_postings / max(1, n_each):.0f} terms x 5 "
        f"B, {n_terms:,} terms in a tenant's vocabulary (Heaps' law)",
        f"rows {sizes.rows / rows:.0f} B: {size.width} x float32, mapped from files",
    )
    building = building_nbytes(n_each, size.width, n_each * size.words * _WORD_LETTERS)
    return CorpusNeeds(sizes, sizes.in_memory / rows, on_device, building, formulas)

"""Lexical parts made of a few texts."""

from __future__ import annotations

from retrieval.bags import count_terms
from retrieval.layout import Layout
from retrieval.lexical import Tally
from retrieval.lexical import bm25 as matches_of
from retrieval.postings import LexicalPart
from retrieval.types import Ids, Vectors
from retrieval.words import Lexicon
from tests.make import make_ids

LEXICON = Lexicon()


def part_of(texts: list[str], classes: list[int]) -> LexicalPart:
    ids = make_ids(range(1, len(texts) + 1))
    layout, order = Layout.of(ids, make_ids(classes), ids)
    return LexicalPart.build(layout, count_terms([texts[position] for position in order], LEXICON))


def tally(
    part: LexicalPart, terms: list[str], classes: list[int], dead: list[int] | None = None
) -> Tally:
    return part.tally(terms, part.layout.reach(make_ids(classes), make_ids(dead or [])))


def bm25(tallies: list[Tally], weights: list[int]) -> tuple[Ids, Vectors]:
    return matches_of(tallies, weights).best()

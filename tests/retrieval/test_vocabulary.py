"""Terms in arrays: numbered, found again, given back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.vocabulary import Vocabulary

TERMS = ["pump", "seal", "naïve", "東京", "a", "pumps", "\U0001f600x"]


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), unique=True))
def test_every_term_is_found_under_its_number_and_given_back(terms: list[str]) -> None:
    vocabulary, numbers = Vocabulary.of(terms)
    assert len(vocabulary) == len(terms)
    for term, number in zip(terms, numbers.tolist(), strict=True):
        assert vocabulary.place(term) == (number, True)
        assert vocabulary.terms()[number] == term


@pytest.mark.parametrize("term", ["", "pum", "pumpe", "zz", "東", "\U0010ffff", "naive"])
def test_an_unknown_term_is_told_from_its_neighbour(term: str) -> None:
    number, is_known = Vocabulary.of(TERMS)[0].place(term)
    assert not is_known
    assert 0 <= number < len(TERMS)


def test_terms_stand_in_the_order_of_their_bytes_whatever_came_first() -> None:
    forwards, backwards = Vocabulary.of(TERMS)[0], Vocabulary.of(TERMS[::-1])[0]
    assert forwards.terms() == backwards.terms() == tuple(sorted(TERMS, key=str.encode))
    assert np.array_equal(forwards.letters, backwards.letters)


def test_a_term_takes_its_letters_and_eight_bytes() -> None:
    terms = [f"word{number}" for number in range(1000)]
    assert Vocabulary.of(terms)[0].nbytes == len("".join(terms)) + 8 * 1001


def test_a_vocabulary_may_be_empty() -> None:
    vocabulary, numbers = Vocabulary.of([])
    assert (len(vocabulary), vocabulary.terms(), len(numbers)) == (0, (), 0)

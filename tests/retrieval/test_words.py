"""What counts as the same word."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from retrieval.words import MAX_TERM, Lexicon


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Running shoes", "run shoe"),
        ("Café NAÏVE", "cafe naive"),
        ("ﬁle №5", "file no5"),
        ("Ωμέγα", "ωμεγα"),
        ("שָׁלוֹם", "שלום"),
        ("co\u00adoperation", "cooperation"),
        ("ＡＢＣ", "abc"),
        ("e\u0301tude", "étude"),
        ("the company’s report", "company report"),
    ],
)
def test_spellings_of_one_word_give_the_same_terms(lexicon: Lexicon, one: str, other: str) -> None:
    assert lexicon.terms(one) == lexicon.terms(other) != []


@pytest.mark.parametrize(
    ("clause", "word"),
    [
        ("私は東京に住んでいます", "東京"),
        ("我们明天去北京开会", "北京"),
        ("ฉันรักแมวมาก", "แมว"),
        ("서울특별시에서 만나요", "서울"),
        ("データベースを更新", "更新"),
    ],
)
def test_a_word_inside_a_clause_without_spaces_is_found(
    lexicon: Lexicon, clause: str, word: str
) -> None:
    """A whole clause used to become one term, so that no question hit it (field report 42)."""
    assert set(lexicon.terms(word)) <= set(lexicon.terms(clause))
    assert lexicon.terms(word)


def test_marks_that_are_letters_stay(lexicon: Lexicon) -> None:
    assert lexicon.terms("がく") != lexicon.terms("かく")
    assert lexicon.terms("की") != lexicon.terms("क")


def test_scripts_within_one_word_are_told_apart(lexicon: Lexicon) -> None:
    assert sorted(lexicon.terms("T恤x9")) == ["t", "x9", "恤"]


def test_function_words_go_only_in_english(lexicon: Lexicon) -> None:
    assert lexicon.terms("What is the pump?") == ["pump"]
    assert "the" in Lexicon("german").terms("the")


def test_repeats_are_kept_for_counting(lexicon: Lexicon) -> None:
    assert lexicon.terms("pump pumps pumping") == ["pump"] * 3


def test_a_term_has_a_bounded_length(lexicon: Lexicon) -> None:
    assert [len(term) for term in lexicon.terms("9" * 10_000)] == [MAX_TERM]


@pytest.mark.parametrize("text", ["", " \n", "?!…", "\u200b", "\ufeff"])
def test_text_without_letters_has_no_terms(lexicon: Lexicon, text: str) -> None:
    assert lexicon.terms(text) == []


def test_nul_and_a_lone_surrogate_do_no_harm(lexicon: Lexicon) -> None:
    assert lexicon.terms("left\x00right \ud800 end") == ["left", "right", "end"]


def test_threads_stem_alike(lexicon: Lexicon) -> None:
    text = " ".join(f"word{number}ing running houses" for number in range(300))
    alone = lexicon.terms(text)
    with ThreadPoolExecutor(4) as pool:
        assert all(terms == alone for terms in pool.map(lexicon.terms, [text] * 16))


def test_an_unknown_language_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"'klingon'.*english"):
        Lexicon("klingon")

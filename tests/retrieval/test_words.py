"""What counts as the same word."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        ("データベースを更新", "更新"),
        ("明日までに見積書をお送りください", "見積"),
        ("サーバーの再起動が必要です", "起動"),
        ("この締切は〆切と書く", "〆切"),
        ("我们明天去北京开会", "北京"),
        ("请在周五之前提交报销单据", "报销"),
        ("會議紀錄已經寄給所有同仁", "紀錄"),
        ("ฉันรักแมวมาก", "แมว"),
        ("กรุณาส่งรายงานภายในวันศุกร์", "รายงาน"),
        ("เขาไปไหนมา", "ไป"),
        ("ກະລຸນາສົ່ງບົດລາຍງານ", "ບົດ"),
        ("សូមផ្ញើរបាយការណ៍", "ផ្ញើ"),
        ("ကျေးဇူးပြု၍အစီရင်ခံစာပို့ပါ", "အစီ"),
        ("서울특별시에서 만나요", "서울"),
        ("회의록은금요일까지제출하세요", "회의"),
    ],
)
def test_a_word_inside_a_clause_without_spaces_is_found(
    lexicon: Lexicon, clause: str, word: str
) -> None:
    """A whole clause used to become one term, so that no question hit it (field report 42)."""
    assert set(lexicon.terms(word)) <= set(lexicon.terms(clause))
    assert lexicon.terms(word)


@pytest.mark.parametrize(
    ("clause", "word"),
    [("他每天早上喝茶", "茶"), ("駅前の車を移動する", "車"), ("이 물은 차갑습니다", "물")],
)
def test_a_word_of_one_character_is_found_inside_a_clause(
    lexicon: Lexicon, clause: str, word: str
) -> None:
    assert lexicon.terms(word) == [word]
    assert word in lexicon.terms(clause)


def test_single_letters_of_kana_and_thai_are_no_terms_of_their_own(lexicon: Lexicon) -> None:
    assert lexicon.terms("データ") == ["デー", "ータ"]
    assert lexicon.terms("แมว") == ["แม", "มว"]
    assert lexicon.terms("食べる") == ["食べ", "べる", "食"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("葛\U000e0100飾区", "葛飾区"),
        ("テ\u3099ータ", "データ"),
        ("ﾃﾞｰﾀ", "データ"),
        ("ᄒ\u1161ᆫ국", "한국"),
        ("น\u0e4d\u0e32", "น\u0e33"),
    ],
)
def test_what_looks_alike_in_other_scripts_is_alike(lexicon: Lexicon, one: str, other: str) -> None:
    """A variant sign used to cut the run it stood in."""
    assert lexicon.terms(one) == lexicon.terms(other)


def test_pairs_come_before_single_characters(
    lexicon: Lexicon,
) -> None:
    terms = lexicon.terms("提交报销，北京开会 soon")
    assert terms[0] == "soon"
    assert [len(term) for term in terms[1:]] == sorted(map(len, terms[1:]), reverse=True)


def test_what_a_text_gives_does_not_depend_on_texts_before_it() -> None:
    """The language is a setting: nothing of it is guessed from documents."""
    fresh, used = Lexicon(), Lexicon()
    for text in ("les chevaux mangeaient", "die Häuser der Städte", "請提交報銷單據") * 50:
        used.terms(text)
    for text in ("running houses", "les chevaux", "報銷"):
        assert used.terms(text) == fresh.terms(text)


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


@given(st.text(st.characters(max_codepoint=127)) | st.text("aZ 's9t’-_.\n"))
def test_ascii_text_is_split_as_any_other(text: str) -> None:
    """A Cyrillic word at the end makes it go the long way."""
    lexicon = Lexicon()
    assert lexicon.terms(f"{text} \nжук") == [*lexicon.terms(text), *lexicon.terms("жук")]

"""Answers against short right ones."""

from __future__ import annotations

import pytest

from evals.answers import contains, contains_all, exact_match, normalised, token_f1


def test_case_marks_articles_and_punctuation_do_not_count() -> None:
    assert normalised("The  gate, opens [1] at 9!") == "gate opens at 9"
    assert exact_match("A gate.", ["the gate"]) == 1.0


@pytest.mark.parametrize(
    ("answer", "right", "is_in"),
    [
        ("It opens at nine [1].", ["nine"], 1.0),
        ("It opens at ninety.", ["nine"], 0.0),
        ("Thirty days.", ["30", "thirty"], 1.0),
        ("anything", ["the"], 0.0),  # nothing is left of it
        ("anything", [], 0.0),
    ],
)
def test_an_answer_contains_whole_words(answer: str, right: list[str], is_in: float) -> None:
    assert contains(answer, right) == is_in


def test_f1_is_that_of_the_best_right_answer() -> None:
    assert token_f1("the red gate", ["red gate", "blue"]) == 1.0
    assert token_f1("red gate opens", ["red door"]) == pytest.approx(2 * 1 / (3 + 2))
    assert token_f1("", ["red"]) == 0.0


def test_where_a_script_has_no_spaces_each_character_is_a_word() -> None:
    assert contains("是萨克森花园。[1]", ["萨克森花园"]) == 1.0
    assert contains("是萨克森城。", ["萨克森花园"]) == 0.0
    assert token_f1("萨克森城", ["萨克森园"]) == pytest.approx(0.75)
    assert contains("«Das Theater» – ja", ["das theater"]) == 1.0


def test_of_each_group_one_is_needed() -> None:
    assert contains_all("6.4% and 18%", [["6.4%"], ["18%", "eighteen"]]) == 1.0
    assert contains_all("6.4%", [["6.4%"], ["18%"]]) == 0.0

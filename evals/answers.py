"""Answers against short right ones, without a model that judges."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

_MARKS = re.compile(r"\[\d+\]")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
# Scripts written without spaces: Thai, Lao, kana, Han. Each of their characters is a word.
_UNSPACED = re.compile(r"([\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")


def normalised(text: str) -> str:
    """Give lower case without citation marks, punctuation, articles and doubled spaces.

    Sources: P. Rajpurkar et al., SQuAD, EMNLP 2016: its evaluation script's normalisation;
    P. Lewis et al., MLQA, ACL 2020: punctuation of all scripts, and characters for words where
    a script has no spaces. The citation marks are ours.
    """
    lower = _MARKS.sub(" ", unicodedata.normalize("NFKC", text)).casefold()
    bare = "".join(" " if _is_punctuation(char) else char for char in lower)
    return " ".join(_ARTICLES.sub(" ", _UNSPACED.sub(r" \1 ", bare)).split())


def exact_match(answer: str, right: Sequence[str]) -> float:
    """Give 1 if the answer is one of the right ones, else 0."""
    return float(normalised(answer) in {normalised(each) for each in right})


def contains(answer: str, right: Sequence[str]) -> float:
    """Give 1 if a right answer stands in the answer as whole words, else 0."""
    said = f" {normalised(answer)} "
    return float(any(f" {normalised(each)} " in said for each in right if normalised(each)))


def contains_all(answer: str, groups: Sequence[Sequence[str]]) -> float:
    """Give 1 if of each group of right answers one stands in the answer, else 0."""
    return float(all(contains(answer, group) for group in groups))


def token_f1(answer: str, right: Sequence[str]) -> float:
    """Give the best F1 of words shared with a right answer."""
    return max((_f1(answer, each) for each in right), default=0.0)


def _is_punctuation(char: str) -> bool:
    return char in string.punctuation or unicodedata.category(char).startswith("P")


def _f1(answer: str, right: str) -> float:
    said, wanted = Counter(normalised(answer).split()), Counter(normalised(right).split())
    shared = (said & wanted).total()
    if not shared:
        return 0.0
    return 2 * shared / (said.total() + wanted.total())

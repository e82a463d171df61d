"""Answers against short right ones, without a model that judges."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_MARKS = re.compile(r"\[\d+\]")
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised(text: str) -> str:
    """Give lower case without citation marks, punctuation, articles and doubled spaces.

    Source: P. Rajpurkar et al., SQuAD, EMNLP 2016: its evaluation script's normalisation; the
    citation marks are ours.
    """
    lower = _MARKS.sub(" ", text).lower()
    bare = "".join(" " if char in string.punctuation else char for char in lower)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(answer: str, right: Sequence[str]) -> float:
    """Give 1 if the answer is one of the right ones, else 0."""
    return float(normalised(answer) in {normalised(each) for each in right})


def contains(answer: str, right: Sequence[str]) -> float:
    """Give 1 if a right answer stands in the answer as whole words, else 0."""
    said = f" {normalised(answer)} "
    return float(any(f" {normalised(each)} " in said for each in right if normalised(each)))


def token_f1(answer: str, right: Sequence[str]) -> float:
    """Give the best F1 of words shared with a right answer."""
    return max((_f1(answer, each) for each in right), default=0.0)


def _f1(answer: str, right: str) -> float:
    said, wanted = Counter(normalised(answer).split()), Counter(normalised(right).split())
    shared = (said & wanted).total()
    if not shared:
        return 0.0
    return 2 * shared / (said.total() + wanted.total())

"""Citations for models that can't cite: each sentence gets the passage that shares its words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import Stemmer

from generation.cite import Mark, Marks, Segment, joined
from generation.code import CodeSense
from generation.types import Evidence

# Half of a sentence's content words: below that the match is mostly chance.
MIN_SHARE = 0.5

# Of a sentence without content words, such as "1.", this much runs on into the next.
_RUN_ON_CHARS = 64

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_ORDINAL = re.compile(r"^\s*(?:\d{1,3}[.)]|[-*•])(?:\s+|$)")
_SHORT = re.compile(r"(?:^|[\s(\"'])(?:[^\W\d_]|[A-Za-z](?:\.[A-Za-z])+)\.$")
_END, _WIDE_END, _CLOSERS = frozenset(".!?…"), frozenset("。！？"), frozenset("\"')]*_”’»」』）")
_ABBREVIATIONS = """
mr mrs ms dr prof st no nos nr vs etc fig figs eq sec ch vol ed eds al inc ltd co corp dept
approx est jan feb mar apr jun jul aug sep sept oct nov dec art para pp ca cf resp
"""
_STOP_WORDS = """
a about above after again all also am an and any are as at be because been before being below
between both but by can could did do does doing down during each few for from further had has
have having he her here hers him his how i if in into is it its itself just me more most my no
nor not of off on once only or other our ours out over own per same she should so some such
than that the their theirs them then there these they this those through to too under until up
us very was we were what when where which while who whom why will with would you your yours
answer passage passages question according s t
"""
_SHORT_WORDS, _EMPTY_WORDS = frozenset(_ABBREVIATIONS.split()), frozenset(_STOP_WORDS.split())


class Attributor:
    """Appends [n] to each finished sentence, n being the evidence that supports it best.

    Support is the share of the sentence's content words that stand in the passage or its
    title; ties go to the lower number. A passage that lacks a number of the sentence
    supports nothing. It is a pointer to where the words come from, not a check of facts.
    The model's own marks are removed; code, tables and headings are left alone.
    """

    def __init__(self, evidence: Sequence[Evidence]) -> None:
        self._stemmer = Stemmer.Stemmer("english")
        self._passages = [
            (e.number, self._terms(f"{e.title}\n{e.text}"), _numbers(f"{e.title}\n{e.text}"))
            for e in sorted(evidence, key=lambda e: e.number)
        ]
        self._marks = Marks(())
        self._code = CodeSense()
        self._sentence: list[str] = []
        self._ended = ""
        self._out: list[Segment] = []

    def feed(self, text: str) -> list[Segment]:
        """Give the text as it comes, with marks where sentences have ended."""
        return self._take(self._marks.feed(text))

    def flush(self) -> list[Segment]:
        """Give what was held, and the mark of the last sentence."""
        given = self._take(self._marks.flush())
        self._cite()
        return given + self._take([])

    def _take(self, segments: list[Segment]) -> list[Segment]:
        for segment in segments:
            for char in segment if isinstance(segment, str) else "":
                self._step(char)
        given = joined(self._out)
        self._out = []
        return given

    def _step(self, char: str) -> None:
        in_code = self._code.feed(char)
        if self._ended and not in_code and char not in _CLOSERS and char not in _END:
            if char.isspace() or self._ended in _WIDE_END:
                self._cite()
            self._ended = ""
        if char == "\n":
            if self._sentence and self._sentence[0] not in "|#" and not in_code:
                self._cite()
            self._sentence = []
        elif not in_code:
            if self._sentence or not char.isspace():
                self._sentence.append(char)
            if char in _WIDE_END or (char in _END and not (char == "." and self._is_short())):
                self._ended = char
        self._out.append(char)

    def _is_short(self) -> bool:
        tail = "".join(self._sentence[-12:])
        word = re.split(r"[\s(]", tail.rstrip("."))[-1].lower()
        return word in _SHORT_WORDS or _SHORT.search(tail) is not None

    def _cite(self) -> None:
        """Mark the sentence that has ended; one without content words runs on."""
        sentence = "".join(self._sentence).rstrip()
        stated = _ORDINAL.sub("", sentence)
        terms = self._terms(stated)
        if not terms:
            self._sentence = self._sentence[:_RUN_ON_CHARS]
            return
        self._sentence = []
        if sentence.endswith(":") or sentence[0] in "|#":
            return
        numbers = _numbers(stated)
        best, best_share = None, 0.0
        for number, words, known in self._passages:
            share = len(terms & words) / len(terms)
            if share > best_share and numbers <= known:
                best, best_share = number, share
        if best is not None and best_share >= MIN_SHARE:
            self._out += [" ", Mark(best, attributed=True)]

    def _terms(self, text: str) -> frozenset[str]:
        """Stem the content words; scripts without spaces give pairs of characters."""
        found: set[str] = set()
        for word in _WORD.findall(text.casefold()):
            if "\u3040" <= word[0] <= "\u9fff" or "\uac00" <= word[0] <= "\ud7af":
                found.update(word[i : i + 2] for i in range(max(1, len(word) - 1)))
            elif word not in _EMPTY_WORDS:
                found.add(self._stemmer.stemWord(word))
        return frozenset(found)


def _numbers(text: str) -> frozenset[str]:
    return frozenset(n.replace(",", "") for n in _NUMBER.findall(text))

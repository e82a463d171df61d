"""Text to the terms of the lexical leg; the same for passages and questions."""

from __future__ import annotations

import re
import threading
from itertools import pairwise

import Stemmer
from tokenizers import Regex, normalizers, pre_tokenizers

MAX_TERM = 64
"""Characters kept of one word: longer ones are keys or noise, and still match by their head."""

TERMS_RULE = "v2"
"""Changes with every change of what `terms` gives: an index made by another rule is not used."""

_MARKED = r"(?<=[\p{Latin}\p{Greek}\p{Arabic}\p{Hebrew}])\p{Mn}+"
_UNSEEN = r"[\p{Cf}\x{FE00}-\x{FE0F}\x{E0100}-\x{E01EF}]"  # formats, variants of a glyph
_UNSPACED = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\x{3006}\x{3099}\x{309A}\x{30FC}]+"
)
# Of those scripts the ones in which a single letter is no word: all but Han and Hangul.
_LETTERS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u3040-\u30ff\u31f0-\u31ff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f\U0001aff0-\U0001b16f]+"
)
_ASCII_WORDS = re.compile("[0-9a-z]+")
_ENGLISH_ENDING = r"(?<=\p{L})['\u2019](?:s|t)(?![\p{L}\p{N}])"
_ENGLISH = (
    "a an and are as at be been but by can could did do does for from had has have he her his how "
    "i if in into is it its me my no not of on or our she should so such than that the their "
    "them then there these they this to us was we were what when where which who whom why will "
    "with would you your"
)


class Lexicon:
    """Splits text into terms: normalised, stemmed, without the function words of English.

    Accents go only where they are ornament (Latin, Greek, Arabic, Hebrew): in Thai, Hindi or
    kana they are letters. Runs of scripts written without spaces, and of Hangul, whose words
    carry their particles, become overlapping pairs of characters, so that a word of two
    characters is found inside a clause. Each Han or Hangul character of a run is a term too: a
    word of one character is found, and in four Chinese collections rankings were better
    (docs/log.md). Passages and questions are split by the same rule.

    language: of stemming, one for a whole installation. It is never guessed from texts: what one
    document holds changes no term of another.

    Safe for use by several threads.
    Raises: ValueError if Snowball has no such language.
    """

    def __init__(self, language: str = "english") -> None:
        if language not in Stemmer.algorithms():
            known = ", ".join(Stemmer.algorithms())
            raise ValueError(f"stemming language is {language!r}; needed one of {known}")
        self._language = language
        self._stemmers = threading.local()
        english = language == "english"
        self._stops = frozenset(_ENGLISH.split() if english else ())
        self._normal = normalizers.Sequence(
            [
                normalizers.NFKC(),
                normalizers.Lowercase(),
                normalizers.NFD(),
                normalizers.Replace(Regex(_MARKED), ""),
                normalizers.Replace(Regex(_UNSEEN), ""),
                normalizers.NFC(),
                *([normalizers.Replace(Regex(_ENGLISH_ENDING), "")] if english else []),
            ]
        )
        self._words = pre_tokenizers.Split(Regex(r"[^\p{L}\p{M}\p{N}]+"), "removed")
        self._runs = pre_tokenizers.Sequence(
            [self._words, pre_tokenizers.Split(Regex(_UNSPACED), "isolated")]
        )
        self._unspaced = pre_tokenizers.Split(Regex(_UNSPACED), "removed")

    def terms(self, text: str) -> list[str]:
        """Give the terms of a text, repeats included: words, pairs, single characters, each in
        reading order, so that a question that is cut keeps what says most.

        Returns: terms of 1 to 64 characters; none for text without letters or digits.
        """
        # A lone surrogate can't cross into the tokenizers library.
        sound = text.encode("utf-8", "replace").decode("utf-8")
        words: list[str] = []
        pairs: list[str] = []
        singles: list[str] = []
        for run in self._split(self._normal.normalize_str(sound)):
            # Asked of a run at a time, the library is slow: most runs need not be asked about.
            if run.isascii() or self._unspaced.pre_tokenize_str(run):
                if run not in self._stops:
                    words.append(run[:MAX_TERM])
            elif len(run) == 1:
                pairs.append(run)
            else:
                pairs.extend(first + second for first, second in pairwise(run))
                singles.extend(_LETTERS.sub("", run))
        stemmed: list[str] = self._stemmer().stemWords(words)
        return stemmed + pairs + singles

    def _split(self, normal: str) -> list[str]:
        if normal.isascii():
            # The same words (a test compares), in a tenth of the time.
            return _ASCII_WORDS.findall(normal)
        return [run for run, _ in self._runs.pre_tokenize_str(normal)]

    def _stemmer(self) -> Stemmer.Stemmer:
        # A Stemmer keeps a cache that two threads may not write at once.
        try:
            return self._stemmers.own
        except AttributeError:
            self._stemmers.own = Stemmer.Stemmer(self._language)
            return self._stemmers.own

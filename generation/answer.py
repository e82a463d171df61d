"""The generate stage: an engine's stream becomes words that may be delivered, with citations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

from generation.attribute import Attributor
from generation.cite import Marks, Segment
from generation.ending import Ending
from generation.errors import EngineDown, GenerationError
from generation.links import Links
from generation.marker import Marker
from generation.template import first_block, messages
from generation.types import Citation, Ended, Engine, Finish, Prompt, Sampling, Usage, Words


async def answer(
    engine: Engine,
    prompt: Prompt,
    sampling: Sampling,
    timeout_s: float,
    link_hosts: Collection[str],
    max_sentences: int = 0,
) -> AsyncGenerator[Words | Ended, None]:
    """Stream an answer: marks checked or set, links neutralised, the secret block gone.

    The last item is Ended, unless an error ends the stream. Closing the generator stops the
    engine; so does a sentence that comes a second time, or one more than max_sentences (0 for
    no limit), which ends the answer. Raises:
    EngineDown, also when the engine stops without saying why; EngineBusy; PromptTooLong;
    TimeoutError.
    """
    marker = Marker(first_block(prompt.salt))
    marks: Marks | Attributor = (
        Marks([e.number for e in prompt.evidence]) if engine.cites else Attributor(prompt.evidence)
    )
    page = _Page(link_hosts)
    ending = Ending(max_sentences)
    said: list[str] = []
    finish: Finish | None = None
    usage: Usage | None = None
    async with aclosing(engine.stream(prompt, sampling, timeout_s)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Usage):
                usage = piece
                continue
            finish = piece.finish or finish
            if ending.reached(piece.text):
                finish = Finish.STOP
                break
            said.append(piece.text)
            text = page.write(marks.feed(marker.feed(piece.text)))
            if text:
                yield Words(text)
    if finish is None:
        raise EngineDown("the engine's stream ended before the answer did")
    rest = page.write(marks.feed(marker.flush()) + marks.flush()) + page.end()
    if rest:
        yield Words(rest)
    if usage is None:
        usage = await _counted(engine, prompt, "".join(said))
    yield Ended(finish, usage, tuple(page.citations))


async def _counted(engine: Engine, prompt: Prompt, said: str) -> Usage | None:
    """Count what an engine that was stopped, or tells nothing, did not count itself.

    The chat template's own tokens are left out, and how many were cached is not known.
    """
    laid = "".join(each["content"] for each in messages(prompt, block=False, cites=engine.cites))
    try:
        return Usage(await engine.count_tokens(laid), await engine.count_tokens(said), None)
    except (GenerationError, TimeoutError):
        return None


class _Page:
    """What has been delivered: the last filter, and where each citation stands."""

    def __init__(self, link_hosts: Collection[str]) -> None:
        self._links = Links(link_hosts)
        self._n_chars = 0
        self.citations: list[Citation] = []

    def write(self, segments: list[Segment]) -> str:
        out: list[str] = []
        for segment in segments:
            if isinstance(segment, str):
                out.append(self._count(self._links.feed(segment)))
                continue
            before, mark = self._links.mark(segment.number)
            out.append(self._count(before))
            self.citations.append(Citation(segment.number, self._n_chars, segment.attributed))
            out.append(self._count(mark))
        return "".join(out)

    def end(self) -> str:
        return self._count(self._links.flush())

    def _count(self, text: str) -> str:
        self._n_chars += len(text)
        return text

"""Takes the life out of links: evidence is written by others, and a rendered URL carries off."""

from __future__ import annotations

import re
from collections.abc import Collection

_HOST = r"([A-Za-z0-9.-]+)(?::\d{1,5})?"
# What may follow a host for the host to be all of it; \Z counts only before a space or the end.
_TAIL = r"(?=[/?#)]|[.,;:!*_~\"']*\Z)"
_WEB = r"https?://" + _HOST + _TAIL
_BARE = r"(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}"
_PATTERN = re.compile(
    rf"(?P<inline>\]\({_WEB})"
    rf"|(?P<web>(?<![A-Za-z0-9+.-]){_WEB})"
    r"|(?P<bracket>\](?=[(:]))"
    r"|(?P<slashes>:?//[^/?#\\()\[\]]*)"
    r"|(?P<scheme>(?<![A-Za-z0-9])(?:javascript|vbscript|mailto|xmpp|tel|file|data(?=:\w+/)):(?=[!-~]))"
    r"|(?P<entity>&(?=#|colon;|sol;|period;))"
    rf"|(?P<bare>(?<![A-Za-z0-9.-])(?:www(?:\.[A-Za-z0-9-]+)+|{_BARE}(?=(?::\d+)?[/?#]\w)))",
    re.IGNORECASE,
)
_DOT = re.compile(r"\.(?=[A-Za-z0-9-])")
_TAG_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/!?")


class Links:
    """Makes every link, image, tag and URL of a stream unclickable, readable text.

    `](` and `]:` are parted by a space, so no inline link, image or definition remains; `<`
    is parted from a name, so no tag or autolink does; of addresses the colon and the dots
    are bracketed: https[:]//evil[.]example/x. That holds in code too, since a renderer may
    disagree on where code ends. Bare host names without scheme, www. or path stay.

    http(s) URLs whose host is exactly on the list survive, bare or inline; a subdomain or
    a user name in the address is another host. What is given does not depend on how the
    text is cut into pieces.
    """

    def __init__(self, hosts: Collection[str]) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._run: list[str] = []
        self._after_tag_open = False
        self._after_mark = False

    def feed(self, text: str) -> str:
        """Give what may be delivered so far; the word that is being written is held."""
        out: list[str] = []
        for char in text:
            if "!" <= char <= "~" and char not in "<>":
                if self._after_tag_open and char in _TAG_START:
                    out.append(" ")
                if self._after_mark and char in "([:":
                    out.append(" ")
                self._run.append(char)
                self._after_tag_open = self._after_mark = False
                continue
            out.append(self._end_run(whole=char.isspace() or char in "<>"))
            out.append(char)
            self._after_tag_open, self._after_mark = char == "<", False
        return "".join(out)

    def mark(self, number: int) -> tuple[str, str]:
        """Let a citation pass: gives the text held before it, and the citation."""
        before = self._end_run(whole=True)
        self._after_tag_open, self._after_mark = False, True
        return before, f"[{number}]"

    def flush(self) -> str:
        """Give what was held, now that nothing follows."""
        return self._end_run(whole=True)

    def _end_run(self, whole: bool) -> str:
        # A letter of another script may continue a host name, so a host is whole only
        # before a space: the stand-in keeps \Z from matching.
        run = "".join(self._run) + ("" if whole else "\x00")
        self._run = []
        return _PATTERN.sub(self._defang, run).removesuffix("\x00")

    def _defang(self, match: re.Match[str]) -> str:
        text = match[0]
        kind = match.lastgroup
        if kind in {"inline", "web"}:
            host = next(h for h in (match[2], match[4]) if h is not None)
            if host.rstrip(".").lower() in self._hosts:
                return text
            gap = "] (" if kind == "inline" else ""
            scheme, _, rest = text.removeprefix("](").partition("://")
            return f"{gap}{scheme}[:]//{_DOT.sub('[.]', rest)}"
        if kind == "bracket":
            return "] "
        if kind == "scheme":
            return f"{text[:-1]} :"
        if kind == "entity":
            return "& "
        if kind == "bare":
            return text if text.lower() in self._hosts else _DOT.sub("[.]", text)
        return _DOT.sub("[.]", text.replace("://", "[:]//", 1))

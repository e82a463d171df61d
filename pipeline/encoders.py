"""The encoders of the index versions, each loaded once and when it is first needed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Lock

from acl.session import Database
from acl.versions import Version, all_versions
from retrieval.encode import Encoder
from retrieval.errors import IndexMismatch

_log = logging.getLogger(__name__)


class Encoders:
    """Loads the encoder of a version and holds it to the version's name.

    Args: load: makes an encoder from what settings call it. first: one that is loaded already.
    """

    def __init__(
        self, database: Database, load: Callable[[str], Encoder], first: Encoder | None = None
    ) -> None:
        self._database = database
        self._load = load
        self._held: dict[str, Encoder] = {} if first is None else {first.name: first}
        self._lock = Lock()

    def of(self, version: Version) -> Encoder:
        """Give a version's encoder. Raises: IndexMismatch if another answers to its name now."""
        with self._lock:
            held = self._held.get(version.name)
            if held is None:
                _log.info("loading the encoder of %s", version)
                held = self._load(version.encoder)
                _refuse_other(version, held)
                self._held[held.name] = held
            return held

    def for_all(self) -> Sequence[Encoder]:
        """Give the encoders of every version there is: new passages need a vector of each."""
        return [self.of(each) for each in all_versions(self._database)]

    def opening(self, setting: str) -> Encoder:
        """Give the encoder to start with: that of the live version.

        Without any version it is the one that the settings name. A setting that names an
        encoder of another version, as after a switch, is told and the live one is taken.
        Raises: IndexMismatch naming both sides, if the setting names one of no version.
        """
        known = all_versions(self._database)
        live = next((each for each in known if each.live), None)
        if self._held:
            held = next(iter(self._held.values()))
            if live is not None and len(self._held) == 1:
                _refuse_other(live, held)
            return held
        if live is None:
            chosen = self._load(setting)
            self._held[chosen.name] = chosen
            return chosen
        if setting != live.encoder:
            if setting not in {each.encoder for each in known}:
                raise IndexMismatch(
                    f"OSTIARY_RETRIEVAL__ENCODER names {setting}; the index is {live}, loaded as "
                    f"{live.encoder}. Set it back, or run: ostiary index build {setting}"
                )
            _log.warning("the settings name encoder %s; the live index is %s", setting, live)
        return self.of(live)


def _refuse_other(version: Version, encoder: Encoder) -> None:
    if (encoder.name, encoder.width) != (version.name, version.width):
        raise IndexMismatch(
            f"the index is {version}; the encoder that {version.encoder} loads is {encoder.name}, "
            f"{encoder.width} wide. Put the old model back, or build a version of the new one: "
            "ostiary index build"
        )

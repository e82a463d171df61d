"""Settings as the environment gives them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

from generation.settings import GenerationSettings
from pipeline.errors import SettingsRefused
from pipeline.settings import load_settings
from retrieval.settings import RetrievalSettings

LISTS = [
    (group, each.name)
    for group, kind in (("generation", GenerationSettings), ("retrieval", RetrievalSettings))
    for each in fields(kind)
    if get_type_hints(kind)[each.name] == tuple[str, ...]
]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSTIARY_HOME", str(tmp_path))


def test_there_are_lists() -> None:
    assert ("generation", "link_hosts") in LISTS
    assert ("retrieval", "rerank_collections") in LISTS


@pytest.mark.parametrize(("group", "name"), LISTS)
@pytest.mark.parametrize(
    ("text", "held"), [('["one", "two"]', ("one", "two")), ("[]", ()), ("", ())]
)
def test_every_list_is_read_as_json(
    group: str, name: str, text: str, held: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"OSTIARY_{group}__{name}".upper(), text)

    assert getattr(getattr(load_settings(), group), name) == held


@pytest.mark.parametrize("text", ["one", '"one"', "[1]", "{"])
def test_another_value_for_a_list_is_refused_with_what_is_needed(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTIARY_GENERATION__LINK_HOSTS", text)

    with pytest.raises(SettingsRefused, match="link_hosts needs a JSON list"):
        load_settings()

"""The documents name what there is: every setting, command and route."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from typer.main import get_command

from api.cli import app
from api.routes import chat, documents, grants, groups, health, memory, search
from generation.settings import GenerationSettings
from pipeline.settings import Settings
from retrieval.settings import RetrievalSettings

ROOT = Path(__file__).resolve().parents[2]


def _settings() -> list[str]:
    nested = {"retrieval": RetrievalSettings, "generation": GenerationSettings}
    names = [name for name in Settings.model_fields if name not in nested]
    for group, kind in nested.items():
        names += [f"{group}__{field.name}" for field in dataclasses.fields(kind)]
    return names


@pytest.mark.parametrize("name", _settings())
def test_every_setting_is_in_the_settings_page(name: str) -> None:
    page = (ROOT / "docs/settings.md").read_text()
    short = f"`…__{name.split('__')[-1].upper()}`"

    assert f"`OSTIARY_{name.upper()}`" in page or short in page


def test_the_settings_page_names_no_setting_that_is_not_there() -> None:
    page = (ROOT / "docs/settings.md").read_text()
    named = set(re.findall(r"`OSTIARY_([A-Z_]+)`", page))
    outside = {"MODELS", "TENANT", "KEY", "URL"}

    assert named - outside <= {name.upper() for name in _settings()}


def test_every_command_is_in_the_changelog_or_the_readme() -> None:
    pages = (ROOT / "README.md").read_text() + (ROOT / "CHANGELOG.md").read_text()
    missing = [name for name in getattr(get_command(app), "commands", {}) if name not in pages]

    assert missing == []


def test_every_route_is_in_the_rest_page() -> None:
    page = (ROOT / "docs/api.md").read_text()
    routers = (search, chat, documents, grants, groups, health, memory)
    paths = {
        route.path
        for each in routers
        for route in each.router.routes
        if isinstance(route, APIRoute)
    }
    stems = {re.sub(r"\{[^}]*\}", "{", path).split("{")[0].rstrip("/") for path in paths}

    assert len(paths) > 10
    assert [stem for stem in sorted(stems) if stem not in page] == []

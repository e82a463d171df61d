"""A small world that tests of scopes share."""

from __future__ import annotations

import pytest

from acl.session import Database
from tests.acl.world import Built, World, build


@pytest.fixture
def built(database: Database) -> Built:
    """A folder with two documents of one class, that ana may read and ben may not."""
    world = World().user("ana", "ben").folder("a").document("d0", "a").document("d1", "a")
    return build(world.allow("ana", "a"), database)

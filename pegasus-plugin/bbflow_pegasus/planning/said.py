"""The plan of waves as a file in the submit directory, for people and for reports."""

import json
from pathlib import Path
from typing import Any

from bbflow.host.atomic import write_whole
from bbflow.units import format_bytes
from bbflow_pegasus.planning.facts import Limits
from bbflow_pegasus.planning.layout import TransferLayout

WAVES = "bbflow-waves.json"
"""In the submit directory."""


def write_waves(path: Path, layout: TransferLayout, limits: Limits) -> None:
    """Write the plan down."""
    write_whole(path, json.dumps(_content(layout, limits), indent=1) + "\n")


def summary(layout: TransferLayout, limits: Limits) -> list[str]:
    """Summarise in a few lines what was planned."""
    staged_bytes = sum(layout.sizes.get(file, 0) for bundle in layout.stage_ins for file in bundle.members)
    coming = sum(1 for wave in layout.waves if any(wave.staged))
    return [
        f"{len(layout.waves)} waves of at most {limits.slots} jobs, {coming} of which stage in "
        f"{format_bytes(staged_bytes)} to site {limits.site!r}, which has {format_bytes(limits.capacity_bytes)}",
        *layout.remarks,
    ]


def nothing_staged(limits: Limits, remote: int) -> str:
    """Return why there are no waves.

    Parameters
    ----------
    limits
        For which they would have been.
    remote
        Files, or jobs, that are staged in at the site itself.
    """
    if remote:
        return (
            f"there are no waves: jobs at site {limits.site!r} itself would stage in, since its profile pegasus: "
            "auxillary.local (Pegasus spells it so) isn't 'true'; 'bbflow-pegasus config' sets it"
        )
    return (
        f"there are no waves: Pegasus stages nothing in to site {limits.site!r}, "
        "and what jobs make isn't kept within its room"
    )


def _content(layout: TransferLayout, limits: Limits) -> dict[str, Any]:
    stage_ins: dict[int, list[str]] = {}
    files: dict[int, list[str]] = {}
    for bundle in layout.stage_ins:
        stage_ins.setdefault(bundle.wave, []).append(bundle.name)
        files.setdefault(bundle.wave, []).extend(bundle.members)
    waves = [
        {
            "level": wave.level,
            "jobs": wave.tasks,
            "stage_ins": stage_ins.get(number, []),
            "files": files.get(number, []),
            "bytes": sum(layout.sizes.get(file, 0) for file in files.get(number, [])),
            "over": wave.over,
            "gone": wave.gone,
        }
        for number, wave in enumerate(layout.waves)
    ]
    return {
        "site": limits.site,
        "capacity_bytes": limits.capacity_bytes,
        "slots": limits.slots,
        "lookahead": limits.lookahead,
        "remarks": layout.remarks,
        "waves": waves,
        "files": layout.sizes,
    }

"""How fast blocks go to a BB node of another host: by TCP and each of libfabric's providers, in five minutes.

It needs a checkout in which bbflow is built, and two hosts:

  bbflow node --name bb0 --listen $(hostname) --capacity 2GiB --contact contact.json    # on one, and on the other:
  python -m benchmarks.fabrics contact.json
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import bbflow_adios2

from bbflow.errors import NodeError
from bbflow.landing.fabric import providers
from bbflow.net.contact import NodeAddress, read_contact
from benchmarks.consumer import free_steps
from benchmarks.fabrics_writer import SIZES, STEPS

PATIENCE_S = 120.0
WRITER = Path(__file__).with_name("fabrics_writer.py")


def _measure(node: NodeAddress, contact: Path, stream: str, parameters: dict[str, str]) -> str:
    """Write through the engine; return the columns, or why there are none."""
    with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as folder:
        config = Path(folder, "adios2.xml")
        config.write_text(bbflow_adios2.engine_xml("field", Stream=stream, OpenTimeoutSecs="10", **parameters))
        environment = os.environ | bbflow_adios2.environment(contact)
        words = [sys.executable, str(WRITER), str(config)]
        threading.Thread(target=free_steps, args=(node, stream, STEPS * len(SIZES)), daemon=True).start()
        try:
            done = subprocess.run(
                words, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"nothing within {PATIENCE_S:.0f} s"
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "bbflow: " in line] or done.stderr.splitlines()[-1:]
        return said[-1].partition("bbflow: ")[2] if said else f"exit code {done.returncode}"
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return " | ".join(f"{value:.3g}" for value in told.values())


def main() -> None:
    """Measure, and print a line for each way."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fabrics", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("contact", type=Path, help="contact file of one node, on another host")
    contact = parser.parse_args().contact
    (node,) = read_contact(contact)
    ways = {"TCP": {"Transport": "tcp"}}
    try:
        found = providers(slow=True)
        ways |= {name: {"Transport": "fabric", "FabricProvider": name} for name in found}
        ways |= {f"{name}, unchecked": ways[name] | {"FabricChecks": "no"} for name in found}
    except NodeError as error:
        print(f"TCP alone: {error}")
    columns = [*(f"{size >> 10} KiB" for size in SIZES), "writer's CPU s/GB"]
    print(f"| Gbit/s in blocks of | {' | '.join(columns)} |", "| --- |" + " ---: |" * len(columns), sep="\n")
    for number, (name, parameters) in enumerate(ways.items()):
        stream = f"fabrics-{os.getpid()}-{number}"
        print(f"| {name} | {_measure(node, contact, stream, parameters)} |", flush=True)


if __name__ == "__main__":
    main()

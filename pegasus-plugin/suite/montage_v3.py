"""The public montage-workflow-v3, unmodified, through pegasus-plan and HTCondor: plain, and over a burst buffer.

  python pegasus-plugin/suite/montage_v3.py CHECKOUT [DIRECTORY]

It needs pegasus-plan, HTCondor and Montage on PATH, and CHECKOUT of the workflow. A survey of our own stands in for the
archive, on an HTTP server of this host. Mosaics must be the same to the bit.
"""

import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bbflow_pegasus.dag.submitdir import open_submit_dir
from bbflow_workflows.montage.sky import Survey, make_tiles

HERE = Path(__file__).parent
SURVEY = Survey(rows=3, columns=3, pixels=128)
SITES = """pegasus: '5.0'
sites:
- name: local
  arch: x86_64
  os.type: linux
  directories:
  - type: sharedScratch
    path: {root}/scratch
    sharedFileSystem: false
    fileServers:
    - {{url: 'file://{root}/scratch', operation: all}}
  - type: localStorage
    path: {root}/output
    sharedFileSystem: false
    fileServers:
    - {{url: 'file://{root}/output', operation: all}}
- name: condorpool
  arch: x86_64
  os.type: linux
  directories: []
  profiles:
    condor: {{universe: vanilla}}
    pegasus: {{style: condor}}
"""
PROPERTIES = """pegasus.catalog.site.file=sites.yml
pegasus.catalog.transformation.file=transformations.yml
pegasus.transfer.worker.package.strict=false
"""
PATIENCE_S = 3600.0


class Tiles(ThreadingHTTPServer):
    """Doesn't mind clients that have read enough."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Do nothing."""


class Quiet(SimpleHTTPRequestHandler):
    """Serves tiles and says nothing."""

    def log_message(self, *words: object) -> None:
        """Do nothing."""


def serve(tiles: Path) -> str:
    """Serve the tiles until this program ends."""
    server = Tiles(("127.0.0.1", 0), partial(Quiet, directory=str(tiles)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def montage_tools(directory: Path) -> None:
    """Give Montage's programs a directory of their own: the workflow lists all programs beside mProject."""
    directory.mkdir()
    found = shutil.which("mProject")
    if found is None:
        raise SystemExit("mProject isn't on PATH: apt install montage montage-gridtools")
    for program in Path(found).parent.glob("m[A-Z]*"):
        (directory / program.name).symlink_to(program)
    (directory / "mArchiveList").unlink(missing_ok=True)
    shutil.copy2(HERE / "mArchiveList", directory / "mArchiveList")


def generate(checkout: Path, root: Path, url: str) -> None:
    """Write it by the workflow's own program."""
    python = subprocess.run(["pegasus-config", "--python"], capture_output=True, text=True, check=True).stdout.strip()
    here = {"PYTHONPATH": python, "BBFLOW_TILES": str(root / "tiles"), "BBFLOW_TILES_URL": url}
    environment = os.environ | here | {"PATH": f"{root / 'montage'}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = ["--center", f"{SURVEY.ra_deg} {SURVEY.dec_deg}", "--degrees", "0.08", "--band", "2mass:j:red"]
    words = [sys.executable, str(checkout / "montage-workflow.py"), "--work-dir", str(root), *words]
    subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL)


def plan_and_run(root: Path, name: str, planner: list[str]) -> Path:
    """Plan the workflow, run it to its end, and return its submit directory."""
    words = [*planner, "--conf", "pegasus.properties", "--sites", "condorpool", "--output-sites", "local"]
    words += ["--cluster", "horizontal", "--dir", f"submit-{name}", "data/montage-workflow.yml"]
    planned = subprocess.run(words, cwd=root, capture_output=True, text=True)
    if planned.returncode:
        raise SystemExit(f"{name}: planning failed\n{planned.stdout}{planned.stderr}")
    submit = next((root / f"submit-{name}").rglob("braindump.yml")).parent
    start_s = time.monotonic()
    subprocess.run(["pegasus-run", str(submit)], cwd=root, check=True, stdout=subprocess.DEVNULL)
    while not (submit / "monitord.done").exists():
        if time.monotonic() - start_s > PATIENCE_S:
            raise SystemExit(f"{name}: not done after {PATIENCE_S:.0f} s, see {submit}")
        time.sleep(1)
    last = (submit / "jobstate.log").read_text().splitlines()[-2]
    if "DAGMAN_FINISHED 0" not in last:
        raise SystemExit(f"{name}: {last}; see pegasus-analyzer {submit}")
    print(f"{name}: {time.monotonic() - start_s:.0f} s")
    (root / "output").rename(root / f"output-{name}")
    return submit


def main(checkout: Path, root: Path) -> None:
    """Run the workflow both ways and compare."""
    root.mkdir(parents=True, exist_ok=True)
    make_tiles(root / "tiles", SURVEY)
    montage_tools(root / "montage")
    generate(checkout, root, serve(root / "tiles"))
    (root / "sites.yml").write_text(SITES.format(root=root))
    (root / "transformations.yml").write_text("pegasus: '5.0'\ntransformations: []\n")
    (root / "pegasus.properties").write_text(PROPERTIES)
    plan_and_run(root, "plain", ["pegasus-plan"])
    ours = str(Path(sys.executable).with_name("bbflow-pegasus"))
    config = [ours, "config", "--to", str(root / "bb"), "--capacity", "4GiB", "--slots", "3", "--yes"]
    subprocess.run(config, cwd=root, check=True, stdout=subprocess.DEVNULL)
    submit = plan_and_run(root, "burst-buffer", [ours, "plan"])
    waves = json.loads((submit / "bbflow-waves.json").read_text())
    print(f"{len(waves['waves'])} waves in {open_submit_dir(submit).dag.name}; {'; '.join(waves['remarks'])}")
    left = [path for path in (root / "bb").rglob("*") if path.is_file()]
    if left:
        raise SystemExit(f"{len(left)} files are left on the burst buffer: {left[0]}")
    names = sorted(path.name for path in (root / "output-plain").iterdir())
    _, different, missing = filecmp.cmpfiles(root / "output-plain", root / "output-burst-buffer", names, shallow=False)
    if different or missing or not names:
        raise SystemExit(f"results differ: {different + missing}; see {root}")
    print(f"the same to the bit: {', '.join(names)}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    where = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(tempfile.mkdtemp(prefix="bbflow-montage-v3-"))
    main(Path(sys.argv[1]).absolute(), where.absolute())

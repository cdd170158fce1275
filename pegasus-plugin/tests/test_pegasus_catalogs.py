"""The catalogs that come with bbflow say what `config` would write, and Pegasus knows their words."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from bbflow_pegasus import BurstBufferSite
from bbflow_pegasus.catalogs import SITES, Catalog, plain, read_property
from bbflow_pegasus.cli import BBFLOW_PEGASUS
from bbflow_pegasus.cli.config import _buffer
from bbflow_pegasus.configuring import Files, configure
from Pegasus.api import (
    Directory,
    FileServer,
    Grid,
    Job,
    Operation,
    ReplicaCatalog,
    Scheduler,
    Site,
    SupportedJobs,
    Transformation,
    TransformationCatalog,
    Workflow,
)

FOLDER = Path(__file__).parents[2] / "catalogs" / "pegasus"
SITES_OF = sorted(path for path in FOLDER.glob("*.yml") if path.name != "transformations.yml")


def said(path):
    """Return the burst buffer that a catalog's own comment configures."""
    words = re.search(r"#   bbflow-pegasus (config .*)", path.read_text())[1].split()
    options = BBFLOW_PEGASUS._parser(words).parse_args(words)
    return _buffer(options)


@pytest.mark.parametrize("path", SITES_OF, ids=lambda path: path.stem)
def test_a_catalog_is_what_its_own_command_makes_of_it(path, tmp_path):
    shutil.copy(path, tmp_path / "sites.yml")
    files = Files.beside(tmp_path / "pegasus.properties")
    changed = {change.path.name for change in configure(said(path), files)}
    assert "sites.yml" not in changed
    site = Catalog(path, SITES, path.read_text()).get(("bb",))
    assert plain(site) == said(path).site_entry()


@pytest.mark.parametrize("path", SITES_OF, ids=lambda path: path.stem)
def test_pegasus_api_knows_all_that_a_catalog_says(path):
    for entry in yaml.safe_load(path.read_text())["sites"]:
        site = Site(entry["name"])
        for content in entry.get("directories", []):
            kind = {"sharedScratch": Directory.SHARED_SCRATCH, "localStorage": Directory.LOCAL_STORAGE}[content["type"]]
            servers = [FileServer(each["url"], Operation(each["operation"])) for each in content["fileServers"]]
            site.add_directories(Directory(kind, content["path"]).add_file_servers(*servers))
        for grid in entry.get("grids", []):
            job = SupportedJobs(grid["jobtype"])
            site.add_grids(Grid(Grid.BATCH, grid["contact"], Scheduler(grid["scheduler"]), job))
        assert set(entry) <= {"name", "directories", "grids", "profiles"}
        assert set(entry.get("profiles", {})) <= {"pegasus", "condor", "env"}


def test_the_transformation_and_the_properties_are_those_of_config(tmp_path):
    buffer = BurstBufferSite(
        "/bb/me", "2TiB", slots=256, policy="full-delay", phases="/pfs/phases", threads=4, serve_jobs=True
    )
    written = yaml.safe_load((FOLDER / "transformations.yml").read_text())["transformations"]
    ours = buffer.transformation_entries()
    for entry in (*written, *ours):
        for site in entry["sites"]:
            site["pfn"] = Path(site["pfn"]).name
    assert written == ours
    text = (FOLDER / "pegasus.properties").read_text()
    for key, value in buffer.properties().items():
        assert Path(read_property(text, key)).name == Path(value).name


@pytest.mark.skipif(shutil.which("pegasus-plan") is None, reason="pegasus-plan isn't on PATH")
@pytest.mark.parametrize("path", [p for p in SITES_OF if p.stem in ("one-host", "shared-mount", "each-node")])
def test_the_planner_takes_a_catalog_as_it_is(path, tmp_path):
    shutil.copy(path, tmp_path / "sites.yml")
    for change in configure(said(path), Files.beside(tmp_path / "pegasus.properties")):
        change.make()
    (tmp_path / "in").write_text("x")
    replicas, workflow, programs = ReplicaCatalog(), Workflow("one"), TransformationCatalog()
    replicas.add_replica("local", "in", f"file://{tmp_path}/in").write(str(tmp_path / "replicas.yml"))
    programs = yaml.safe_load((tmp_path / "transformations.yml").read_text())
    programs["transformations"].append(
        {"name": "cat", "sites": [{"name": "condorpool", "pfn": "/bin/cat", "type": "installed"}]}
    )
    (tmp_path / "transformations.yml").write_text(yaml.safe_dump(programs))
    workflow.add_jobs(Job(Transformation("cat")).add_inputs("in")).write(str(tmp_path / "workflow.yml"))
    words = ["pegasus-plan", "--conf", "pegasus.properties", "--sites", "condorpool", "--staging-site", "condorpool=bb"]
    done = subprocess.run([*words, "--dir", "submit", "workflow.yml"], cwd=tmp_path, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (stage_in,) = (tmp_path / "submit").rglob("stage_in_*.sub")
    assert "bbflow-pegasus-transfer" in stage_in.read_text()
    assert "BBFLOW_BB=" in stage_in.read_text()

"""What `bbflow-pegasus config` does to a user's files, and `apply` to Pegasus.api's objects."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from bbflow_pegasus import BurstBufferSite
from bbflow_pegasus.catalogs import put_property, read_property
from bbflow_pegasus.configuring import Files, configure, undo
from Pegasus.api import Operation, Properties, Site, SiteCatalog, Transformation, TransformationCatalog

from bbflow.errors import ConfigError

COMMAND = Path(sys.executable).parent / "bbflow-pegasus"
SITES = """\
# our sites
pegasus: "5.0"
sites:
  - name: local  # the submit host
    directories:
      - type: localStorage
        path: /home/u/out
        fileServers:
          - {url: "file:///home/u/out", operation: all}

  # the pool
  - name: condorpool
    profiles:
      condor: {universe: vanilla}
      env:
        LANG: C  # sorts
"""
TRANSFORMATIONS = """\
pegasus: "5.0"
transformations:
- name: mProject   # Montage 6
  sites:
  - {name: condorpool, pfn: /usr/bin/mProject, type: installed}
"""
PROPERTIES = """\
# how we plan
pegasus.mode = development
pegasus.data.configuration = condorio
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "sites.yml").write_text(SITES)
    (tmp_path / "transformations.yml").write_text(TRANSFORMATIONS)
    (tmp_path / "pegasus.properties").write_text(PROPERTIES)
    return Files.beside(tmp_path / "pegasus.properties")


def config(folder, *words):
    done = subprocess.run([COMMAND, "config", *words], cwd=folder, text=True, capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


BUFFER = BurstBufferSite(
    "/bb/pegasus",
    "64GiB",
    slots=16,
    policy="full-delay",
    phases="/pfs/phases",
    node_directory="/nvme",
    serve_jobs=True,
)


def make(changes):
    for change in changes:
        change.make()


def test_entries_are_put_in_and_all_else_stays_as_it_is_written(files):
    make(configure(BUFFER, files))
    text = files.sites.read_text()
    for line in SITES.splitlines():
        assert line in text
    sites = {site["name"]: site for site in yaml.safe_load(text)["sites"]}
    assert sites["bb"]["profiles"]["pegasus"] == {"auxillary.local": "true"}
    assert sites["condorpool"]["profiles"]["env"] == {"LANG": "C", "PEGASUS_WN_TMP": "/nvme"}
    text = files.transformations.read_text()
    assert text.startswith(TRANSFORMATIONS)
    transfer = yaml.safe_load(text)["transformations"][1]
    assert (transfer["namespace"], transfer["name"], transfer["sites"][0]["name"]) == ("pegasus", "transfer", "local")
    assert transfer["sites"][0]["pfn"].endswith("/bbflow-pegasus-transfer")
    text = files.properties.read_text()
    assert text.startswith("# how we plan\npegasus.mode = development\npegasus.data.configuration = nonsharedfs\n")
    assert read_property(text, "pegasus.bbflow.capacity") == str(64 << 30)


def test_what_is_configured_already_changes_nothing(files):
    make(configure(BUFFER, files))
    assert configure(BUFFER, files) == []


def test_undo_gives_back_the_very_same_files(files):
    make(configure(BUFFER, files))
    make(configure(BurstBufferSite("/other", "1GiB", slots=2), files))
    make(undo(files))
    assert files.sites.read_text() == SITES
    assert files.transformations.read_text() == TRANSFORMATIONS
    assert files.properties.read_text() == PROPERTIES
    assert not files.record.exists()


@pytest.mark.parametrize("made", range(1, 4))
def test_undo_gives_back_what_a_configuration_has_changed_that_was_broken_off(files, made):
    make(configure(BUFFER, files)[:made])
    make(undo(files))
    assert files.sites.read_text() == SITES
    assert files.transformations.read_text() == TRANSFORMATIONS
    assert files.properties.read_text() == PROPERTIES
    assert not files.record.exists()


def test_undo_removes_files_that_were_not_there(tmp_path):
    files = Files.beside(tmp_path / "pegasus.properties")
    make(configure(BurstBufferSite("/bb", "1GiB"), files))
    assert files.sites.exists()
    make(undo(files))
    assert list(tmp_path.iterdir()) == []


def test_undo_leaves_alone_what_was_changed_since(files):
    make(configure(BUFFER, files))
    files.sites.write_text(files.sites.read_text() + "  - name: cloud\n")
    files.properties.write_text(files.properties.read_text() + "pegasus.integrity.checking = none\n")
    make(undo(files))
    sites = yaml.safe_load(files.sites.read_text())["sites"]
    assert [site["name"] for site in sites] == ["local", "condorpool", "cloud"]
    assert sites[1]["profiles"] == {"condor": {"universe": "vanilla"}, "env": {"LANG": "C"}}
    assert "LANG: C  # sorts" in files.sites.read_text()
    assert files.properties.read_text() == PROPERTIES + "pegasus.integrity.checking = none\n"


def test_a_site_that_is_there_keeps_what_we_do_not_change(files):
    files.sites.write_text(
        SITES + "  - name: bb\n    arch: x86_64\n    directories:\n      - {type: sharedScratch, path: /old}\n"
        "      - {type: localStorage, path: /keep}\n    profiles:\n      pegasus: {style: condor}\n"
    )
    make(configure(BUFFER, files))
    site = next(site for site in yaml.safe_load(files.sites.read_text())["sites"] if site["name"] == "bb")
    assert [directory["path"] for directory in site["directories"]] == ["/bb/pegasus", "/keep"]
    assert (site["arch"], site["profiles"]["pegasus"]) == ("x86_64", {"style": "condor", "auxillary.local": "true"})


def test_settings_that_are_not_said_again_go(files):
    make(configure(BUFFER, files))
    make(configure(BurstBufferSite("/bb/pegasus", "64GiB"), files))
    transfer = yaml.safe_load(files.transformations.read_text())["transformations"][1]
    assert transfer["sites"][0]["profiles"]["env"] == {"BBFLOW_BB": "/bb/pegasus", "BBFLOW_POLICY": "no-action"}
    assert [site["name"] for site in transfer["sites"]] == ["local"]


def test_catalogs_lie_where_the_properties_say(tmp_path):
    (tmp_path / "p").write_text(
        "pegasus.catalog.site.file: cats/s.yml\npegasus.catalog.transformation.file=/abs/t.yml\n"
    )
    files = Files.beside(tmp_path / "p")
    assert (files.sites, files.transformations) == (tmp_path / "cats" / "s.yml", Path("/abs/t.yml"))


@pytest.mark.parametrize(
    ("text", "line"),
    [("sites: 3\n", "it has no list 'sites'"), ("sites: [\n", "is not valid YAML"), ("sites: [7]\n", "is no map")],
)
def test_what_is_no_catalog_is_one_line(files, text, line):
    files.sites.write_text(text)
    with pytest.raises(ConfigError, match=line):
        configure(BUFFER, files)


def test_a_compute_site_that_is_not_there_names_the_nearest(files):
    with pytest.raises(ConfigError, match="has no site 'condorpol': did you mean 'condorpool'"):
        configure(BurstBufferSite("/bb", "1GiB", compute=["condorpol"], node_directory="/nvme"), files)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"directory": "bb"}, "must be an absolute path"),
        ({"node_directory": "nvme"}, "must be an absolute path, or begin by a variable"),
        ({"directory": "s3://bucket/prefix"}, "s3://user@endpoint/bucket/prefix"),
        ({"capacity": "much"}, "is not a size"),
        ({"slots": 0}, "slots is 0: it must be 1 or more"),
        ({"policy": "full-delay"}, "it needs 'phases'"),
        ({"policy": "fuldelay", "phases": "/p"}, "did you mean 'full-delay'"),
        ({"compute": "condorpool"}, "are lists of names"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(keys, line):
    with pytest.raises(ConfigError, match=line):
        BurstBufferSite(**({"directory": "/bb", "capacity": "1GiB"} | keys))


def test_the_command_shows_what_it_changes_and_asks(files):
    folder = files.properties.parent
    words = ("--to", "/bb", "--capacity", "1GiB")
    code, out, err = config(folder, *words)
    assert code != 0
    assert "+  - name: bb" in out
    assert "say --yes" in err
    assert files.sites.read_text() == SITES
    assert config(folder, *words, "--dry-run")[0] == 0
    assert files.sites.read_text() == SITES
    code, out, err = config(folder, *words, "--yes")
    assert code == 0, err
    assert "--staging-site condorpool=bb" in out
    assert "everything is as it should be" in config(folder, *words)[1]
    assert config(folder, "--undo", "--yes")[0] == 0
    assert files.sites.read_text() == SITES
    assert "nothing was configured" in config(folder, "--undo", "--yes")[2]


@pytest.mark.parametrize("directory", ["/bb/pegasus", "s3://me@lab/bucket/prefix"])
def test_apply_makes_of_pegasus_api_what_config_writes(tmp_path, directory):
    buffer = BurstBufferSite(
        directory,
        "64GiB",
        policy="full-delay",
        phases="/pfs/phases",
        threads=4,
        node_directory="/nvme",
        serve_jobs=True,
    )
    (tmp_path / "sites.yml").write_text("pegasus: '5.0'\nsites:\n- name: condorpool\n")
    files = Files.beside(tmp_path / "pegasus.properties")
    make(configure(buffer, files))
    sites, transformations, properties = (
        SiteCatalog().add_sites(Site("condorpool")),
        TransformationCatalog(),
        Properties(),
    )
    buffer.apply(properties, sites, transformations)
    sites.write(str(tmp_path / "api-sites.yml"))
    transformations.write(str(tmp_path / "api-transformations.yml"))
    properties.write(str(tmp_path / "api.properties"))
    for name, key in (("sites", "sites"), ("transformations", "transformations")):
        ours = yaml.safe_load((tmp_path / f"{name}.yml").read_text())[key]
        theirs = yaml.safe_load((tmp_path / f"api-{name}.yml").read_text())[key]
        by_name = {entry["name"]: {k: v for k, v in entry.items() if v != []} for entry in theirs}
        assert {entry["name"]: entry for entry in ours} == by_name
    text = (tmp_path / "api.properties").read_text()
    assert {key: read_property(text, key) for key in buffer.properties()} == buffer.properties()


def test_apply_does_not_overwrite_what_a_program_has_made():
    buffer = BurstBufferSite("/bb", "1GiB")
    for sites, transformations, line in (
        (SiteCatalog().add_sites(Site("bb")), TransformationCatalog(), "site 'bb' is there already"),
        (
            SiteCatalog(),
            TransformationCatalog().add_transformations(
                Transformation("transfer", namespace="pegasus", site="local", pfn="/x")
            ),
            "pegasus::transfer is in the transformation catalog already",
        ),
    ):
        with pytest.raises(ConfigError, match=line):
            buffer.apply(Properties(), sites, transformations)


def test_a_property_is_set_in_its_own_line():
    text = "a=1\n# b=2\nb : 3\n"
    assert put_property(text, "b", "4") == "a=1\n# b=2\nb : 4\n"
    assert put_property(text, "c", "5") == text + "c = 5\n"
    assert put_property("a=1", "b", "2") == "a=1\nb = 2\n"
    assert put_property(text, "a", None) == "# b=2\nb : 3\n"


def test_the_record_is_plain_json(files):
    make(configure(BUFFER, files))
    assert set(json.loads(files.record.read_text())) == {"files", "entries"}
    assert Operation.ALL.value == BUFFER.site_entry()["directories"][0]["fileServers"][0]["operation"]


def test_a_check_names_what_is_missing_one_line_each(files):
    folder = files.properties.parent
    code, out, _ = config(folder, "--check")
    assert code == 1
    assert len(out.splitlines()) == 5
    assert "has no site 'bb'" in out
    assert "pegasus.data.configuration is condorio" in out
    make(configure(BurstBufferSite("/bb", "1GiB"), files))
    assert config(folder, "--check")[:2] == (0, "everything is as it should be\n")
    files.sites.write_text(files.sites.read_text().replace("auxillary.local: 'true'", "style: condor"))
    code, out, _ = config(folder, "--check")
    assert code == 1
    assert "site 'bb' has no profile pegasus: auxillary.local: 'true'" in out
    assert len(out.splitlines()) == 1

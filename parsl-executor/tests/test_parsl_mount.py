"""Files on BB nodes as the burst buffer that Parsl's workers share: their mount is its directory."""

import apps
import pytest
from bbflow_parsl import BurstBufferSettings
from parsl import python_app
from parsl.data_provider.files import File

from bbflow.errors import ConfigError
from testsupport.files_servers import Servers
from testsupport.mounts import Mounts, missing

join = python_app(apps.join)


@pytest.fixture
def mount(tmp_path_factory):
    if reason := missing():
        pytest.skip(reason)
    with Servers(tmp_path_factory.mktemp("servers")) as servers:
        servers.start(nodes=2, storage=False)
        with Mounts(tmp_path_factory.mktemp("mounts")) as mounts:
            yield mounts.start("work", contact=servers.contact)


def test_a_mount_is_the_burst_buffer_that_workers_share(site, mount):
    path = site.write("a.txt", "a")
    (mount / "bb").mkdir()
    with site.load(site.threads(directory=mount / "bb")):
        middle = join(inputs=[File(str(path))] * 2, outputs=[File(str(site.work / "aa.txt"))])
        last = join(inputs=[middle.outputs[0], File(str(path))], outputs=[File(str(site.results / "aaa.txt"))])
        last.outputs[0].result(400)
        assert all(name.startswith(str(mount)) for name in (*middle.result(), *last.result()))
    assert (site.results / "aaa.txt").read_text() == "aaa"
    assert not any((mount / "bb").iterdir())


def test_a_url_of_the_files_is_no_directory():
    with pytest.raises(ConfigError, match="bbflow mount"):
        BurstBufferSettings(directory="bb://scratch")

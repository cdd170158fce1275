import json
import signal
import socket
import time
from pathlib import Path

import bbflow_adios2

from bbflow.landing.embedded import EmbeddedNodes
from testsupport.processes import finish
from testsupport.writers import run_writer, wait_for_file, watch, write_config, writing

ONE_STEP = """
tell("opening")
with adios2.Stream(io, "out", "w") as stream:
    stream.begin_step()
    stream.write("x", np.ones(4), [4], [0], [4])
"""


def test_a_missing_contact_file_is_an_error_when_the_time_is_up(tmp_path):
    config = write_config(tmp_path, OpenTimeoutSecs="0.5")
    returncode, said = run_writer(tmp_path / "none.json", ONE_STEP, config)
    assert returncode != 0
    assert "none.json" in said
    assert "OpenTimeoutSecs=0.5" in said


def test_no_contact_at_all_is_an_error_at_once(tmp_path):
    returncode, said = run_writer(None, ONE_STEP, write_config(tmp_path, OpenTimeoutSecs="86400"))
    assert returncode != 0
    assert "BBFLOW_CONTACT" in said


def test_a_node_that_starts_late_is_waited_for(tmp_path):
    contact = tmp_path / "contact.json"
    with writing(contact, ONE_STEP, write_config(tmp_path)) as process:
        wait_for_file(tmp_path / "opening")
        with EmbeddedNodes(1, 1 << 20, contact=contact) as late:
            returncode, said = finish(process)
            assert returncode == 0, said
            assert watch(late)["status"] == "closed"


def test_the_contact_file_may_be_given_as_text():
    told = bbflow_adios2.environment("contact.json"), bbflow_adios2.environment(Path("contact.json"))
    assert told[0] == told[1]
    assert told[0]["BBFLOW_CONTACT"] == str(Path("contact.json").resolve())


def test_the_parameter_contact_comes_before_the_environment(node, tmp_path):
    config = write_config(tmp_path, Contact=str(node.contact))
    returncode, said = run_writer(tmp_path / "none.json", ONE_STEP, config)
    assert returncode == 0, said


def test_a_wrong_plugin_name_is_warned_of(node, tmp_path):
    config = write_config(tmp_path)
    config.write_text(config.read_text().replace('value="bbflow"', 'value="bflow"'))
    returncode, said = run_writer(node.contact, ONE_STEP, config)
    assert returncode == 0, said
    assert "PluginName is 'bflow'" in said
    assert watch(node)["status"] == "closed"


def test_a_writer_that_was_stopped_while_it_opened_tries_once_more(node, tmp_path):
    contact = tmp_path / "contact.json"
    content = json.loads(node.contact.read_text())
    with socket.create_server(("127.0.0.1", 0)) as mute:
        content["nodes"][0]["tcp"] = "{}:{}".format(*mute.getsockname())
        contact.write_text(json.dumps(content))
        config = write_config(tmp_path, OpenTimeoutSecs="1", Transport="tcp")
        with writing(contact, ONE_STEP, config) as process:
            peer, _ = mute.accept()
            process.send_signal(signal.SIGSTOP)
            contact.write_text(node.contact.read_text())
            time.sleep(1.2)  # its time is up before it goes on
            peer.close()
            process.send_signal(signal.SIGCONT)
            returncode, said = finish(process)
    assert returncode == 0, said
    assert watch(node)["status"] == "closed"

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
import synthetic_run as synthetic

from bbflow.cli import main
from bbflow.net.contact import contact_key


@pytest.fixture
def output(tmp_path):
    synthetic.write_store(synthetic.make_results(2, "noleap", (6, 12), ("mean",)), tmp_path / "results.zarr")
    return tmp_path


@pytest.fixture
def address(output):
    """The page of a dashboard that runs."""
    process = started(output, "--every", "0.2")
    yield said(process)
    process.terminate()
    process.wait()
    process.stdout.close()


def started(output, *words):
    command = [sys.executable, "-m", "bbflow", "dashboard", str(output), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def said(process):
    return process.stdout.readline().strip().removeprefix("bbflow: ")


def fetched(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
        return answer.read().decode()


def refused(url, **headers):
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetched(url, **headers)
    with caught.value as error:
        return error.code


def test_the_page_is_the_report_and_keeps_up_with_the_run(address, output):
    assert "data:image/png;base64" in fetched(address)
    (output / "events.jsonl").write_text(
        '{"event": "landed", "step": 0, "began_s": 1, "committed_s": 2, "bytes": 64}\n'
    )
    for _ in range(200):
        if "There is no events.jsonl" not in fetched(address):
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the page stays as it was")


def test_without_the_address_there_is_nothing(address):
    root = re.match(r"http://[^/]+/", address)[0]
    assert [refused(root), refused(f"{root}{'0' * 43}/"), refused(address, Host="evil.example")] == [404, 404, 403]


@pytest.mark.slow
def test_a_contact_file_gives_the_same_address_again_and_keeps_its_key(output):
    contact = output / "contact.json"
    key = contact_key(contact)
    addresses = []
    for _ in range(2):
        process = started(output, "--contact", str(contact))
        addresses.append(said(process).split("/")[3])
        process.terminate()
        process.communicate()
    assert addresses[0] == addresses[1]
    assert key not in addresses


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs a browser: apt install chromium")
def test_a_browser_shows_the_pictures(address):
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", "--dump-dom"]
    done = subprocess.run([*words, address], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120)
    assert done.stdout.count("<img") > 1


@pytest.mark.parametrize("port", ["-1", "65536", "9" * 30])
def test_a_port_that_is_none_is_refused(tmp_path, capsys, port):
    assert main(["dashboard", str(tmp_path), "--port", port]) == os.EX_USAGE
    assert capsys.readouterr().err == f"bbflow: --port {port}: give a number up to 65535, or 0 for a free one\n"

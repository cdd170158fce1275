"""The certificate beside a contact file."""

import multiprocessing

import pytest

from bbflow.errors import ConfigError
from bbflow.net.certificate import certificate_of, ensure_certificate


def test_all_who_need_a_certificate_at_once_get_the_same(tmp_path):
    contact = tmp_path / "contact.json"
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        paths = pool.map(ensure_certificate, [contact] * 6)
    contents = {path.read_bytes() for path in paths}
    assert set(paths) == {certificate_of(contact)}
    assert len(contents) == 1
    assert paths[0].stat().st_mode & 0o777 == 0o600


def test_a_certificate_that_others_can_read_is_refused(tmp_path):
    path = ensure_certificate(tmp_path / "contact.json")
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="isn't a secret, its mode is 640"):
        ensure_certificate(tmp_path / "contact.json")

"""ADIOS2s that the user has, beside those of PyPI."""

import pytest


def pytest_addoption(parser):
    """Declare where they are."""
    parser.addoption("--prefixes", default="", help="folders in which an ADIOS2 is installed, with blanks between")


def pytest_generate_tests(metafunc):
    """Run a test with each of them."""
    if "prefix" in metafunc.fixturenames:
        reason = "no ADIOS2 is named: make test-versions PREFIXES='FOLDER …'"
        none = pytest.param(None, marks=pytest.mark.skip(reason=reason))
        metafunc.parametrize("prefix", metafunc.config.getoption("prefixes").split() or [none], scope="module")

import pytest
import synthetic_run

from bbflow.report.writing import write_report


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Output of a whole run of 14 months, with its report."""
    output = tmp_path_factory.mktemp("run")
    synthetic_run.write_run(output, months=14, shape=(12, 24))
    write_report(output)
    return output

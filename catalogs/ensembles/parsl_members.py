"""Members of an ensemble as Parsl's apps; one that is spared, or stopped since there is enough, ends with 0."""

import parsl
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor

import bbflow


@parsl.python_app
def member(config, name, command):
    """Run a member; where apps run on other hosts, the configuration lies where all see it."""
    import bbflow

    return bbflow.Ensemble(config).run(name, command)


def main(config="lorenz96.yml", at_once=4):
    """Run all members, and return whether nothing is missing."""
    ensemble = bbflow.Ensemble(config)
    ensemble.up()
    with parsl.load(Config(executors=[ThreadPoolExecutor(max_threads=at_once)], initialize_logging=False)):
        runs = [member(config, name, ["python", "lorenz96.py", name]) for name in ensemble.analysis.ensemble.runs]
        for run in runs:
            run.result()
    return ensemble.wait()


if __name__ == "__main__":
    print("complete" if main() else "incomplete: see 'bbflow ensemble status lorenz96.yml'")

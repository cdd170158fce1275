"""The mount with GCC's ThreadSanitizer, and its tests (``make sanitize``): what it finds is an error.

The checkout's files are copied beside what was built, and tested there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build/sanitize/thread"


def build() -> Path:
    """Build the mount with the sanitizer; return a copy of the checkout that has it."""
    adios2 = next((ROOT / "build").glob("adios2-*/adios2"))
    words = ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", f"-DBBFLOW_ADIOS2={adios2}", "-DBBFLOW_CPU=own"]
    words += ["-DCMAKE_CXX_FLAGS=-fsanitize=thread -fno-omit-frame-pointer"]
    subprocess.run(["cmake", "-S", ROOT, "-B", FOLDER, "-G", "Ninja", *words], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", FOLDER, "--target", "bbflow-mount"], check=True)
    tree = FOLDER / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for file in filter(None, listed.split("\0")):
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, tree / file)
    shutil.copy2(FOLDER / "bin/bbflow-mount", tree / "bbflow/mount")
    return tree


def check(tree: Path, tests: list[str]) -> bool:
    """Run tests; return whether they passed and the sanitizer found nothing."""
    reports = FOLDER / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    env = os.environ | {"TSAN_OPTIONS": f"log_path={reports}/thread", "PYTHONPATH": str(tree)}
    words = ["-m", "pytest", "-q", "-n0", "--timeout", "600", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    # The sanitizer wants memory where a kernel that scatters it widely doesn't put it.
    done = subprocess.run(["setarch", "-R", sys.executable, *words], cwd=tree, env=env, check=False)
    found = sorted(file for file in reports.iterdir() if file.stat().st_size)
    for file in found:
        print(file.read_text(errors="replace"), file=sys.stderr)
    print(f"tests {'passed' if not done.returncode else 'failed'}, {len(found)} reports", flush=True)
    return done.returncode == 0 and not found


if __name__ == "__main__":
    sys.exit(0 if check(build(), sys.argv[1:] or ["tests/mount"]) else 1)

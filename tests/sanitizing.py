"""Engine, kernels and mount with GCC's sanitizers, and their tests (``make sanitize``): what they find is an error.

The checkout's files are copied beside what was built, and tested there. Processes that load a library get the
sanitizer's own before all others; the mount is a program, and has it.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIBRARIES = {
    "mount": {"bbflow-mount": "bbflow/mount/bbflow-mount"},
    "engine": {
        "bbflow_adios2": "adios2-engine/bbflow_adios2/libbbflow_adios2.so",
        "bbflow_engine": "adios2-engine/bbflow_adios2/libbbflow_engine_*.so",
        "bbflow_gates": "bbflow/landing/libbbflow_gates.so",
    },
    "kernels": {"bbflow_fold": "bbflow/operators/libbbflow_fold.so"},
}
"""What is built for each part, and where the packages have it."""
AS_IT_IS = "adios2-engine/bbflow_adios2/libbbflow_preload.so"
"""It comes first into programs of all kinds, before a sanitizer's library could."""
SANITIZERS = {"thread": ("thread", "libtsan.so"), "address": ("address,undefined", "libasan.so")}
"""What GCC is told, and what is loaded."""
OPTIONS = {
    # Python's own memory isn't given back at its end.
    "ASAN_OPTIONS": "detect_leaks=0:log_path={reports}/address",
    "UBSAN_OPTIONS": "print_stacktrace=1:log_path={reports}/undefined",
    # Python forks while it has threads.
    "TSAN_OPTIONS": "die_after_fork=0:suppressions={suppressions}:log_path={reports}/thread",
}
LANDING = ("room", "offers", "spill", "takeover", "tcp", "tls", "fabric", "devices")
ENGINE = ("types", "order", "patterns", *LANDING, "ranks", "rank_folds", "device_folds")
KERNELS = ("fold", "histogram", "percentiles", "extreme_times", "shape")
TESTS = {
    "mount": ["tests/mount"],
    "engine": [
        *(f"adios2-engine/tests/test_engine_{name}.py" for name in ENGINE),
        "adios2-engine/tests/test_reader_steps.py",
    ],
    "kernels": [
        *(f"tests/operators/test_operators_{name}.py" for name in KERNELS),
        "tests/operators/test_remap_blocks.py",
        "tests/operators/test_space_levels.py",
    ],
}


def build(name: str, parts: list[str]) -> Path:
    """Build some parts with a sanitizer; return a copy of the checkout that has them, and the others as they are."""
    folder = ROOT / "build/sanitize" / name
    adios2 = next((ROOT / "build").glob("adios2-*/adios2"))
    words = ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", f"-DBBFLOW_ADIOS2={adios2}", "-DBBFLOW_CPU=own"]
    words += [f"-DCMAKE_CXX_FLAGS=-fsanitize={SANITIZERS[name][0]} -fno-omit-frame-pointer"]
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *words], check=True, stdout=subprocess.DEVNULL)
    targets = [target for part in parts for target in LIBRARIES[part]]
    subprocess.run(["cmake", "--build", folder, "--target", *targets], check=True)
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).rstrip("\0").split("\0")
    built = [AS_IT_IS, *(pattern for part in LIBRARIES.values() for pattern in part.values())]
    for file in [*listed, *(str(found.relative_to(ROOT)) for pattern in built for found in ROOT.glob(pattern))]:
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, tree / file)
    for pattern in (pattern for part in parts for pattern in LIBRARIES[part].values()):
        made = [*folder.glob(f"[bl]i[nb]/{Path(pattern).name}")]
        assert made, f"{folder} has nothing for {pattern}: what is there without a sanitizer would be tested"
        for file in made:
            shutil.copy2(file, tree / pattern.rpartition("/")[0])
    return tree


def tools(folder: Path) -> Path:
    """Make a folder of compilers that load no sanitizer: GCC's programs and shells don't live with one."""
    folder.mkdir(exist_ok=True)
    for name in ("cmake", "cc", "c++", "gcc", "g++", "sh"):
        if found := shutil.which(name):
            words = f"os.execv({found!r}, [{found!r}, *sys.argv[1:]])"
            code = f"import os, sys\nos.environ.pop('LD_PRELOAD', None)\n{words}\n"
            (folder / name).write_text(f"#!{sys.executable}\n{code}")
            (folder / name).chmod(0o755)
    return folder


def check(name: str, part: str, tree: Path, tests: list[str]) -> bool:
    """Run tests with a sanitizer; return whether they passed and it found nothing."""
    reports = tree.parent / f"reports-{part}"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    suppressions = ROOT / "tests/sanitizing.supp"
    env = {key: text.format(reports=reports, suppressions=suppressions) for key, text in OPTIONS.items()}
    env["PYTHONPATH"] = f"{tree}:{tree / 'adios2-engine'}"
    if part != "mount":
        # Without C++'s own library it finds no function to throw with, in programs of C and Python.
        libraries = [SANITIZERS[name][1], "libstdc++.so.6"]
        asked = (["g++", f"-print-file-name={library}"] for library in libraries)
        env["PATH"] = f"{tools(tree.parent / 'tools')}:{os.environ['PATH']}"
        env["LD_PRELOAD"] = ":".join(subprocess.check_output(words, text=True).strip() for words in asked)
    words = ["-m", "pytest", "-q", "-n0", "--cold", "--timeout", "600", "-p", "no:cacheprovider"]
    words += ["-m", "not slow", *tests]
    # ThreadSanitizer wants memory where a kernel that scatters it widely doesn't put it.
    done = subprocess.run(["setarch", "-R", sys.executable, *words], cwd=tree, env=os.environ | env, check=False)
    found = sorted(file for file in reports.iterdir() if file.stat().st_size)
    for file in found:
        print(file.read_text(errors="replace"), file=sys.stderr)
    print(f"{name}, {part}: tests {'passed' if not done.returncode else 'failed'}, {len(found)} reports", flush=True)
    return done.returncode == 0 and not found


def main() -> int:
    """Build and test what is asked for; return an exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=SANITIZERS, help="this sanitizer alone")
    parser.add_argument("--part", choices=TESTS, help="this part alone")
    parser.add_argument("tests", nargs="*", help="of the part, these alone")
    asked = parser.parse_args()
    if asked.tests and not asked.part:
        parser.error("tests are those of a --part")
    parts = [asked.part] if asked.part else [*TESTS]
    results = []
    for name in [asked.only] if asked.only else SANITIZERS:
        tree = build(name, parts)
        results += [check(name, part, tree, asked.tests or TESTS[part]) for part in parts]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

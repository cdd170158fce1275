# Every target sets up what it needs: a virtual environment with everything from PyPI.
VENV := .venv
BIN := $(VENV)/bin
OUT ?= bbflow-out
TOOLS := PATH="$(CURDIR)/$(BIN):$$PATH"
# Relative, since a checkout's own path may have blanks in it, where a target ends.
ADIOS2 := $(VENV)/adios2
CONFORMANCE := $(VENV)/conformance
MPI := $(VENV)/mpi
BUILD := $(VENV)/climate
SOURCES := setup.cfg setup.py pyproject.toml CMakeLists.txt \
	$(wildcard adios2-engine/CMakeLists.txt adios2-engine/src/* adios2-engine/src/*/* adios2-engine/wire/* adios2-engine/preload/* \
	bbflow/operators/native/* bbflow/mount/native/* bbflow/landing/native/*)

.PHONY: demo test test-cold test-slow explore sanitize docs fuzz fuzz-runs chaos waves lint bench conformance test-mpi test-versions models-suite chaos-mount parsl-suite pegasus-suite spark-suite gpu-suite slurm-suite hosts-suite security-suite readers-suite test-install release clean check-tools structure
.DELETE_ON_ERROR:
# With it, each of the many processes that a run or a test starts would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# The demo needs neither the clients of other tools nor the mount; an environment that has all will do.
demo: $(if $(wildcard $(VENV)/.installed),$(VENV)/.installed,$(VENV)/.demo)
	$(BIN)/bbflow demo --output $(OUT) --build $(BUILD) --overwrite

# Tests wait for processes half of their time: twice as many run as there are CPUs. What a file's tests share, or what a
# machine has once, stays in one of them.
PYTEST = $(TOOLS) $(BIN)/python -m pytest --numprocesses $$((2 * $$(nproc))) --maxprocesses 8 --dist loadgroup
test: $(VENV)/.test
	$(PYTEST) -m 'not slow and not readers'

# The same with Python programs that start as users start them, not as forks (testsupport/warm.py).
test-cold: $(VENV)/.test
	$(PYTEST) --cold -m 'not slow and not readers'

# What takes long has seconds of its own for each test; setup.cfg has those of all others.
LONG := --timeout 600
test-slow: $(VENV)/.test
	$(PYTEST) $(LONG) -m slow

# Forty times the examples that a run of the tests looks at, in all that hypothesis explores.
explore: $(VENV)/.test
	$(PYTEST) $(LONG) --hypothesis-profile thorough -m 'hypothesis and not slow'

# Engine, kernels and mount with GCC's sanitizers, and their tests. SANITIZE="--only thread --part mount" takes one.
sanitize: $(VENV)/.test
	$(TOOLS) $(BIN)/python tests/sanitizing.py $(SANITIZE)

# The site, with the tutorial run as it stands; a link that leads nowhere is an error.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html -c docs . build/docs
	@echo build/docs/docs/index.html

# FUZZ_SECONDS for each target; what breaks one is written to the working directory.
FUZZ_SECONDS ?= 600
DECODERS := -std=c++17 -g -O1 -Iadios2-engine/wire adios2-engine/tests/program/decoders.cpp \
	$(patsubst %,adios2-engine/wire/%.cpp,Checksum Crc32 Crc32c Frame Json MessagePack Seal Utf8 Value)
fuzz: $(VENV)/.test
	mkdir -p $(VENV)/corpus
	for target in frames handshake data index agent master server files_server; do \
		mkdir -p $(VENV)/corpus/$$target && \
		$(BIN)/python tests/fuzz/fuzz.py $$target -max_total_time=$(FUZZ_SECONDS) -max_len=400 \
			$(VENV)/corpus/$$target || exit 1; done
	if command -v clang++ >/dev/null; then \
		clang++ $(DECODERS) -fsanitize=fuzzer,address,undefined -DBBFLOW_LIBFUZZER -o $(VENV)/decoders && \
		mkdir -p $(VENV)/corpus/decoders && \
		$(VENV)/decoders -max_total_time=$(FUZZ_SECONDS) $(VENV)/corpus/decoders; \
	else \
		g++ $(DECODERS) -fsanitize=address,undefined -fno-sanitize-recover=all -o $(VENV)/decoders && \
		$(VENV)/decoders $$(($(FUZZ_SECONDS) * 5000)) $$$$; \
	fi

# RUNS small programs from SEED on, through the engine and an analysis into all stores, compared with their BP5 files.
fuzz-runs: RUNS ?= 2000
fuzz-runs: SEED ?= 0
fuzz-runs: $(VENV)/.test
	PYTHONPATH=.:tests/fuzz $(BIN)/python tests/fuzz/runs.py --runs $(RUNS) --seed $(SEED)

# Harm done to real runs, and what they leave; hours. CHAOS says what: docs/trust.md.
CHAOS ?= all
chaos: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m chaos $(CHAOS)

# An ensemble in waves, of which a tenth is killed, with an analysis and an agent that are killed ten times.
waves: MEMBERS ?= 1000
waves: $(VENV)/.test
	$(BIN)/python tests/ensemble/waves.py $(MEMBERS)

lint: $(VENV)/.lint
	$(TOOLS) pre-commit run --all-files

# `make bench windows` takes those figures alone; `python -m benchmarks --help` names all.
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks $(filter-out bench,$(MAKECMDGOALS))

ifneq ($(filter bench,$(MAKECMDGOALS)),)
$(filter-out bench,$(MAKECMDGOALS)): ; @:
endif

conformance: $(CONFORMANCE)/.built
	$(BIN)/python adios2-engine/conformance $(CONFORMANCE)/build

# The engine and a program against an ADIOS2 with MPI, which is built once.
test-mpi: $(MPI)/.installed
	$(TOOLS) cmake -S adios2-engine -B $(MPI)/engine -G Ninja -DCMAKE_PREFIX_PATH="$(CURDIR)/$(MPI)/adios2"
	$(TOOLS) cmake --build $(MPI)/engine
	$(TOOLS) cmake -S adios2-engine/mpi -B $(MPI)/program -G Ninja -DCMAKE_PREFIX_PATH="$(CURDIR)/$(MPI)/adios2"
	$(TOOLS) cmake --build $(MPI)/program
	$(BIN)/python -m pytest $(LONG) adios2-engine/mpi --built $(MPI)

# EXAMPLES, SCORPIO, WRF, OPENPMD and LAMMPS name checkouts of ADIOS2, SCORPIO, WRF, openPMD-api and LAMMPS that you have:
# their programs as they are, with BP5 and in transit.
# ADIOS2_DIR names an ADIOS2 with MPI; MPI_DIR the folder of its MPI's compilers and mpiexec.
MPI_DIR ?= $(if $(ADIOS2_DIR),$(patsubst %/,%,$(dir $(shell command -v mpicc))),$(BIN))
models-suite: $(if $(ADIOS2_DIR),$(VENV)/.test,$(MPI)/.installed)
	$(BIN)/python -m pytest adios2-engine/models --timeout 7200 --built $(VENV)/models --mpi $(MPI_DIR) \
		--adios2 $(or $(ADIOS2_DIR),$(MPI)/adios2) \
		--examples='$(EXAMPLES)' --scorpio='$(SCORPIO)' --wrf='$(WRF)' \
		--openpmd='$(OPENPMD)' --lammps='$(LAMMPS)'

# The engine built for each version of ADIOS2 that PyPI has, and the same program with each; PREFIXES names folders in which
# further ones are installed. And once from a wheel, without this checkout.
test-versions: $(VENV)/.test
	$(TOOLS) $(BIN)/python -m pytest $(LONG) adios2-engine/versions --prefixes '$(PREFIXES)'

# A master, an IOnode or the mount is killed at a random moment under a writing load, RUNS times.
chaos-mount: RUNS ?= 50
chaos-mount: $(VENV)/.test
	$(BIN)/python tests/mount/chaos.py --runs $(RUNS)

# PARSL names a checkout of Parsl that you have; its suite runs with and without a burst buffer.
parsl-suite: | check-tools
	@test -f "$(PARSL)/parsl/tests/conftest.py" || { echo "say where a checkout of Parsl is: make parsl-suite PARSL=path" >&2; exit 1; }
	python3 -m venv $(VENV)-parsl
	$(VENV)-parsl/bin/python -m pip install -q . -r $(PARSL)/test-requirements.txt -e '$(PARSL)[monitoring]'
	parsl-executor/suite/run.sh "$(CURDIR)/$(VENV)-parsl/bin/python" $(abspath $(PARSL))

# Puts from a GPU's memory: with a stand-in, and with a GPU of NVIDIA's, whose figures it prints; else those skip with a reason.
gpu-suite: $(VENV)/.test
	$(BIN)/python -m pytest $(LONG) -rs adios2-engine/tests/test_engine_devices.py adios2-engine/tests/test_engine_device_folds.py
	$(BIN)/python -m benchmarks.gpu

# The scripts of docs/cluster.md on Debian's Slurm; skips with a reason without root or its packages.
slurm-suite: $(VENV)/.test
	$(TOOLS) $(BIN)/python -m pytest $(LONG) tests/slurm

# Sixteen hosts as network namespaces: slow, far, cut off, and what each costs; skips with a reason without root.
hosts-suite: $(VENV)/.test
	BBFLOW_HOSTS=16 $(BIN)/python -m pytest -s tests/network/test_many_hosts.py

# What one user could do to another or to root, by two real users; skips with a reason without root.
security-suite: $(VENV)/.test
	$(BIN)/python -m pytest $(LONG) tests/security

# What others read our stores with: 400 MB more of packages; zarrita where npm is.
readers-suite: $(VENV)/.test
	$(INSTALL) -e '.[all,readers]'
	mkdir -p $(BUILD)/readers
	if command -v npm; then npm install --silent --prefix $(BUILD)/readers zarrita@0.7 @zarrita/storage@0.2; fi
	BBFLOW_NODE_MODULES=$(abspath $(BUILD))/readers/node_modules $(BIN)/python -m pytest $(LONG) -m readers tests

# One checkout into several environments, in an order that SEED tells, with as many STEPS.
test-install: $(VENV)/.test
	$(BIN)/python -m pytest $(LONG) tests/installing -s

# The sdist and wheels, in dist/, checked. CHROOT: an old Debian, whose compilers they are built with; MACHINES: x86_64 aarch64;
# TRY_IN: chroots, each with =PYTHON after it or not, in which a wheel is installed and used.
release: $(VENV)/.release
	$(BIN)/python packaging/release.py $(if $(CHROOT),--chroot $(abspath $(CHROOT))) $(if $(MACHINES),--machines $(MACHINES)) \
		$(if $(TRY_IN),--try-in $(TRY_IN))

# PEGASUS names an installation that you have, MONTAGE a checkout of its montage-workflow-v3; HTCondor and Montage are on PATH.
pegasus-suite: $(VENV)/.test
	@test -x "$(PEGASUS)/bin/pegasus-plan" || { echo "say where an installation of Pegasus is: make pegasus-suite PEGASUS=path MONTAGE=path" >&2; exit 1; }
	@command -v condor_submit_dag >/dev/null || { echo "condor_submit_dag is missing: apt install htcondor" >&2; exit 1; }
	PATH="$(abspath $(PEGASUS))/bin:$$PATH" $(BIN)/python -m pytest $(LONG) pegasus-plugin/tests
	@test -z "$(MONTAGE)" || PATH="$(abspath $(PEGASUS))/bin:$$PATH" $(BIN)/python pegasus-plugin/suite/montage_v3.py $(MONTAGE)

# Real Spark: formats, faults, bad input, several hosts (as root), S3 (with its jars); needs a JDK, and installs pyspark.
spark-suite: $(VENV)/.test
	$(INSTALL) -e '.[all,test,spark]'
	$(TOOLS) $(BIN)/python -m pytest $(LONG) spark-plugin/suite

# Sizes, imports, names and comments of this checkout, and of others in BESIDE for comparison.
structure:
	python3 -m tests.structure $(BESIDE) .

clean:
	for made in .venv .venv-parsl; do if test -f $$made/pyvenv.cfg; then rm -r $$made; fi; done
	rm -rf build *.egg-info
	find bbflow adios2-engine -name '*.so' -delete
	rm -f bbflow/mount/bbflow-mount

check-tools:
	@case "$(CURDIR)" in *[[:space:]]*) echo "$(CURDIR) has a blank in its path, with which MPI's compilers fail: clone elsewhere" >&2; exit 1;; esac
	@command -v g++ >/dev/null || { echo "g++ is missing: apt install g++" >&2; exit 1; }
	@command -v python3 >/dev/null || { echo "python3 is missing: apt install python3" >&2; exit 1; }
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "python3 is older than 3.11: apt install python3.11" >&2; exit 1; }
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "python3-venv is missing: apt install python3-venv" >&2; exit 1; }

$(VENV)/bin/python: | check-tools
	python3 -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip

# What builds is installed once: pip would make an environment of it for each build. setuptools warns of every editable install.
REQUIRES := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")
INSTALL := $(TOOLS) PYTHONWARNINGS="ignore:Editable installation" $(BIN)/python -m pip install -q --no-build-isolation
$(VENV)/.builds: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -c '$(REQUIRES)' | $(BIN)/python -m pip install -q --no-compile -r /dev/stdin
	@touch $@

# Of what pip would compile to bytecode the demo imports a tenth.
$(VENV)/.demo: $(SOURCES) | $(VENV)/.builds
	BBFLOW_MOUNT=OFF $(INSTALL) --no-compile -e '.[demo]'
	@touch $@

$(VENV)/.installed: $(SOURCES) | $(VENV)/.builds
	$(INSTALL) -e '.[all]'
	@touch $@

$(VENV)/.test: $(SOURCES) | $(VENV)/.builds
	$(INSTALL) -e '.[all,test]'
	@touch $(VENV)/.installed $@

$(VENV)/.bench: $(VENV)/.test
	$(INSTALL) -e '.[all,bench]'
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(INSTALL) -e '.[all,docs]'
	@touch $@

$(VENV)/.lint: $(VENV)/.installed
	$(INSTALL) -e '.[all,lint]'
	@touch $@

$(VENV)/.release: $(VENV)/.installed
	$(INSTALL) -e '.[all,release]'
	@touch $@

# ADIOS2's source distribution stays out of the repository.
$(ADIOS2)/.unpacked: | $(VENV)/.test
	version=$$($(BIN)/python -c 'import adios2; print(adios2.__version__)') && \
	$(BIN)/python -m pip download -q --no-binary adios2 --no-deps -d $(ADIOS2) "adios2==$$version"
	mkdir -p $(ADIOS2)/source
	tar -xf $(ADIOS2)/adios2-*.tar.gz -C $(ADIOS2)/source --strip-components 1
	@touch $@

$(CONFORMANCE)/.built: adios2-engine/conformance/CMakeLists.txt $(ADIOS2)/.unpacked
	$(BIN)/cmake -S $(<D) -B $(CONFORMANCE)/build -G Ninja -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" \
		-DADIOS2_SOURCE="$(CURDIR)/$(ADIOS2)/source" \
		-DADIOS2_DIR=$$($(BIN)/python -c 'import adios2, os; print(os.path.dirname(adios2.__file__))')/cmake/adios2
	$(BIN)/cmake --build $(CONFORMANCE)/build
	@touch $@

$(MPI)/.installed: adios2-engine/mpi/adios2.cmake $(ADIOS2)/.unpacked
	$(TOOLS) cmake -C $< -S $(ADIOS2)/source -B $(MPI)/build -G Ninja -DCMAKE_INSTALL_PREFIX="$(CURDIR)/$(MPI)/adios2"
	$(TOOLS) cmake --build $(MPI)/build --target install
	@touch $@

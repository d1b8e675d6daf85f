# make demo, make demo-containers, make test: all set-up included, on Debian or Ubuntu with Python
# and g++.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
CLANG_FORMAT_FILES = $(shell git ls-files 'cc/*.h' 'cc/*.cc')
SOURCES = $(shell git ls-files CMakeLists.txt pyproject.toml cc patches python)

export TF_CPP_MIN_LOG_LEVEL ?= 3
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Hundreds of processes import TensorFlow, which only the first is to compile.
unexport PYTHONDONTWRITEBYTECODE
# How many compilers a build runs at a time.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)

.PHONY: demo demo-frameworks demo-containers demo-elastic demo-tier check test bench bench-cores bench-many bench-simulate bench-elastic bench-elastic-step bench-cluster bench-tier bench-lending bench-service bench-page bench-power bench-streams bench-openmp bench-frameworks bench-llama tournament validate bench-containers compat \
  coexistence lint cc-test cc-test-parallel cc-test-serial python-test python-test-parallel \
  python-test-most python-test-serial bazel-build bazel-test bazel7-test conformance tensorflow-wheel dist clean

demo: .venv/installed-demo
	@.venv/bin/python examples/demo.py

# TensorFlow, PyTorch and LightGBM, in an environment that has all of them.
demo-frameworks: build/coexistence/installed
	@build/coexistence/bin/python examples/demo.py --trainings examples/frameworks.txt \
	  --out out/demo-frameworks.png

# A training whose workers come, and one of which is killed.
demo-elastic: .venv/installed-demo
	@.venv/bin/python examples/demo_elastic.py

# Nodes that read a slow file system, without data tiers and with; as root, with /dev/fuse.
demo-tier: .venv/installed-demo
	@tools/system_packages.sh fuse
	@PYTHONPATH=. .venv/bin/python examples/demo_tier.py

# In containers, of a Docker engine that is there or is started for it.
demo-containers: .venv/installed-demo
	.venv/bin/python tools/docker_engine.py --install -- \
	  .venv/bin/python examples/demo_containers.py

# Within ten minutes on two cores, set-up included: all but the tests that take seconds, have the
# machine for themselves, or need an engine, a browser, Bazel or the sanitizers. CI runs all.
.PHONY: test-all test-most
test: $(if $(filter true,$(CI)),test-all,test-most)
test-most: test-packages .venv/installed-test
	$(MAKE) --no-print-directory --jobs=2 python-test-most beside-most-tests
	$(call CTEST,plain,--label-exclude serial)

# Environments first, as two pips would get in each other's way in one of them. Tests in Python
# wait for most of their time: what computes all the time runs beside them, where they leave a CPU
# idle. What measures time or counts active workers comes last, alone.
test-all: all-packages .venv/installed-docs .venv/installed-fuzz
	$(MAKE) --no-print-directory --jobs=3 python-test-parallel beside-tests fuzz-beside-tests
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target cc-test-parallel bazel-test
	$(MAKE) --no-print-directory cc-test-serial python-test-serial
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target bazel7-test compat coexistence

.PHONY: beside-most-tests beside-tests fuzz-beside-tests
beside-most-tests:
	nice -n 19 $(MAKE) --no-print-directory --output-sync=target lint cc-build-plain
beside-tests:
	nice -n 19 $(MAKE) --no-print-directory --jobs=$(shell nproc) --output-sync=target \
	  lint docs-check $(CC_BUILDS:%=cc-build-%) bazel-build build/coexistence/installed bazel7-install
# A minute for each parser of CPUs that nothing else uses: it ends before the tests in Python do. The
# seed stays the same, so that no change fails by what luck finds in another one.
fuzz-beside-tests:
	chrt --idle 0 $(MAKE) --no-print-directory --output-sync=target fuzz FUZZ_SECONDS=60 \
	  FUZZ_OPTIONS="--seed 1"

# The loop while writing Python: no build, and only tests that take milliseconds.
CHECKED = api cli/test_run_front.py figures linux model packaging policies scheduling simulate workload
check: $(if $(wildcard .venv/installed-test),,.venv/installed-test) build/tree
	$(LINT)
	PYTHONPATH=build/tree .venv/bin/python -m pytest -q -n $(shell nproc) \
	  -m "not slow and not serial" $(CHECKED:%=tests/%)

# The working tree's Python files and, beside them, what was compiled for the installed ones.
.PHONY: build/tree
build/tree:
	@rm -rf $@ && mkdir -p $@ && cp -rs $(CURDIR)/python/. $@
	@ln -s $(CURDIR)/.venv/lib/python3*/site-packages/tf_malleable/runtime/*.so \
	  $@/tf_malleable/runtime

# One process against stock TensorFlow (40 minutes); one with few threads of many (15 minutes
# a round); many processes (5 minutes and 35 a round); containers (40 minutes and 15 a round).
bench: .venv/installed-test
	.venv/bin/python -m benchmarks.single
bench-cores: .venv/installed-test
	.venv/bin/python -m benchmarks.cores
bench-many: .venv/installed-test
	.venv/bin/python -m benchmarks.many
# The simulator (15 minutes), all policies in simulations (10 minutes), and simulations against
# real runs (40 minutes).
bench-simulate: .venv/installed-test
	.venv/bin/python -m benchmarks.simulate
# Elastic trainings: sums, pauses, accuracy and several workers (40 minutes); their steps against
# plain ones (15 minutes).
bench-elastic: .venv/installed-test
	.venv/bin/python -m benchmarks.elastic
bench-elastic-step: .venv/installed-test
	.venv/bin/python -m benchmarks.elastic_step
# Data tiers: cold epochs, ten epochs, small files, and what the shim costs (65 minutes); as root,
# with /dev/fuse.
bench-tier: .venv/installed-test
	@tools/system_packages.sh fuse
	.venv/bin/python -m benchmarks.tier
	.venv/bin/python -m benchmarks.tier.overhead --pairs 15
# The live page: how late it is, and what it costs (8 minutes).
bench-lending: .venv/installed-test
	.venv/bin/python -m benchmarks.lending

bench-service: .venv/installed-test
	.venv/bin/python -m benchmarks.service

bench-page: .venv/installed-test
	@tools/system_packages.sh browser
	.venv/bin/python -m benchmarks.page
# Power: calibrations, metering, units, and a budget that is kept (5 minutes).
bench-power: test-packages .venv/installed-test
	.venv/bin/python -m benchmarks.power
# The operator, on a fake cluster (20 minutes).
bench-cluster: .venv/installed-test
	.venv/bin/python -m benchmarks.cluster
# Programs that compute with OpenMP, under a limit and started with that number.
bench-openmp: build/coexistence/installed
	build/coexistence/bin/python -m benchmarks.openmp
# Trainings of several frameworks that share the machine.
bench-frameworks: build/coexistence/installed
	build/coexistence/bin/python -m benchmarks.many --only f g
# llama.cpp's server, whose container's quota changes (5 minutes, after 15 to build it); as root.
bench-llama: .venv/installed-test
	.venv/bin/python -m benchmarks.llama
tournament: .venv/installed-test
	.venv/bin/python -m benchmarks.tournament
# Policies on streams in 150 settings, with 20 seeds each (hours; goes on where it ended).
bench-streams: .venv/installed-test
	.venv/bin/python -m benchmarks.streams
validate: .venv/installed-test
	.venv/bin/python tools/docker_engine.py --install -- \
	  .venv/bin/python -m benchmarks.validation
bench-containers: .venv/installed-test
	.venv/bin/python tools/docker_engine.py --install -- \
	  .venv/bin/python -m benchmarks.containers

lint: .venv/installed-test
	$(LINT)
define LINT
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
PYTHONPATH=python .venv/bin/lint-imports
.venv/bin/clang-format --dry-run -Werror $(CLANG_FORMAT_FILES)
endef

# The C++ core, plain and under the sanitizers. As they wait for most of their time, more run at
# a time than there are CPUs, of all three builds; but those that count active workers, alone.
CC_BUILDS = plain thread address
cc-test: cc-test-parallel
	$(MAKE) --no-print-directory cc-test-serial
cc-test-parallel: $(CC_BUILDS:%=cc-build-%)
	$(call CTEST,$(CC_BUILDS),--label-exclude serial)
cc-test-serial: $(CC_BUILDS:%=cc-build-%)
	$(call CTEST,$(CC_BUILDS),--label-regex serial)
cc-test-%: cc-build-%
	$(call CTEST,$*)
# ThreadSanitizer cannot place its shadow memory under a fully random layout.
define CTEST
@mkdir -p build/cc-tests
@echo 'subdirs($(1:%=../cc-%))' >build/cc-tests/CTestTestfile.cmake
setarch -R .venv/bin/ctest --test-dir build/cc-tests --output-on-failure \
  -j$(shell expr 2 '*' $$(nproc)) $2
endef
cc-build-%: test-packages .venv/installed-test
	.venv/bin/cmake -S . -B build/cc-$* -DPython_EXECUTABLE=$(CURDIR)/.venv/bin/python \
	  -DTF_MALLEABLE_BUILD_OVERLAY=OFF -DTF_MALLEABLE_BUILD_TESTS=ON \
	  -DTF_MALLEABLE_SANITIZER=$(filter-out plain,$*) >build/cc-$*.log 2>&1 \
	  || { cat build/cc-$*.log; exit 1; }
	.venv/bin/cmake --build build/cc-$*

# All parsers of what others write, with input that libFuzzer makes up: those in Python, and the
# shim's. FUZZ_SECONDS is the time for each of them, or for those in FUZZ; an hour for each takes a
# day on two CPUs. A seed in FUZZ_OPTIONS="--seed N" repeats a run.
FUZZ_SECONDS ?= 60
.PHONY: fuzz fuzz-shim
fuzz: fuzz-shim .venv/installed-fuzz
	.venv/bin/python tools/fuzz_parsers.py --seconds $(FUZZ_SECONDS) --jobs $(WORKERS) $(FUZZ_OPTIONS) $(FUZZ)
fuzz-shim: test-packages .venv/installed-test
	@tools/system_packages.sh fuzz
	CC=clang CXX=clang++ .venv/bin/cmake -S . -B build/cc-fuzz \
	  -DPython_EXECUTABLE=$(CURDIR)/.venv/bin/python -DTF_MALLEABLE_BUILD_OVERLAY=OFF \
	  -DTF_MALLEABLE_BUILD_TESTS=ON -DTF_MALLEABLE_SANITIZER=address,fuzzer-no-link >build/cc-fuzz.log 2>&1 \
	  || { cat build/cc-fuzz.log; exit 1; }
	.venv/bin/cmake --build build/cc-fuzz --target tier_fuzz

# In parallel, but for what measures time; one more than there are CPUs, as tests wait a lot. The
# tests of containers need a Docker engine, and controllers say so if there is none.
WORKERS ?= $(shell expr 1 + $$(nproc))
PYTEST = .venv/bin/python -m pytest --ignore=tests/bazel --ignore=tests/coexistence \
  --ignore=tests/compat
WITH_DOCKER = .venv/bin/python tools/docker_engine.py --install --
python-test: python-test-parallel
	$(MAKE) --no-print-directory python-test-serial
python-test-most: .venv/installed-test
	$(PYTEST) --ignore=tests/containers --ignore=tests/web/browser -n $(WORKERS) --dist loadgroup \
	  -m "not slow and not serial"
python-test-parallel: .venv/installed-test
	$(WITH_DOCKER) $(PYTEST) -n $(WORKERS) --dist loadgroup -m "not serial"
python-test-serial: .venv/installed-test
	$(WITH_DOCKER) $(PYTEST) -m serial

# Elastic trainings under 20 random schedules instead of one.
.PHONY: test-elastic
test-elastic: .venv/installed-test
	TFM_TEST_SCHEDULES=20 $(PYTEST) -n $(WORKERS) --dist loadgroup tests/elastic

# The operator's tests, on the cluster of KUBECONFIG. Without TFM_TEST_IMAGE, an image that its nodes
# can pull, nothing is trained there.
.PHONY: test-cluster
test-cluster: .venv/installed-test
	TFM_TEST_CLUSTER=1 $(PYTEST) tests/cluster

# The same, as root, on a Kubernetes that is started from the programs in BINARIES; see CONTRIBUTING.md.
BINARIES ?= build/kubernetes
.PHONY: test-real-cluster bench-real-cluster
test-real-cluster: .venv/installed-test
	.venv/bin/python tools/real_cluster.py --binaries $(BINARIES) --cpus 4
# What docs/benchmarks/real-kubernetes.md reports (two hours).
bench-real-cluster: .venv/installed-test
	.venv/bin/python tools/real_cluster.py --binaries $(BINARIES) --cpus 4 -- .venv/bin/python -m benchmarks.real_cluster

# The documentation, as a site in build/site. docs-check builds it without writing to
# tracked files; tests/pages run what the pages say to type.
.PHONY: docs docs-check
docs: .venv/installed-docs
	.venv/bin/python tools/draw_architecture.py
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict
	@echo "build/site/index.html"
docs-check: .venv/installed-docs
	.venv/bin/python tools/draw_architecture.py --check
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

# Our own targets, built by Bazel against the installed TensorFlow.
bazel-test: test-packages .venv/installed-test
	tools/bazel.sh test .venv/bin/python
	.venv/bin/python -m pytest tests/bazel
bazel-build: test-packages .venv/installed-test
	tools/bazel.sh build .venv/bin/python
# With Debian sid's Bazel 7, which root installs in build/bazel7: 5 minutes, then 3.
bazel7-test: .venv/installed-test
	tools/bazel7.sh
.PHONY: bazel7-install
bazel7-install:
	tools/bazel7.sh install

# LIB=… is held to cc/capi/tfm.h, in TF_PYTHON=…, a Python with its TensorFlow and pytest.
TF_PYTHON ?= .venv/bin/python
conformance: $(if $(filter .venv/bin/python,$(TF_PYTHON)),.venv/installed-test)
	$(TF_PYTHON) -m pytest tests/conformance $(if $(LIB),--lib $(abspath $(LIB)))

# TensorFlow itself with the patches: hours, and the network. See docs/how-to/tensorflow-from-source.md.
tensorflow-wheel:
	tools/build_tensorflow.sh 2.21.0

# What is published: an sdist, and a wheel for this Python with every overlay.
dist: build/dist-made

# The wheel with each TensorFlow, in environments of their own and without a compiler.
compat: build/dist-made .venv/installed-test
	.venv/bin/python -m pytest tests/compat -n $(shell nproc)

# The same with a wheel for each other Python of this system.
.PHONY: compat-pythons
compat-pythons: build/dist-made
	tools/compat_pythons.sh

# The wheel beside PyTorch, JAX, gevent, uvloop and what computes with OpenMP; PyTorch's
# loader, too, reads through a tier.
coexistence: build/coexistence/installed
	build/coexistence/bin/python -m pytest tests/coexistence -n $(shell nproc) \
	  "tests/tier/test_frameworks.py::test_what_it_loads[torch]"

# What the C++ tests need from apt, and what all do. First in `test`, so that all that is missing is
# named at once.
.PHONY: test-packages all-packages
test-packages:
	@tools/system_packages.sh $(if $(wildcard .venv/bin/python),,$(PYTHON)) cc-tests
all-packages:
	@tools/system_packages.sh $(if $(wildcard .venv/bin/python),,$(PYTHON)) cc-tests browser fuzz \
	  openmp debian

# Environments. A stamp is newer than all it was made from.
INSTALL = tools/install.sh .venv/bin/python
.venv/bin/python:
	@tools/system_packages.sh $(PYTHON)
	@tools/step.sh venv "Creating a Python environment in .venv" sh -c \
	  "$(PYTHON) -m venv .venv && .venv/bin/pip install -q --upgrade 'pip>=25.1' 'uv>=0.9'"

.venv/installed-demo: .venv/bin/python $(SOURCES)
	@tools/step.sh demo "Installing TensorFlow and the demo's other packages" \
	  $(INSTALL) --group demo
	@tools/step.sh build "Building tf_malleable" .venv/bin/pip install -q .
	@touch $@

.venv/installed-test: .venv/installed-demo
	@tools/step.sh test "Installing what the tests need" $(INSTALL) --group test
	@rm -rf build/s3
	@tools/step.sh s3 "Installing an S3 server and its clients for the tests" \
	  $(INSTALL) --target build/s3 --group s3
	@touch $@

build/dist-made: .venv/bin/python $(SOURCES) README.md tools/debian_root.sh tools/dist.sh \
  tools/in_chroot.sh tools/make_dist.py tools/mount_root.sh tools/releases.py tools/sbom.py
	@tools/step.sh dist-group "Installing what builds a wheel" \
	  $(INSTALL) --group dist
	@tools/dist.sh .venv/bin/python dist
	@ls -sh dist/tf_malleable-*
	@touch $@

# With --no-compile, as most of their modules are never imported.
COEXISTENCE_PIP = .venv/bin/pip --python build/coexistence/bin/python
build/coexistence/installed: build/dist-made
	@tools/step.sh coexistence-venv "Creating a Python environment in build/coexistence" \
	  .venv/bin/python -m venv --without-pip build/coexistence
	@tools/step.sh coexistence "Installing PyTorch, JAX and others beside the wheel" sh -c "\
	  $(COEXISTENCE_PIP) uninstall -q -y tf_malleable && $(COEXISTENCE_PIP) install -q \
	  --no-compile --only-binary=:all: --group coexistence dist/tf_malleable-*.whl"
	@touch $@

.venv/installed-fuzz: .venv/installed-test
	@tools/step.sh fuzz "Installing what fuzzes the parsers" \
	  $(INSTALL) --group fuzz
	@touch $@

.venv/installed-docs: .venv/installed-test
	@tools/step.sh docs "Installing what builds the documentation" \
	  $(INSTALL) --group docs
	@touch $@

# Not out/: the measurements there took hours. Bazel 4 makes bazel-out whatever .bazelrc says.
clean:
	rm -rf build dist bazel-out .venv

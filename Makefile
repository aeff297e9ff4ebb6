# make demo        trains on real digits and ends with results/report.html and the answer to the question
# make test        tests all parts, and the demo in its two frameworks, on all cores; WORKERS sets the number of processes
# make test-frameworks, make test-all: tests every framework; tests everything, on a cluster too
# make check       runs the linters, the import contracts and the type checker
# make figures     makes tables, figures and reports from recorded runs in results/recorded/, and trains nothing
# make site        makes a website of the documents in site/, and checks their links
# make locks       has uv lock the packages of every environment, GPU environments included, without installing them
# make update      moves all pins and locks to the newest versions, gates every framework, and prints what changed
# make references  writes the generated tables of documents and docs/parity.md
# make draft-machine PROFILE=profiles/slurm_mysite   drafts a cluster's profile and machine file from what SLURM tells here
# make check-gpu   checks a GPU in every framework that a Python of this machine has; docs/gpu.md says how
# make wheelhouse  fills a folder with the wheels for check-gpu on a machine without a network
# make compare A=results B=../other-clone/results   compares two results of a study; FAIL_BELOW=0.95 sets the exit status
# make gallery     checks the results that were sent to gallery/, and writes the page that lists and compares them
# make export TO=tensorboard   writes the runs for TensorBoard, wandb or mlflow, in results/export/; RESULTS=PATH, STUDY=NAME
# make adopt FROM=../other-clone   copies another clone's results here, so that none of its runs is repeated

PYTHON ?= python3
VENV := .venv
SNAKEMAKE := $(VENV)/bin/snakemake
LOCAL := --profile profiles/local
INSTALLED := $(VENV)/installed
TESTABLE := $(VENV)/testable
WEBSITE := .venv-site
# Without HOME, as in some containers and services, Python finds the folder in the list of users.
CACHE := $(or $(HOWMANYGPUS_CACHE),$(or $(HOME),$(shell $(PYTHON) -c 'import pathlib; print(pathlib.Path.home())'))/.cache/howmanygpus)

# A shim of a version manager refuses a Python that is not switched on, with a status that says nothing.
define CHECK_PYTHON
@$(PYTHON) -c "" || { echo "PYTHON=$(PYTHON): this Python does not start here, as the message above says. Name one that does, \
also by its path: make PYTHON=/path/to/python3 ... With a version manager, switch it on first, as by: pyenv local VERSION" >&2; exit 1; }
@PYTHONPATH=workflow/lib $(PYTHON) workflow/scripts/check_python.py
endef

# Packages in it would shadow those of Snakemake.
unexport PYTHONPATH

# Of several studies and of one, the answer begins with its first screen, which ends with where the rest is.
PRINT_SCREEN = sed '/^The rest is in /,/^$$/{/^$$/q}' results/tables/answer.txt

# Nothing that the report shows is newer than the report.
REPORT_IS_CURRENT = [ -e results/report.html ] && \
	[ -z "$$(find results/tables results/figures results/parity config workflow/report -newer results/report.html -print -quit)" ]

# Tests of the cluster, of signals and of deadlines mostly wait, so that there are more workers than cores. Each takes one
# file after the other, in the order of tests/conftest.py, which also says what belongs to which tier. TESTS names files
# or folders of the slow tests.
WORKERS ?= $(shell echo $$(($$(nproc) + 2)))
TEST = $(VENV)/bin/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# For check-gpu and wheelhouse, see docs/gpu.md.
SITE ?= $(PYTHON)
DEVICE ?= cuda
MINUTES ?= 120
SITE_HAS ?=
FRAMEWORKS ?=
STEPS ?=
WAYS ?=

.PHONY: demo figures test test-frameworks test-slow test-all check site locks update references compare gallery export adopt draft-machine check-gpu wheelhouse

demo: $(INSTALLED)
	@# After Ctrl-C some shells would go on with the else branch.
	@trap 'exit 130' INT; if $(SNAKEMAKE) $(LOCAL); then \
		{ $(REPORT_IS_CURRENT) || $(SNAKEMAKE) $(LOCAL) --report results/report.html; } && $(PRINT_SCREEN); \
	else \
		$(SNAKEMAKE) available $(LOCAL) && $(SNAKEMAKE) available $(LOCAL) --report results/report.html && $(PRINT_SCREEN); \
		echo "Some runs failed: results/report.html shows which and why."; \
		exit 1; \
	fi

figures: $(INSTALLED)
	PYTHONPATH=workflow/lib $(VENV)/bin/python tests/sandbox/recorded_runs.py draw results/recorded

test: $(TESTABLE)
	$(TEST) -m quick

test-frameworks: $(TESTABLE)
	$(TEST) -m "frameworks and not retired"

test-slow: $(TESTABLE)
	$(TEST) -m "not quick" $(TESTS) $(if $(TEST_MINUTES),--minutes "$(TEST_MINUTES)")

test-all: test
	$(MAKE) test-slow

check: export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
check: $(TESTABLE)
	@# As modules: a script names the Python of the clone that installed it, which may be gone.
	ruff check . && ruff format --check . && python -m snakefmt --check Snakefile workflow/Snakefile workflow/rules
	PYTHONPATH=workflow/lib python -c "from importlinter.cli import lint_imports_command; lint_imports_command()"
	python -m mypy
	python workflow/lib/howmanygpus_tools/lint_rules.py

site: $(WEBSITE)/installed
	PYTHONPATH=workflow/lib $(VENV)/bin/python -m howmanygpus_tools.stage_site
	$(WEBSITE)/bin/zensical build --strict --clean --config-file mkdocs.yml

locks: $(INSTALLED)
	PYTHONPATH=workflow/lib $(VENV)/bin/python -m howmanygpus_tools.lock

update: $(INSTALLED)
	PYTHONPATH=workflow/lib $(VENV)/bin/python -m howmanygpus_tools.lock --update

references: $(TESTABLE)
	PYTHONPATH=workflow/lib $(VENV)/bin/python -m howmanygpus_tools.references
	PYTHONPATH=workflow/lib:tests/sandbox:tests $(VENV)/bin/python -m gate.document

wheelhouse: $(INSTALLED)
	PYTHONPATH=workflow/lib $(VENV)/bin/python -m howmanygpus_tools.wheelhouse.fill --folder "$(or $(WHEELS),wheels)" \
		$(if $(FOR_PYTHON),--python "$(FOR_PYTHON)") $(if $(FOR_PLATFORM),--platform "$(FOR_PLATFORM)") \
		--site-has $(SITE_HAS)

# With WHEELS, nothing is fetched. pip itself may come from the folder, because a system's Python may have none. Make and
# pip split names at spaces, so that the shell completes the path and pip gets an address.
ifneq ($(WHEELS),)
WHEELS_FOLDER := $(shell realpath -m -- "$(WHEELS)")
check-gpu: export PIP_NO_INDEX := 1
check-gpu: export PIP_FIND_LINKS := $(shell $(PYTHON) -c 'import pathlib, sys; print(pathlib.Path(sys.argv[1]).as_uri())' "$(WHEELS_FOLDER)")
endif
check-gpu: $(if $(WHEELS),$(VENV)/bin/snakemake,$(INSTALLED))
	PYTHONPATH=workflow/lib $(VENV)/bin/python -m howmanygpus_tools.check_gpu --site $(SITE) --device "$(DEVICE)" \
		--wheels $(if $(WHEELS),"$(WHEELS_FOLDER)") --minutes "$(MINUTES)" \
		$(if $(FRAMEWORKS),--frameworks $(FRAMEWORKS)) $(if $(STEPS),--steps $(STEPS)) $(if $(WAYS),--ways $(WAYS))

$(VENV)/bin/snakemake:
	$(CHECK_PYTHON)
	@mkdir -p "$(CACHE)/environments"
	PYTHONPATH="workflow/lib:$$(ls "$(WHEELS)"/pip-*.whl 2>/dev/null | head -n 1)" flock "$(CACHE)/environments/workflow.lock" \
		$(PYTHON) -m howmanygpus_tools.wheelhouse.install --wheels "$(WHEELS)" --link $(VENV)

compare: $(INSTALLED)
	@PYTHONPATH=workflow/lib $(VENV)/bin/python -m howmanygpus_tools.compare "$(A)" "$(B)" \
		$(if $(STUDY),--study "$(STUDY)") $(if $(FAIL_BELOW),--fail-below "$(FAIL_BELOW)") $(if $(RENAME),--rename $(RENAME))

gallery: $(INSTALLED)
	@PYTHONPATH=workflow/lib $(VENV)/bin/python -m howmanygpus_tools.gallery

export: $(INSTALLED)
	@PYTHONPATH=workflow/lib $(VENV)/bin/python -m howmanygpus_tools.export --to "$(TO)" \
		$(if $(RESULTS),--results "$(RESULTS)") $(if $(STUDY),--study "$(STUDY)")

draft-machine: $(INSTALLED)
	@PYTHONPATH=workflow/lib $(VENV)/bin/python -m howmanygpus_tools.draft_machine \
		$(if $(PROFILE),--profile "$(PROFILE)") $(if $(OVERWRITE),--overwrite)

adopt:
	$(CHECK_PYTHON)
	@PYTHONPATH=workflow/lib $(PYTHON) -m howmanygpus_tools.adopt --source "$$FROM"

# flock(1) takes the lock, so that two calls at once build one environment: nothing is installed yet that could lock.
$(INSTALLED): envs/workflow.txt envs/locks/workflow.txt
	$(CHECK_PYTHON)
	@mkdir -p "$(CACHE)/environments"
	PYTHONPATH=workflow/lib flock "$(CACHE)/environments/workflow.lock" \
		$(PYTHON) workflow/scripts/build_environment.py --name workflow --pins $^ --link $(VENV)
	@# In a cache that others maintain, the file is there and cannot be touched.
	@touch $@ 2>/dev/null || [ -e $@ ]

$(WEBSITE)/installed: envs/site.txt envs/locks/site.txt $(INSTALLED)
	@mkdir -p "$(CACHE)/environments"
	PYTHONPATH=workflow/lib flock "$(CACHE)/environments/site.lock" \
		$(VENV)/bin/python workflow/scripts/build_environment.py --name site --pins envs/site.txt envs/locks/site.txt --link $(WEBSITE)
	@touch $@

# The lock keeps two calls at once from installing into one environment.
$(TESTABLE): envs/development.txt $(INSTALLED)
	PYTHONPATH=workflow/lib flock "$(CACHE)/environments/workflow.lock" "$$(realpath $(VENV))"/bin/python -c \
		"import sys; from howmanygpus.site.environments.uv import install_packages; install_packages(sys.executable, sys.argv[1:])" \
		--requirement envs/workflow.txt --requirement $< --constraint envs/locks/workflow.txt
	@touch $@

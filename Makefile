# `make` lists the targets. Everything uses one profile, so that HiGHS is compiled once.
.DEFAULT_GOAL := help
.PHONY: help setup build demo test check quick test-random fuzz lint bench bench-ablation bench-assembly-lines bench-branching bench-guard bench-joint bench-law bench-separate bench-virtual-stages bench-two-builds bench-online study-duan-wu study-bi-partition study-modes study-hybrid-online study-measured study-runs study-layouts study-schedules study-serving study-what-ships docs regions schema test-python wheel test-wheel python-options bench-python \
	profiles instances literature models optima test-study test-html test-slurm bench-study study-heuristics clean

BIN := target/release/stagecut

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-18s %s\n", $$1, $$2}'

setup: ## Find or fetch what compiles HiGHS (cmake, libclang), inside the checkout
	@scripts/setup

build: setup ## Build target/release/stagecut
	cargo build --release --locked

demo: build ## Find and prove the best plan of GoogLeNet in 4 stages
	$(BIN) solve instances/googlenet.onnx --stages 4

test: setup ## Run every test
	cargo test --release --locked

# Dependencies are those of every build; this crate alone is compiled anew in parts, and without optimisation.
QUICK := --release --locked --config 'profile.release.package.stagecut.opt-level=0' --config profile.release.incremental=true

check: setup ## Compile everything as far as errors and warnings go
	cargo check $(QUICK) --all-targets

quick: setup ## Tests of a room in a build that is not optimised, T="heuristics rebalance::"
	cargo test $(QUICK) --test $(T)

test-random: setup ## Hold 100,000 random problems against brute force, RANDOM_PROBLEMS of them from RANDOM_FIRST_SEED; half an hour
	RANDOM_PROBLEMS=$${RANDOM_PROBLEMS:-100000} cargo test --release --locked --test exact random:: -- --nocapture

FUZZ_SECONDS ?= 60
FUZZ_FROM ?= $(shell date +%s)000
fuzz: setup ## Mutated inputs of every format, FUZZ_SECONDS each or FUZZ_INPUTS of them; FUZZ_FORMATS names some, FUZZ_FROM repeats a run
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_FROM=$(FUZZ_FROM) cargo test --release --locked --test fuzz -- --nocapture mutated

test-python: build wheel ## Test the PyTorch and ONNX tools and exports; fetches about 4 GB into the user's cache once
	PYTHONPATH="$(CURDIR)/target/wheels/unpacked" "$$(scripts/python-env)" -W ignore -m unittest discover --start-directory tests/python

wheel: setup ## Build the Python wheel: target/wheels
	@scripts/wheel

test-wheel: wheel ## Install the wheel into an empty environment and test it there, the notebook of examples/ among it
	scripts/test-wheel

python-options: ## Write the options of the Python package's stubs, once `make wheel` knows them
	PYTHONPATH=target/wheels/unpacked python3 scripts/python-options

bench-python: wheel ## Time what a solve from Python costs beyond the library call; writes benches/PYTHON.md
	benches/python

test-study: build ## Check a report with numpy and scipy, and a study on Dask with a worker killed
	scripts/test-study

test-html: build ## Check the numbers of a study's report, and open it in headless Chromium
	scripts/test-html

test-slurm: build ## Run a study as a Slurm job array on this machine
	scripts/test-slurm

lint: setup ## Check format, warnings and docs
	cargo fmt --all --check
	cargo clippy --release --locked --all-targets -- --deny warnings
	cargo clippy --release --locked --no-default-features --features onnx --lib -- --deny warnings
	cargo clippy --release --locked --package stagecut-python -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' cargo doc --release --locked --no-deps

bench: build ## Time the exact engine against its peers, side by side; writes benches/RESULTS.md
	benches/peers

bench-guard: build ## Name problems that take more than twice as long as in benches/GUARD.md, a minute or three; GUARD=--write writes it anew
	benches/guard $(GUARD)

bench-separate: build ## Time plans with separate cuts on measured profiles; writes benches/SEPARATE.md
	benches/separate

bench-joint: build ## Time joint plans of mixed devices against the plain program; writes benches/JOINT.md
	benches/joint

bench-two-builds: build ## Time another build (BEFORE=its program) and this one side by side, on the problems of the benchmarks; half an hour
	benches/two-builds $(BEFORE)

bench-ablation: build ## Measure what each part of the exact engine is worth, two hours; ABLATION=--quick takes ten minutes; appends to benches/ABLATION.md
	benches/ablation $(ABLATION)

bench-law: build ## Hold the portfolio against the best of its parts; LAW='--every 1' takes three times as long; writes benches/LAW.md
	benches/law $(LAW)

bench-assembly-lines: build ## Prove lines from the literature, beside CP-SAT; ASSEMBLY_LINES='--every 1 --limit 10,60' takes hours; writes benches/ASSEMBLY-LINES.md
	benches/assembly-lines $(ASSEMBLY_LINES)

bench-branching: build ## Hold plans and proofs of branching networks beside CP-SAT; BRANCHING='--every 1' takes an hour or two; writes benches/BRANCHING.md
	benches/branching $(BRANCHING)

bench-virtual-stages: build ## Prove plans with virtual stages; VIRTUAL_STAGES='--before PROGRAM' compares; writes benches/VIRTUAL-STAGES.md
	benches/virtual-stages $(VIRTUAL_STAGES)

bench-online: setup ## Time a slot of hybrid parallelism; writes benches/ONLINE.md
	cargo bench --locked --bench online

bench-study: build ## Time what a study adds to its methods; writes benches/STUDY.md
	benches/study-overhead

study-heuristics: build ## How good every heuristic is; writes studies/heuristic-quality
	studies/heuristic-quality/run

study-duan-wu: build ## Shares and groups by rule, heuristic and optimum; writes studies/duan-wu
	studies/duan-wu/run

study-hybrid-online: build ## Online policies against baselines and bounds, the trade-off of V; writes studies/hybrid-online
	studies/hybrid-online/run

study-modes: build ## What choosing cut, degrees and recomputation together gains; writes studies/modes
	studies/modes/run
	studies/modes/rules
	studies/modes/regions

study-what-ships: build ## What frameworks do unless told otherwise against the optimum; writes studies/what-ships
	studies/what-ships/run

study-serving: build ## What uneven splits gain over those of servers, in tokens and time; writes studies/serving
	studies/serving/run

study-layouts: build ## Published layouts of Megatron against the best of the same degrees; writes studies/layouts
	studies/layouts/run

study-schedules: build ## Published schedules against the best order, and cut and order together; writes studies/schedules
	studies/schedules/run

study-measured: build ## Predicted against measured iterations and memory; writes studies/measured
	studies/measured/run

study-runs: build ## Predicted against measured iterations of plans that run here, on two processes; writes studies/runs
	"$$(scripts/python-env)" studies/runs/run

study-bi-partition: build ## Separate cuts against tied ones and PipeDream on measured profiles; writes studies/bi-partition
	studies/bi-partition/run

docs: setup ## Build the documentation: target/doc/stagecut/index.html
	cargo doc --release --locked --no-deps

profiles: ## Measure the library of instances again, on this CPU; writes instances/measured
	tools/profile_library

schema: build ## Write the JSON Schemas of native instances, of plans and of scenarios
	$(BIN) schema > instances/schema.json
	$(BIN) schema plan > instances/plans/schema.json
	$(BIN) schema scenario > instances/online/schema.json

instances: setup ## Write the tables of instances/README.md from the files
	WRITE_TABLES=1 cargo test --release --locked --test house library::

regions: setup ## Write the table of docs/frameworks.md from the code
	WRITE_TABLES=1 cargo test --release --locked --test house regions::

models: setup ## Write the tables of docs/models.md from the code
	WRITE_TABLES=1 cargo test --release --locked --test house models::

literature: setup ## Write the list of docs/literature.md from references.bib
	WRITE_TABLES=1 cargo test --release --locked --test house literature::

optima: build ## Prove the optima of instances that have none yet; writes instances/optima.csv
	scripts/optima

clean: ## Remove everything that was built or fetched
	rm -rf target .tools

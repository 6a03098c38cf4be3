# The commands of this project. `make` without a goal lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# The functions' processor: x86_64, or arm64 for Graviton. It never defaults to this machine's.
ARCH ?= x86_64
TRIPLE = $(if $(filter arm64,$(ARCH)),aarch64,$(ARCH))-unknown-linux-gnu
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# A build for a different system than this machine is linked by zig against Lambda's glibc; ZIG=1 always uses zig.
# The output folders are separate, so the SDK is compiled once for each.
ZIG ?= $(if $(filter $(HOST),$(TRIPLE)),,1)
CARGO = cargo $(if $(ZIG),zigbuild --target $(TRIPLE).2.34,build)
BUILT = $${CARGO_TARGET_DIR:-target}$(if $(ZIG),/$(TRIPLE))

# The deployed crates: only the functions.
FUNCTIONS := -p muster-scale-up -p muster-reaper -p muster-runner-api -p muster-admin -p muster-webhook
FUNCTIONS_BUILD := --release --locked $(FUNCTIONS)
# Two of them are built a second time, optimised as a whole (Cargo.toml): one at a time, so that features are not unified.
WEBHOOK_BUILD := --profile fast --package muster-webhook --locked
RUNNER_API_BUILD := --profile fast --package muster-runner-api --locked
# Every crate that needs no SDK. Always select them together: with a different selection cargo recompiles serde and tokio.
CORE := -p muster-domain -p muster-api -p muster-control -p muster-cloud -p muster-world -p muster-sim -p muster-explore
# Virtual environments of the local stack: emulator (with the SAM translator) and SAM CLI.
PYTHON := .local/ministack/bin/python
SAM := SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 .local/sam/bin/sam

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: demo
demo: ## Show a job from webhook to deleted machine on the local stack; stops the stack if it started it
	@was=$$(test -e .local/stack.env && echo up || true); $(MAKE) up; \
	  code=0; $${CARGO_TARGET_DIR:-target}/local/muster-demo || code=$$?; \
	  test -n "$$was" || tests/local/down; exit $$code

.PHONY: test
test: python ## Set up and run every test
	@tests/run

.PHONY: test-fast
test-fast: ## Test the rules, the passes and the simulated world: the daily loop, without SDK or emulator
	cargo test $(CORE)

.PHONY: core
core:
	@echo $(CORE)

.PHONY: simulate
simulate: ## Simulate SEEDS days of the cloud, from seed FROM on; report and shrink the first that breaks a rule
	cargo run --profile fast --package muster-sim --bin simulate -- --seeds $(or $(SEEDS),20000) --from $(or $(FROM),0)

.PHONY: mutants
mutants: python ## Plant known bugs in a copy of the rules; the test that each entry names must find it
	tests/sim/mutants

.PHONY: soak
soak: python ## Run the long checks: SEEDS days compared with the commit BASE, planted bugs, more stories and worlds; writes one page
	tests/soak --seeds $(or $(SEEDS),20000) --base $(or $(BASE),HEAD^)

.PHONY: workflows
workflows: ## Run everyday workflows on a machine's root file system (ROOT=folder, else a new Debian 12); needs root and Debian's packages
	tests/machine/workflows $(ROOT)

.PHONY: browser
browser: python ## Test the pages of `muster ui` in a browser: needs Debian's chromium, or CHROMIUM=PATH; SCREENSHOTS=FOLDER keeps pictures
	cargo build --profile local --package muster-cli
	test -x .local/browser/bin/python || python3 -m venv .local/browser
	.local/browser/bin/pip install --quiet --requirement tests/browser/requirements.txt
	.local/browser/bin/python -m unittest discover --start-directory tests/browser

.PHONY: bench
bench: ## Measure the functions as Lambda runs them; on a quiet machine
	cargo build $(FUNCTIONS_BUILD) -p muster-bench
	cargo build $(WEBHOOK_BUILD)
	cargo build $(RUNNER_API_BUILD)
	target/release/muster-bench bench.json

.PHONY: test-template
test-template: install ## Run sam validate, cfn-lint, and the checks in tests/template
	$(SAM) validate --lint --template-file template.yaml
	$(SAM) validate --lint --template-file infra/machine.yaml
	$(PYTHON) -m unittest discover --start-directory tests/template

.PHONY: test-e2e
test-e2e: up ## Test the real template and the real functions on the local stack
	cargo build --profile local --package muster-cli
	cargo test --profile local --test stack

.PHONY: install
install: python ## Create the virtual environments of the local stack (.local/)
	@tests/local/install

.PHONY: python
python:
	@command -v python3 >/dev/null || { echo "python3 is not installed: 3.11 or newer is needed"; exit 1; }

.PHONY: up
up: python ## Start the local stack; its addresses are written to .local/stack.env
	@tests/local/up

.PHONY: down
down: python ## Stop the local stack
	@tests/local/down

.PHONY: build
build: export MUSTER_RELEASE = $(shell infra/version)
build: ## Build the functions into dist/ for `sam deploy` (ARCH=arm64 for Graviton)
	$(if $(filter x86_64 arm64,$(ARCH)),,$(error ARCH=$(ARCH): Lambda has x86_64 and arm64))
	$(if $(ZIG),infra/cross $(TRIPLE))
	$(CARGO) $(FUNCTIONS_BUILD)
	$(CARGO) $(WEBHOOK_BUILD)
	$(CARGO) $(RUNNER_API_BUILD)
	infra/assemble $(BUILT) $(ARCH)

.PHONY: package
package: export MUSTER_RELEASE = $(shell infra/version)
package: build ## Pack a release into dist/package/: the deployed files, and the operator's command
	infra/package stack
	cargo build --release --package muster-cli --locked
	infra/package cli

.PHONY: smoke
smoke: python ## Deploy the package to the local stack from an empty folder, without cargo, and serve a job there
	cargo build --profile local --package muster-world --package muster-e2e
	tests/smoke dist/package/muster-$$(infra/version)-$(ARCH).tar.gz $${CARGO_TARGET_DIR:-target}/local

.PHONY: template
template: ## Pack infra/boot.sh and infra/machine into the machines' templates; generate the dashboard's body
	infra/sync-boot
	infra/dashboard

.PHONY: lint
lint: ## Check formatting and clippy, and run shellcheck if it is installed
	cargo fmt --all --check
	.ci/clippy
	@if command -v shellcheck >/dev/null; then shellcheck infra/*.sh infra/machine/*.sh infra/image/*.sh; else echo "shellcheck is not installed: skipped"; fi

.PHONY: fmt
fmt: ## Format the code
	cargo fmt --all

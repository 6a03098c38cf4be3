# The commands of this project. `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Of the functions: x86_64, or arm64 for Graviton. Never what this machine happens to be.
ARCH ?= x86_64
TRIPLE = $(if $(filter arm64,$(ARCH)),aarch64,$(ARCH))-unknown-linux-gnu
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# Where something else is built than for this machine, zig links it, against Lambda's glibc; ZIG=1 has it do so here as well.
# In a folder of its own: the SDK is compiled once for each.
ZIG ?= $(if $(filter $(HOST),$(TRIPLE)),,1)
CARGO = cargo $(if $(ZIG),zigbuild --target $(TRIPLE).2.34,build)
BUILT = $${CARGO_TARGET_DIR:-target}$(if $(ZIG),/$(TRIPLE))

# What is deployed: the functions and nothing else.
FUNCTIONS := -p muster-scale-up -p muster-reaper -p muster-runner-api -p muster-admin -p muster-webhook
FUNCTIONS_BUILD := --release --locked $(FUNCTIONS)
# And the webhook once more, optimised as a whole (Cargo.toml).
WEBHOOK_BUILD := --profile fast --package muster-webhook --locked
# Everything that needs no SDK. Always these together: with another selection cargo compiles serde and tokio anew.
CORE := -p muster-domain -p muster-control -p muster-cloud -p muster-world -p muster-sim -p muster-explore
# Virtual environments of the local stack: emulator (with the SAM translator) and SAM CLI.
PYTHON := .local/ministack/bin/python
SAM := SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 .local/sam/bin/sam

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: demo
demo: ## Show a job from webhook to deleted machine, on the local stack; stops what it started
	@was=$$(test -e .local/stack.env && echo up || true); $(MAKE) up; \
	  code=0; $${CARGO_TARGET_DIR:-target}/local/muster-demo || code=$$?; \
	  test -n "$$was" || tests/local/down; exit $$code

.PHONY: test
test: python ## Set up and run every test
	@tests/run

.PHONY: test-fast
test-fast: ## The daily loop: rules, passes and the simulated world; no SDK, no emulator
	cargo test $(CORE)

.PHONY: core
core:
	@echo $(CORE)

.PHONY: simulate
simulate: ## SEEDS days of the simulated cloud, from seed FROM on; the first that breaks a rule is told and shrunk
	cargo run --profile fast --package muster-sim --bin simulate -- --seeds $(or $(SEEDS),20000) --from $(or $(FROM),0)

.PHONY: mutants
mutants: python ## Plant known bugs in a copy of the rules; each must be found where its entry says
	tests/sim/mutants

.PHONY: soak
soak: python ## What takes long: SEEDS days beside the commit BASE, planted bugs, more stories and worlds; one page
	tests/soak --seeds $(or $(SEEDS),20000) --base $(or $(BASE),HEAD^)

.PHONY: workflows
workflows: ## Everyday workflows on a machine's root (ROOT=folder, else Debian 12 is made); root, Debian's packages
	tests/machine/workflows $(ROOT)

.PHONY: browser
browser: python ## The pages of `muster ui` in a browser: needs Debian's chromium, or CHROMIUM=PATH; SCREENSHOTS=FOLDER keeps pictures
	cargo build --profile local --package muster-cli
	test -x .local/browser/bin/python || python3 -m venv .local/browser
	.local/browser/bin/pip install --quiet --requirement tests/browser/requirements.txt
	.local/browser/bin/python -m unittest discover --start-directory tests/browser

.PHONY: bench
bench: ## Measure the functions as Lambda would run them; on a quiet machine
	cargo build $(FUNCTIONS_BUILD) -p muster-bench
	cargo build $(WEBHOOK_BUILD)
	target/release/muster-bench bench.json

.PHONY: test-template
test-template: install ## sam validate, cfn-lint, and the checks in tests/template
	$(SAM) validate --lint --template-file template.yaml
	$(SAM) validate --lint --template-file infra/machine.yaml
	$(SAM) validate --lint --template-file infra/image.yaml
	$(PYTHON) -m unittest discover --start-directory tests/template

.PHONY: test-e2e
test-e2e: up ## The real template and the real functions on the local stack
	cargo build --profile local --package muster-cli
	cargo test --profile local --test stack

.PHONY: install
install: python ## Make the virtual environments of the local stack (.local/)
	@tests/local/install

.PHONY: python
python:
	@command -v python3 >/dev/null || { echo "python3 is not installed: 3.11 or newer is needed"; exit 1; }

.PHONY: up
up: python ## Bring the local stack up; its addresses land in .local/stack.env
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
	infra/assemble $(BUILT) $(ARCH)

.PHONY: package
package: export MUSTER_RELEASE = $(shell infra/version)
package: build ## Pack a release into dist/package/: what is deployed, and the operator's command
	infra/package stack
	cargo build --release --package muster-cli --locked
	infra/package cli

.PHONY: smoke
smoke: python ## Deploy the package to the local stack from an empty folder, without cargo, and serve a job there
	cargo build --profile local --package muster-world --package muster-e2e
	tests/smoke dist/package/muster-$$(infra/version)-$(ARCH).tar.gz $${CARGO_TARGET_DIR:-target}/local

.PHONY: template
template: ## Pack infra/boot.sh and infra/machine into the templates of machines and images; make the dashboard's body
	infra/sync-boot
	infra/dashboard

.PHONY: lint
lint: ## Formatting, clippy, shellcheck if there is one
	cargo fmt --all --check
	.ci/clippy
	@if command -v shellcheck >/dev/null; then shellcheck infra/*.sh infra/machine/*.sh; else echo "shellcheck is not installed: skipped"; fi

.PHONY: fmt
fmt: ## Format the code
	cargo fmt --all

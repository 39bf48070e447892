# What can be done here. Each recipe sources tools/env, which finds a cargo that is new enough.

.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
ENV := . tools/env && find_rust
# The same profile for tests and lints: what both need is compiled once.
CI := --workspace --locked --profile ci

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## three hosts join a network and talk directly; HOLD=1 leaves it running (needs root)
	@tools/preflight demo
	@tools/setup demo
	@$(ENV) && say 'building taut and taut-coordinator for release' && cargo build --release --locked -p taut -p taut-coordinator
	@$(ENV) && say 'running the demo' && exec python3 -m lab.demo

.PHONY: test
test: ## everything that CI runs, fast things first (root for the tests of kernel and network)
	@tools/preflight test
	@tools/setup test
	@$(MAKE) --no-print-directory arrows format test-rust clippy doc deny bench-micro test-lab

.PHONY: build
build: ## both programs, optimised, into target/release
	@tools/setup build
	@$(ENV) && say 'building for release' && cargo build --release --locked -p taut -p taut-coordinator

.PHONY: check
check: arrows format clippy doc deny ## all that is not a test: arrows, formatting, lints, documentation, licences

.PHONY: faults
faults: ## every fault of docs/spec/faults.md with its tests, or open; ARGS=--open, ARGS=--json
	@tools/faults.py $(ARGS)

.PHONY: arrows
arrows: ## who depends on whom, what is named where; whether documents, comments and names of tests lead somewhere
	@. tools/env && say 'arrows and links of the house' && python3 tools/test_arrows.py --quiet && tools/arrows.py && tools/links.py \
	    && python3 tools/test_faults.py --quiet && tools/faults.py --check && python3 tools/test_micro.py --quiet

.PHONY: format
format: ## rustfmt --check
	@$(ENV) && if has_lints; then say 'formatting' && cargo fmt --all --check; else say "formatting skipped: needs rustfmt of Rust $$RUST_LINTS"; fi

.PHONY: clippy
clippy: ## lints, warnings are errors
	@$(ENV) && if has_lints; then say 'lints' && cargo clippy $(CI) --all-targets -- -D warnings; else say "lints skipped: needs clippy of Rust $$RUST_LINTS"; fi

.PHONY: doc
doc: ## documentation with private items, warnings are errors; target/doc
	@$(ENV) && if has_lints; then say 'documentation' && RUSTDOCFLAGS='-D warnings' cargo doc $(CI) --no-deps --document-private-items; \
	    else say "documentation skipped: needs Rust $$RUST_LINTS"; fi

.PHONY: deny
deny: ## bans, licences, sources (needs cargo-deny; CI_DENY=1 installs it, which takes minutes)
	@$(ENV) && if [ -n "$${CI_DENY:-}" ] && ! cargo deny --version >/dev/null 2>&1; then \
	    say 'installing cargo-deny' && CARGO_TARGET_DIR=target/tools cargo install --locked cargo-deny --version 0.20.2; fi; \
	    if cargo deny --version >/dev/null 2>&1; then say 'bans, licences, sources' && cargo deny --workspace check bans licenses sources; \
	    else say 'bans, licences, sources skipped: needs cargo-deny (CI_DENY=1 installs it)'; fi

.PHONY: test-rust
test-rust: ## unit, property, kernel and simulator tests
	@$(ENV) && say 'compiling and running the Rust tests (a few minutes the first time)' && cargo test $(CI)

.PHONY: test-lab
test-lab: ## end-to-end tests in network namespaces; ARGS='-k join' chooses (needs root)
	@tools/peers
	@$(ENV) && say 'building the programs for the lab' && cargo build --locked --profile ci -p taut -p taut-coordinator -p taut-floor \
	    && cargo build --locked --profile ci -p taut-sim --example hammer --example flood
	@. tools/env && say 'end-to-end tests in the lab' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci "$$(python_for_tests)" -m pytest lab $(ARGS)

.PHONY: chaos
chaos: ## the coordinator killed 1,000 times in the middle of writing; KILLS=N for another number
	@$(ENV) && say 'killing coordinators' && TAUT_KILLS=$${KILLS:-1000} cargo test --locked --profile ci -p taut-coordinator --test kill -- --nocapture

.PHONY: fuzz
fuzz: ## searches for inputs that break a parser; TARGET=lane chooses, MINUTES=5 each
	@tools/setup fuzz
	@tools/fuzz "$(TARGET)" "$(or $(MINUTES),1)"

.PHONY: hammer
hammer: ## ten million malformed datagrams through a node's real socket; ARGS='--count N' (needs root)
	@tools/preflight test
	@$(ENV) && say 'building the programs and the hammer' && cargo build --locked --profile ci -p taut -p taut-coordinator \
	    && cargo build --locked --profile ci -p taut-sim --example hammer
	@. tools/env && say 'hammering' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.hammer $(ARGS)

.PHONY: api-fuzz
api-fuzz: ## requests made from the description of the coordinator's API, many; ARGS='--examples N' (needs root)
	@tools/preflight test
	@tools/setup api
	@$(ENV) && say 'building the programs' && cargo build --locked --profile ci -p taut -p taut-coordinator
	@. tools/env && say 'asking' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.api $(ARGS)

.PHONY: flood
flood: ## floods of handshakes against a node, and what honest peers notice; writes docs/flood.md; QUICK=1 a short look (needs root, iperf3)
	@tools/preflight test
	@$(ENV) && say 'building the programs and the flood' && cargo build --locked --profile ci -p taut -p taut-coordinator \
	    && cargo build --locked --profile ci -p taut-sim --example flood
	@. tools/env && say 'flooding' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.flood $(if $(QUICK),--quick,--document docs/flood.md) $(ARGS)

.PHONY: bench-micro
bench-micro: ## instructions (compared with tools/micro.json) and time of each part of a packet's way; ARGS=--write for a new baseline
	@$(ENV) && if command -v valgrind >/dev/null; then say 'building the parts of the way of a packet for release' \
	    && cargo build --release --locked -p taut-sim --example micro && say 'counting their instructions' \
	    && tools/micro.py $$CARGO_TARGET_DIR/release/examples/micro $(or $(ARGS),--check); \
	    else say 'instructions not counted: needs valgrind (apt-get install valgrind)'; fi

.PHONY: bench-aead
bench-aead: ## what the AEADs of the library that ships take, and those of another one
	@$(ENV) && say 'building both libraries for release' && cargo build --release --locked -p taut-sim --features aws-lc --example aead \
	    && say 'measuring; leave the machine alone' && $$CARGO_TARGET_DIR/release/examples/aead

.PHONY: bench-tunnel
bench-tunnel: peers ## Taut beside other tunnels; fills docs/performance.md; QUICK=1 takes ten minutes, else an hour and three quarters (needs root)
	@tools/preflight test
	@tools/setup bench
	@$(ENV) && say 'building for release' && cargo build --release --locked -p taut -p taut-coordinator -p taut-floor
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release \
	    python3 -m lab.bench.tunnel $(if $(QUICK),--quick) --document docs/performance.md $(ARGS)

.PHONY: peers
peers: ## installs the other WireGuard implementations that are compared with, into target/peers
	@tools/peers

.PHONY: interop
interop: peers ## our WireGuard beside others', through a real rekey; writes docs/interop.md (three minutes; needs root)
	@tools/setup test
	@$(ENV) && say 'building taut' && cargo build --locked --profile ci -p taut
	@. tools/env && say 'all pairs, through a rekey' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.interop --output docs/interop.md

.PHONY: soak-interop
soak-interop: peers ## our WireGuard beside others' with pauses, deaf windows counted; MINUTES=30; writes docs/soak.md (needs root)
	@tools/setup test
	@$(ENV) && say 'building taut' && cargo build --locked --profile ci -p taut
	@. tools/env && say 'a long talk with pauses' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.soak --minutes $(or $(MINUTES),30) \
	    --output docs/soak.md

.PHONY: soak
soak: ## three nodes in long use: flows, rekeys, restarts; memory, open files and silence are watched; MINUTES=60 (needs root)
	@tools/preflight test
	@$(ENV) && say 'building the programs' && cargo build --locked --profile ci -p taut -p taut-coordinator
	@. tools/env && say 'a network in long use' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.soak_tunnel --minutes $(or $(MINUTES),60)

.PHONY: clean
clean: ## removes what was built, and what crashed labs left behind
	@[ "$$(id -u)" != 0 ] || ! command -v ip >/dev/null || python3 -m lab clean
	rm -rf target

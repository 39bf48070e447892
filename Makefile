# The commands of this project. Each recipe sources tools/env, which finds a cargo that is new enough.

.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
ENV := . tools/env && find_rust
# Tests and lints use the same profile, so that build scripts run once for both.
CI := --workspace --locked --profile ci
# The lab's tests, run with the programs that the tests' profile builds.
LAB = . tools/env && say 'end-to-end tests in the lab' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci "$$(python_for_tests)" -m pytest lab
# The static programs of `make packages`.
STATIC := target/packages-root/build/target/x86_64-unknown-linux-musl/release
# The programs of the comparison: ours, the link emulator, and the QUIC load generator.
COMPARED := taut taut-coordinator taut-linkbox taut-load

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## starts four hosts, two behind NATs and two with jumbo frames, that join a network and find direct paths; HOLD=1 leaves it running (needs root, nft, iperf3)
	@tools/preflight demo
	@tools/setup demo
	@$(ENV) && say 'building taut and taut-coordinator for release' && build_release taut taut-coordinator
	@$(ENV) && say 'running the demo' && exec python3 -m lab.runs.demo

.PHONY: ha-demo
ha-demo: ## three coordinators on PostgreSQL behind HAProxy: kills a replica, the database, the balancer under load, and shows what nodes noticed; JSON=1, HOLD=1; ARGS='--document docs/high-availability.md' fills that page (needs root)
	@tools/preflight ha-demo
	@tools/setup ha-demo >&2
	@$(ENV) && say 'building taut, taut-coordinator and taut-relay for release' >&2 && build_release taut taut-coordinator taut-relay-server
	@$(ENV) && say 'running the demo of high availability' >&2 && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release exec python3 -m lab.runs.ha_demo $(if $(JSON),--json) $(ARGS)

.PHONY: test
test: ## every test except those of test-night, and all lints; what CI runs, 25 minutes on two cores (root for the tests of kernel and network)
	@tools/preflight test
	@tools/stages.py day $(STAGES)

.PHONY: test-fast
test-fast: ## unit tests, and the lab's tests that need no root: 3 minutes on two cores, after a build that takes longer the first time
	@tools/stages.py fast $(STAGES)

.PHONY: test-night
test-night: ## the tests that are too slow for each change: lab/tests/night.toml, thousands of seeds, fuzzing, earlier releases, other processors, advisories (hours; root)
	@tools/preflight test
	@tools/stages.py night $(STAGES)

.PHONY: build
build: ## taut, taut-userspace, taut-coordinator and taut-relay, optimised, into target/release
	@tools/setup build
	@$(ENV) && say 'building for release' && build_release taut taut-userspace taut-coordinator taut-relay-server

.PHONY: check
check: arrows format clippy doc deny ## all that is not a test: arrows, formatting, lints, documentation, licences

.PHONY: faults
faults: ## every fault of docs/spec/faults.md with its tests, or open; ARGS=--open, ARGS=--json
	@tools/faults.py $(ARGS)

.PHONY: arrows
arrows: ## checks which crate depends on which, and that names in documents, comments and tests exist
	@. tools/env && say 'arrows and links of the house' && tools/arrows.py && tools/links.py && tools/faults.py --check \
	    && for test in tools/test_*.py; do python3 "$$test" --quiet; done

.PHONY: format
format: ## rustfmt --check
	@$(ENV) && if has_lints; then say 'formatting' && cargo fmt --all --check; else say "formatting skipped: needs rustfmt of Rust $$RUST_LINTS"; fi

.PHONY: clippy
clippy: ## lints; warnings are errors
	@$(ENV) && if has_lints; then say 'lints' && cargo clippy $(CI) --all-targets -- -D warnings; else say "lints skipped: needs clippy of Rust $$RUST_LINTS"; fi

.PHONY: doc
doc: ## documentation with private items; warnings are errors; target/doc
	@$(ENV) && if has_lints; then say 'documentation' && RUSTDOCFLAGS='-D warnings' cargo doc $(CI) --no-deps --document-private-items; \
	    else say "documentation skipped: needs Rust $$RUST_LINTS"; fi

.PHONY: deny
deny: ## bans, licences, sources (needs cargo-deny, which `tools/setup night` installs)
	@$(ENV) && if cargo deny --version >/dev/null 2>&1; then say 'bans, licences, sources' && cargo deny --workspace check bans licenses sources; \
	    else say 'bans, licences, sources skipped: needs cargo-deny (tools/setup night)'; fi

.PHONY: test-rust
test-rust: run-rust run-doctests ## unit, property, kernel and simulator tests; TAUT_SEED=N repeats seeds, TAUT_THOROUGH=1 takes those of the night

.PHONY: test-lab
test-lab: ## all end-to-end tests in network namespaces, those of the night too; ARGS='-k join' chooses (needs root)
	@tools/peers --test
	@$(ENV) && say 'building the programs for the lab' && cargo build $(CI) --bins --examples
	@tools/releases
	@$(LAB) $(ARGS)

# The stages of tools/stages.py that are no commands of their own.
.PHONY: setup-test setup-night peers-day peers-night build-programs build-tests releases
setup-test setup-night:
	@tools/setup $(@:setup-%=%)
peers-day:
	@tools/peers --day
peers-night:
	@tools/peers --night
build-programs:
	@$(ENV) && say 'building programs and examples' && cargo build $(CI) --bins --examples
build-tests:
	@$(ENV) && say 'building programs, examples and tests' && cargo build $(CI) --lib --bins --examples --tests
releases:
	@tools/releases

.PHONY: run-rust run-rust-unit run-rust-night run-doctests
run-rust:
	@$(ENV) && say 'running the Rust tests' && tools/rust_tests.py
run-rust-unit:
	@$(ENV) && say 'running the unit tests' && tools/rust_tests.py --unit
run-rust-night:
	@$(ENV) && say 'running the Rust tests with the seeds of the night' && TAUT_THOROUGH=1 PROPTEST_CASES=5000 tools/rust_tests.py --night
	@$(ENV) && say 'running the conformance suite of AEADs with a second library' && cargo test --locked --profile ci -p taut-noise --features aws-lc aead
run-doctests:
	@$(ENV) && say 'running the examples in the documentation' && cargo test $(CI) --doc

# Workers of the lab: most tests wait for timers of the network, so several of them share a core.
WORKERS ?= 4
.PHONY: run-lab run-lab-alone run-lab-night run-lab-rootless
run-lab:
	@$(LAB) --part day $$(side_by_side $(WORKERS))
run-lab-alone:
	@$(LAB) --part alone
run-lab-night:
	@$(LAB) --part night
run-lab-rootless:
	@. tools/env && if python_for_tests >/dev/null; then $(LAB) --part day -m 'not root' $$(side_by_side 2); \
	    else say "the lab's tests skipped: need pytest 8 or newer for python3"; fi

.PHONY: advisories
advisories: ## known vulnerabilities of the libraries (needs cargo-deny and the network)
	@tools/night advisories

.PHONY: unused
unused: ## dependencies that no code uses (needs cargo-machete)
	@tools/night unused

.PHONY: minimum-rust
minimum-rust: ## builds with the oldest Rust that Cargo.toml promises
	@tools/night minimum-rust

.PHONY: chaos
chaos: ## the coordinator killed 1,000 times in the middle of writing, and 200 times with PostgreSQL; KILLS=N for other numbers
	@$(ENV) && say 'killing coordinators' && TAUT_KILLS=$${KILLS:-1000} cargo test --locked --profile ci -p taut-coordinator --test kill -- --nocapture
	@$(ENV) && say 'killing coordinators whose database is PostgreSQL' && TAUT_KILLS=$${KILLS:-200} \
	    tools/with_postgres cargo test --locked --profile ci -p taut-coordinator --test kill -- --nocapture

.PHONY: fuzz
fuzz: ## searches for inputs that break a parser; TARGET=lane chooses, MINUTES=5 each
	@tools/setup fuzz
	@tools/fuzz "$(TARGET)" "$(or $(MINUTES),1)"

.PHONY: hammer
hammer: ## ten million malformed datagrams through a node's real socket; ARGS='--count N' (needs root)
	@tools/preflight test
	@$(ENV) && say 'building the programs and the hammer' && cargo build --locked --profile ci -p taut -p taut-coordinator \
	    && cargo build --locked --profile ci -p taut-sim --example hammer
	@. tools/env && say 'hammering' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.runs.hammer $(ARGS)

.PHONY: api-fuzz
api-fuzz: ## sends many requests made from the description of the coordinator's API; ARGS='--examples N' (needs root)
	@tools/preflight test
	@tools/setup api
	@$(ENV) && say 'building the programs' && cargo build --locked --profile ci -p taut -p taut-coordinator
	@. tools/env && say 'asking' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.runs.api $(ARGS)

.PHONY: flood
flood: ## floods of handshakes against a node, and what honest peers notice; writes docs/flood.md; QUICK=1 a short look (needs root, iperf3)
	@tools/preflight test
	@$(ENV) && say 'building the programs and the flood' && cargo build --locked --profile ci -p taut -p taut-coordinator \
	    && cargo build --locked --profile ci -p taut-sim --example flood
	@. tools/env && say 'flooding' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.runs.flood $(if $(QUICK),--quick,--document docs/flood.md) $(ARGS)

.PHONY: hostile
hostile: ## measures the cost of a hostile member for other members; ARGS='--rounds 3' (minutes; needs root, iperf3)
	@tools/preflight test
	@$(ENV) && say 'building for release' && build_release taut taut-coordinator && cargo build --release --locked -p taut-sim --example member
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release python3 -m lab.runs.hostile $(ARGS)

.PHONY: bench-micro
bench-micro: ## instructions (compared with tools/micro.json) and time of each part of a packet's way; ARGS=--write for a new baseline
	@$(ENV) && if command -v valgrind >/dev/null; then say 'building the parts of the way of a packet for release' \
	    && cargo build --release --locked -p taut-sim --example micro && say 'counting their instructions' \
	    && tools/micro.py $$CARGO_TARGET_DIR/release/examples/micro $(or $(ARGS),--check); \
	    else say 'instructions not counted: needs valgrind (apt-get install valgrind)'; fi

.PHONY: bench-aead
bench-aead: ## times the AEADs of the library that ships and of another one
	@$(ENV) && say 'building both libraries for release' && cargo build --release --locked -p taut-sim --features aws-lc --example aead \
	    && say 'measuring; leave the machine alone' && $$CARGO_TARGET_DIR/release/examples/aead

.PHONY: bench-tunnel
bench-tunnel: peers ## Taut beside other tunnels; fills docs/performance.md; QUICK=1 takes eleven minutes, else an hour and three quarters (needs root)
	@tools/preflight test
	@tools/setup bench
	@$(ENV) && say 'building for release' && build_release taut taut-coordinator taut-floor
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release \
	    python3 -m lab.compare.tunnel.command $(if $(QUICK),--quick) --document docs/performance.md $(ARGS)

.PHONY: paths
paths: ## measures how soon paths exist, and what happens when they fail; fills docs/paths.md (a quarter of an hour; needs root, nft, iperf3)
	@tools/preflight test
	@$(ENV) && say 'building for release' && build_release taut taut-coordinator taut-relay-server taut-linkbox
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release \
	    python3 -m lab.runs.paths --document docs/paths.md $(ARGS)

.PHONY: mtu
mtu: ## measures how soon the MTU of a path is found, and what waits meanwhile; fills docs/mtu.md (half an hour; needs root, nft, iperf3); ARGS='--runs 5 --json'
	@tools/preflight test
	@$(ENV) && say 'building for release' && build_release taut taut-coordinator taut-relay-server
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release \
	    python3 -m lab.runs.mtu --document docs/mtu.md $(ARGS)

.PHONY: policy
policy: ## measures how soon a change of the policy acts, and what rules cost; fills docs/policy.md (half an hour; needs root, iperf3); ARGS='--runs 5 --json'
	@tools/preflight test
	@$(ENV) && say 'building for release' && build_release taut taut-coordinator taut-relay-server
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release \
	    python3 -m lab.runs.policy --document docs/policy.md $(ARGS)

.PHONY: names
names: ## measures how soon the stub answers for a peer's name, also while other servers are dead; fills docs/names.md (two minutes; needs root, nft); ARGS='--runs 5 --json'
	@tools/preflight test
	@$(ENV) && say 'building for release' && build_release taut taut-coordinator taut-relay-server
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release \
	    python3 -m lab.runs.names --document docs/names.md $(ARGS)

.PHONY: routes
routes: ## measures how soon another subnet router carries, what forwarding costs, and what a router leaves; fills docs/routes.md (a quarter of an hour; needs root, nft, iperf3); ARGS='--runs 5 --json'
	@tools/preflight test
	@$(ENV) && say 'building for release' && build_release taut taut-coordinator taut-relay-server
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release \
	    python3 -m lab.runs.routes --document docs/routes.md $(ARGS)

.PHONY: kill-switch
kill-switch: ## random schedules of faults under traffic of every kind, and how many packets left in the clear; ARGS='--schedules 200 --seed 1 --jobs 4 --json' (needs root, nft)
	@tools/preflight test
	@$(ENV) && say 'building for release' && build_release taut taut-coordinator taut-relay-server
	@. tools/env && say 'breaking what can break' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release python3 -m lab.runs.kill_switch $(ARGS)

.PHONY: hygiene
hygiene: ## everything that changes a host switched on and ended in each way, a hundred times: what is left; fills docs/exit.md (a quarter of an hour; needs root, nft); ARGS='--rounds 7 --json'
	@tools/preflight test
	@tools/resolvers || echo 'hygiene: going on without the resolvers that are missing'
	@$(ENV) && say 'building for release' && build_release taut taut-coordinator
	@. tools/env && say 'switching everything on and off' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release python3 -m lab.runs.hygiene --document docs/exit.md $(ARGS)

.PHONY: restarts
restarts: ## measures how long a node is away when its daemon is restarted or crashes, and how soon a daemon answers; fills docs/services.md (ten minutes; needs root); ARGS='--runs 20 --json'
	@tools/preflight test
	@$(ENV) && say 'building for release' && build_release taut taut-coordinator
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release \
	    python3 -m lab.runs.restarts --document docs/services.md $(ARGS)

.PHONY: footprint
footprint: ## measures the memory of the static node: idle, under load, with 1,000 peers; fills docs/footprint.md (five minutes after `make packages TARGETS=x86-64`; needs root); ARGS='--runs 3 --json', PROGRAMS=FOLDER for others
	@tools/preflight test
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$(abspath $(or $(PROGRAMS),$(STATIC))) \
	    python3 -m lab.runs.footprint --document docs/footprint.md $(ARGS)

.PHONY: builds
builds: ## whether the static program is as fast as the one with glibc, and what the sandbox costs; fills docs/footprint.md (ten minutes after `make packages TARGETS=x86-64`; needs root, iperf3); ARGS='--runs 5 --only static', PROGRAMS=FOLDER for other static programs
	@tools/preflight test
	@$(ENV) && say 'building the programs' && build_release taut taut-coordinator taut-relay-server
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_STATIC_DIR=$(abspath $(or $(PROGRAMS),$(STATIC))) \
	    python3 -m lab.runs.builds --document docs/footprint.md $(ARGS)

.PHONY: sizes
sizes: ## where the bytes of the static node go; fails if it grew by more than 2 % without a line in docs/footprint.md, whose table ARGS=--fill writes (ten minutes; needs root)
	@tools/setup packages
	@tools/sizes.py $(ARGS)

.PHONY: order
order: ## finds out which functions a node runs at rest, under load and at its start, and writes tools/shipping/order.txt, by which `make packages` puts them side by side (ten minutes; needs root, iperf3; x86-64)
	@tools/setup packages
	@tools/preflight test
	@$(ENV) && say 'building the programs' && build_release taut-coordinator taut-relay-server
	@tools/sizes.py --keep target/order/taut
	@. tools/env && say 'watching four nodes' && python3 -m lab.runs.order target/order/taut

.PHONY: units
units: ## the systemd units as systemd 257 sees them: understood, and confined as docs/services.md says; ARGS=--json (mmdebstrap, root; the network the first time)
	@tools/units $(ARGS)

.PHONY: policy-headscale
policy-headscale: ## Taut's compiler of policies beside headscale's under random ones, and beside captured answers of Tailscale's service; PAIRS=10000000; HEADSCALE_SRC=PATH where GitHub is out of reach (Go; ten minutes the first time)
	@tools/peers headscale
	@$(ENV) && sources=target/peers/headscale-$$(python3 -m lab.nodes.versions headscale) && test -x "$$sources/verdicts" \
	    && say 'building the comparison for release' && cargo build --release --locked -p taut-policy --example headscale \
	    && say "captured answers of Tailscale's service" \
	    && $$CARGO_TARGET_DIR/release/examples/headscale "$$sources/verdicts" "$$sources"/hscontrol/policy/v2/testdata/{acl,grant,routes,policytest}_results \
	    && say 'random policies' && $$CARGO_TARGET_DIR/release/examples/headscale "$$sources/verdicts" $(or $(PAIRS),10000000)

.PHONY: lanes
lanes: ## measures what lanes that open by load give and cost; fills docs/lanes.md (half an hour; needs root, nft, iperf3); ARGS='--runs 5 --json'
	@tools/preflight test
	@$(ENV) && say 'building for release' && build_release taut taut-coordinator taut-relay-server
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release \
	    python3 -m lab.runs.lanes --document docs/lanes.md $(ARGS)

.PHONY: paths-sim
paths-sim: ## the same in virtual time: the 99th of a hundred, a thousand seeded runs each; fills its half of docs/paths.md; RUNS=1000 (minutes)
	@$(ENV) && say 'building the simulator' && cargo build --profile ci --locked -p taut-sim --example paths
	@. tools/env && say 'in virtual time' && mkdir -p target/lab \
	    && { $$CARGO_TARGET_DIR/ci/examples/paths $(or $(RUNS),1000) > target/lab/paths-sim.json; reached=$$?; } \
	    ; python3 -m lab.runs.paths_table target/lab/paths-sim.json --document docs/paths.md && exit $$reached

.PHONY: bench-link
bench-link: ## how many packets a second the link emulator takes on one core; fills docs/linkbox.md (a minute; needs root and two cores)
	@tools/preflight test
	@$(ENV) && say 'building linkbox for release' && cargo build --release --locked -p taut-linkbox --bin linkbox --example pour
	@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release \
	    python3 -m lab.runs.linkspeed --document docs/linkbox.md $(ARGS)

# $(1): options of `lab bench`. Without matplotlib the plots are left out, and the rest is measured.
define compare
@tools/preflight test
@tools/setup bench
@tools/setup report || echo 'bench: going on without plots'
@$(ENV) && say 'building for release' && build_release $(COMPARED)
@. tools/env && say 'measuring; leave the machine alone' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/release exec python3 -m lab bench $(1) $(ARGS)
endef

.PHONY: bench
bench: peers ## every system on four links, every kind of work once: at most 20 minutes; ends in target/bench/report.html; ARGS=--resume goes on (needs root)
	$(call compare,--quick)

.PHONY: bench-full
bench-full: peers ## every system, every link, all work, five rounds: forty hours; ARGS='--minutes 60 --resume' makes it several sittings (needs root)
	$(call compare,)

.PHONY: peers
peers: ## installs the other systems that are compared with, into target/peers (a quarter of an hour the first time); PEER=nebula only one
	@tools/peers $(PEER)

.PHONY: interop
interop: ## our WireGuard beside others', through a real rekey; writes docs/interop.md (three minutes; needs root)
	@tools/setup test
	@tools/peers --wireguard
	@$(ENV) && say 'building taut' && cargo build --locked --profile ci -p taut
	@. tools/env && say 'all pairs, through a rekey' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.runs.interop --output docs/interop.md

# KERNELS and PARTS, separated by commas, choose; all of them without.
.PHONY: kernels
kernels: ## boots Debian's kernels 5.10 and 6.1 in virtual machines: tests of the kernel, a network, tests of the lab, the kernel's own WireGuard and netem; KERNELS=6.1 PARTS=network ARGS='--json --document' (40 minutes for each without KVM; needs root)
	@tools/preflight test >&2
	@tools/setup kernels >&2
	@$(ENV) && say 'building the programs and the tests' >&2 && cargo build $(CI) --bins --examples && cargo test $(CI) --no-run --lib --tests
	@. tools/env && say 'booting' >&2 && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.runs.kernels.command \
	    $(if $(KERNELS),--kernels $(KERNELS)) $(if $(PARTS),--parts $(PARTS)) $(ARGS)

.PHONY: soak-interop
soak-interop: ## our WireGuard beside others' with pauses, deaf windows counted; MINUTES=30; writes docs/soak.md (needs root)
	@tools/setup test
	@tools/peers --wireguard
	@$(ENV) && say 'building taut' && cargo build --locked --profile ci -p taut
	@. tools/env && say 'a long talk with pauses' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.runs.soak_interop --minutes $(or $(MINUTES),30) \
	    --output docs/soak.md

.PHONY: soak
soak: ## three nodes in long use: flows, rekeys, restarts; memory, open files and silence are watched; MINUTES=60 (needs root)
	@tools/preflight test
	@$(ENV) && say 'building the programs' && cargo build --locked --profile ci -p taut -p taut-coordinator
	@. tools/env && say 'a network in long use' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.runs.soak --minutes $(or $(MINUTES),60)

.PHONY: nat-matrix
nat-matrix: ## real nodes behind every kind of NAT, pair by pair; fills its line of docs/paths.md; ARGS='--all', '--runs 20', '--pairs A:B' (ten minutes; needs root, nft)
	@tools/preflight test
	@$(ENV) && say 'building the programs' && cargo build --locked --profile ci -p taut -p taut-coordinator
	@. tools/env && say 'behind every kind of NAT' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci \
	    python3 -m lab.runs.nats.matrix --document docs/paths.md $(ARGS)

.PHONY: flap
flap: ## cables, routes, NATs, coordinator and relays go and come back at random: HOURS=2 in virtual time, MINUTES=10 in the lab; SEED=1 (needs root, nft)
	@tools/preflight test
	@$(ENV) && say 'building the simulator' && cargo build --profile ci --locked -p taut-sim --example flap
	@. tools/env && say 'in virtual time' && mkdir -p target/lab \
	    && $$CARGO_TARGET_DIR/ci/examples/flap $(or $(HOURS),2) 48 $(or $(SEED),1) > target/lab/flap-sim.json
	@$(ENV) && say 'building the programs' && cargo build --locked --profile ci -p taut -p taut-coordinator -p taut-relay-server
	@. tools/env && say 'in the lab' && TAUT_BIN_DIR=$$CARGO_TARGET_DIR/ci python3 -m lab.runs.flap --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1) $(ARGS)

# Processors of tools/shipping/targets.py, separated by commas; all of them without TARGETS.
PACKAGES = tools/packages.py $(if $(TARGETS),--targets $(TARGETS))
.PHONY: packages
packages: ## static programs, packages (deb, rpm, apk, Arch, ipk), images and checksums of HEAD, into target/packages; TARGETS=x86-64,mips (an hour for all; needs root)
	@tools/setup packages
	@$(PACKAGES) $(ARGS)

.PHONY: packages-twice
packages-twice: ## builds packages twice in different folders, and compares every byte (two hours for all; needs root)
	@tools/setup packages
	@$(PACKAGES) --twice

.PHONY: packages-previous
packages-previous: ## packages of the latest release for x86-64, which tests of upgrades install first (needs root)
	@tools/setup packages
	@version=$$(python3 -m lab.nodes.releases | tail -n 1) && tools/packages.py --targets x86-64 \
	    --commit "$$(python3 -m lab.nodes.releases "$$version")" --output "target/packages-$$version"

.PHONY: check-targets test-targets
check-targets: ## cargo check of node and relay for a 32-bit and a big-endian processor; TARGETS='armv7 mips' (root; the network the first time)
	@tools/night targets check $(TARGETS)
test-targets: ## the unit tests of core/ for these processors under qemu; TARGETS=armv7 (root; the network the first time)
	@tools/night targets test $(TARGETS)

.PHONY: ci-matrix
ci-matrix: ## lists ci/matrix.toml: processors, kernels, distributions, and what can run here; RUN=NAME, KIND or all-possible runs; ARGS=--json
	@tools/matrix.py $(if $(RUN),--run '$(RUN)') $(ARGS)

.PHONY: packages-run
packages-run: ## two nodes of each built program shake hands, under qemu where the processor is another (needs root)
	@tools/setup packages
	@$(PACKAGES) --run

.PHONY: clean
clean: ## removes all build results, and the remains of crashed labs
	@[ "$$(id -u)" != 0 ] || ! command -v ip >/dev/null || python3 -m lab clean
	rm -rf target

.PHONY: manuals
manuals: ## manual pages and completions for bash, zsh and fish, from the help of the programs, in target/manuals
	@$(ENV) && say 'building the programs' && build_release taut taut-coordinator taut-relay-server
	@. tools/env && tools/manuals.py "$$CARGO_TARGET_DIR/release" target/manuals

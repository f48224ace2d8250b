# The daily loop. `make` lists it.
#
#   make demo        gateway and a pretend ROCK on loopback, ready for an SDK
#   make demo-redis  the same with a real redis-server as registry
#   make test        everything: lint, unit tests with the race detector, the real SDKs
#   make bench       the gateway against Caddy, Go, nginx and HAProxy; writes docs/benchmarks.md (20 minutes)
#   make scale       16 gateways on one Redis: commands, bytes and processor time (1 minute)
#   make headline    53,000 commands from the real SDKs, 10,000 of them killed (7 to 10 minutes)
#   make rolling     gateways replaced behind HAProxy under 200 streams and 500 calls a second (3 minutes)
#   make soak        mixed traffic at half load with faults, and whether anything grows; writes docs/soak.md (33 minutes)
#   make chaos       1,000 seeds of faults in all kinds of worlds (15 minutes); ARGS='-seed 123' replays one
#   make rock        the gateway in front of the real ROCK from PyPI, with Ray (2 minutes, and 5 to install a gigabyte)
#   make models      the promises of the route cache and of the stream relay, in more histories than make test plays (minutes)
#   make conformance the Connect project's suite, with the gateway between its client and its server (10 minutes)
#   make release     bin/e2b-gateway with licences and digests, the same bytes wherever it is built
#   make supply      known vulnerabilities, licences, bill of materials, two builds compared (20 minutes)
#   make lint        gofmt, go vet, staticcheck
#   make fmt         rewrite to gofmt's taste
#
# ARGS is passed on: make demo ARGS='-tls -env-file demo.env'; make test ARGS='-run TestLife ./integration/sdk'.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# What is released is what is tested, so one Go does both, whatever the machine came with: one of which no vulnerability is
# known that the gateway can reach. The go command fetches it as it does a module. go.mod, README.md and the container file
# name it too, and a test compares them.
export GOTOOLCHAIN := go1.27.3

# As Caddy's own releases and xcaddy have it: without the databases that only Caddy's ACME server could use, and does not.
export GOFLAGS := -tags=nobadger,nomysql,nopgx

# Pinned here and not in go.mod, so that a linter never decides what version of x/tools the gateway is built with.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The whole of `make test` has 15 minutes on two cores; a package that hangs must leave time to print its stacks.
TEST_TIMEOUT := 12m

GO_FILES := find . -path ./.cache -prune -o -name '*.go' -print

.PHONY: help demo demo-redis test bench bench-deps scale headline rolling soak chaos rock rock-deps models conformance release sbom \
	vulnerabilities reproducible licences supply supply-deps deps suites lint format-check vet staticcheck fmt

help:
	@sed -n 's/^#   //p' Makefile

# exec, so that a signal for make reaches the demo and not a `go run` around it.
demo:
	go build -o .cache/e2b-demo ./cmd/e2b-demo
	exec .cache/e2b-demo $(ARGS)

demo-redis: deps
	go build -o .cache/e2b-demo ./cmd/e2b-demo
	exec .cache/e2b-demo -redis $(ARGS)

# Compilers and linters allocate much and do not live long: collecting garbage seldom saves a fifth of their time. What is
# tested keeps Go's default.
COMPILE := GOGC=400

# What is vetted and compiled by `make lint` is not again, and nobody debugs a binary of tests with a debugger: without its
# tables it is linked in two thirds of the time. There are some sixty.
#
# Four suites at a time, whatever the number of processors: they wait for most of their time, for deadlines, programs that they
# start and one another, and use half of a processor each.
GO_TEST := go test -race -vet=off -ldflags=-w -p 4

# Installing waits for the network and vetting for the compiler: side by side they cost little more than one of them.
# staticcheck takes what the suites leave of the processors.
test:
	$(MAKE) --no-print-directory -j2 --output-sync=target deps format-check vet
	$(MAKE) --no-print-directory -j2 suites staticcheck

# The suite that takes longest begins first, or it goes on alone when all others are done.
suites:
	$(GO_TEST) -timeout $(TEST_TIMEOUT) $(or $(ARGS),./integration/sdk ./...)

# One load, writing nothing: make bench ARGS='-bench Promises/unary -rounds 3'.
bench: bench-deps
	go test -timeout 1h -run '^$$' -bench Promises -benchtime 1x ./integration/bench -report $(CURDIR)/docs/benchmarks.md $(ARGS)

# The short form of it is part of `make test`. Prints the table of docs/scaling.md and leaves it there.
scale: deps
	go test -count=1 -timeout 10m -v ./integration/scale -sandboxes 2000 -sharing 5s -table $(CURDIR)/docs/scaling.md $(ARGS)

# The short form of it is part of `make test`. Prints the README's table and leaves it in docs/headline.md.
headline: deps
	go test -count=1 -timeout 2h -v ./integration/headline -commands 53000 -table $(CURDIR)/docs/headline.md $(ARGS)

# The short form of it is part of `make test`.
rolling: deps
	go test -count=1 -timeout 20m -v ./integration/rolling -streams 200 -rate 500 -rounds 3 $(ARGS)

# The short form of it is part of `make test`. With ARGS='-for 2m' the report is of 2 minutes, and says so.
soak: deps
	go test -count=1 -timeout 2h -v ./integration/soak -for 30m -warm-up 2m -burst 10s -sample 5s -fault 15s -streams 100 \
		-report $(CURDIR)/docs/soak.md $(ARGS)

# The short form of it is part of `make test`. Some worlds need a network namespace, which root may make, and who else the kernel lets.
chaos: deps
	@integration/tools/install.sh chaos
	go test -count=1 -timeout 1h -v ./integration/chaos -run TestWhateverHappensThePromisesHold -seeds 1000 $(ARGS)

# No part of it is in `make test`: what it needs is too large.
rock: rock-deps
	go test -count=1 -timeout 15m -v $(GOFLAGS),realrock ./integration/realrock $(ARGS)

# The short form of it is part of `make test`. A seed that breaks a promise is printed, with -rapid.seed.
models:
	go test -count=1 -timeout 1h -v -run Promises ./routing -depth 4 -rapid.checks 100000 $(ARGS)
	go test -count=1 -timeout 1h -v -run TheRelayKeepsItsPromises ./handlers -envelopes 2 -rapid.checks 20000 $(ARGS)

# The short form of it is part of `make test`. Prints the table and leaves it in .cache/conformance/figures.md.
conformance: deps
	go test -count=1 -timeout 1h -v ./integration/conformance -full -figures $(CURDIR)/.cache/conformance/figures.md $(ARGS)

# A tag, or whatever is checked out: the binary says which. ARCH=arm64 is the other architecture.
release:
	@GOARCH=$(or $(ARCH),amd64) integration/tools/supply.sh release

sbom: release supply-deps
	@integration/tools/supply.sh sbom

vulnerabilities:
	@integration/tools/supply.sh vulnerabilities

reproducible:
	@integration/tools/supply.sh reproducible

licences:
	go test -count=1 ./integration/supply $(ARGS)

supply: vulnerabilities licences sbom reproducible

supply-deps:
	@integration/tools/install.sh supply

deps:
	@integration/tools/install.sh

rock-deps:
	@integration/tools/install.sh rock

bench-deps:
	@integration/tools/install.sh bench

lint: format-check vet staticcheck

format-check:
	@unformatted=$$(gofmt -l $$($(GO_FILES))); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed (make fmt):"; echo "$$unformatted"; exit 1; fi

# Both look at what the tests are compiled to, which for that reason is made with the race detector as theirs is, and once.
vet:
	$(COMPILE) go vet -race $(GOFLAGS),realrock ./...
	$(COMPILE) go -C integration/manifests/judge vet ./...

staticcheck:
	$(COMPILE) GOBIN=$(CURDIR)/.cache/bin nice -n 19 go install $(STATICCHECK)
	$(COMPILE) GOFLAGS=-race nice -n 19 .cache/bin/staticcheck $(GOFLAGS),realrock ./...

fmt:
	@gofmt -w $$($(GO_FILES))

# The few commands people type. meson and ninja do the work behind them.

SHELL := /bin/bash
BUILD := build/release
export CCACHE_NOHASHDIR := 1
PREFIX ?= /usr/local

.PHONY: all run demo test soak bench bench-full fuzz lint format images install clean deps help

all: deps            ## build everything into build/bin/
	@tools/build release

run: all             ## build, start the server, run a first sandbox, stay until Ctrl-C
	@tools/run

demo: all            ## the same, then stop
	@tools/run --demo

test: deps-test      ## lint, unit tests, sanitizers, fuzz corpora, integration suites
	@/usr/bin/python3 tools/test.py $(if $(ONLY),--only $(ONLY))

soak: deps-test all  ## hours of load: leaks of any kind
	@/usr/bin/python3 tools/test.py --only soak

bench: deps-test all ## quick: ours and the peers side by side, as ratios
	@/usr/bin/python3 bench/run.py

bench-full: deps-test all ## beside the published reference server; writes docs/benchmarks.md
	@/usr/bin/python3 bench/run.py reference --full

fuzz: deps-test      ## each target for FUZZ_SECONDS (60)
	@/usr/bin/python3 tools/test.py --only fuzz --fuzz-seconds $(or $(FUZZ_SECONDS),60)

lint: deps-test      ## layout, room edges, banned functions, static analysis
	@/usr/bin/python3 tools/test.py --only lint

format:              ## lay out the sources
	@git ls-files '*.c' '*.h' | xargs clang-format -i

images: all          ## the egress sidecar as an image: build/images/, for docker load
	@tools/images.py $(if $(CA),--ca $(CA)) $(if $(NAME),--name $(NAME))

install: all         ## into PREFIX (/usr/local), honours DESTDIR
	@meson configure $(BUILD) --prefix $(PREFIX) >/dev/null
	@meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))

clean:               ## remove everything that was built
	rm -rf build

deps:
	@tools/bootstrap run

deps-test:
	@tools/bootstrap test

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*##/ { split($$1, t, ":"); printf "  make %-11s %s\n", t[1], $$2 }' $(MAKEFILE_LIST)

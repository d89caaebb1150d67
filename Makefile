# The two commands a newcomer needs: `make up` and `make test`. The rest is for those who work on holt.
#
#   make up      install what is missing, build, start holt, show a first sandbox running
#   make down    stop holt; sandboxes go on
#   make install holt into PREFIX (/usr/local)
#   make test    everything a clean machine can test
#   make build   build/holt
#   make bench   every number of docs/benchmarks.md, against peers in the same run
#   make bench-api  the API server beside etcd and kube-apiserver; builds both with go, slow the first time
#   make lint    formatting, static analysis, clang build
#   make fuzz    each fuzz target for a short while

BUILD ?= build
PREFIX ?= /usr/local
SHELL := /bin/bash
export PATH := $(PATH):/usr/sbin:/sbin

APT_BUILD := gcc clang clang-format meson ninja-build pkg-config musl-tools linux-libc-dev \
	libevent-dev libssl-dev libnghttp2-dev libyaml-dev libsqlite3-dev libpcre2-dev zlib1g-dev libarchive-dev \
	libwslay-dev python3-yaml
APT_TEST := libcmocka-dev libseccomp-dev python3-venv python3-pip busybox-static skopeo umoci curl jq kubernetes-client nodejs npm
APT_BENCH := bubblewrap runc crun runsc busybox-static hyperfine wrk nghttp2-client

.PHONY: deps deps-test deps-bench build programs up down install uninstall test unit asan integration bench bench-api lint fuzz clean

deps:
	@tools/install-packages $(APT_BUILD)
	@id holt >/dev/null 2>&1 || useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin holt

deps-test: deps
	@tools/install-packages $(APT_TEST)

deps-bench: deps-test
	@tools/install-packages $(APT_BENCH)

$(BUILD)/build.ninja:
	@meson setup $(BUILD) >/dev/null

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

programs: $(BUILD)/build.ninja
	@ninja --quiet -C $(BUILD) programs

up: deps programs
	@tools/first-sandbox $(BUILD)/holt

install: deps programs
	@install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/holt
	@install -t $(DESTDIR)$(PREFIX)/lib/holt $(wildcard $(BUILD)/holt $(BUILD)/holt-core $(BUILD)/holt-extract)
	@ln -sf ../lib/holt/holt $(DESTDIR)$(PREFIX)/bin/holt

uninstall:
	@rm -rf $(DESTDIR)$(PREFIX)/bin/holt $(DESTDIR)$(PREFIX)/lib/holt

down:
	@tools/stop-holt

test: deps-test
	@tools/run-tests

unit: build
	@meson test -C $(BUILD) --suite unit

asan:
	@test -d build-asan || meson setup build-asan -Dbuildtype=debug -Db_sanitize=address,undefined >/dev/null
	@ninja -C build-asan && meson test -C build-asan --suite unit

integration: build
	@HOLT_BIN=$(abspath $(BUILD)/holt) tools/pytest tests/integration tests/clients tests/security

bench: deps-bench build
	@tools/pytest-env python tests/bench/run.py --holt $(abspath $(BUILD)/holt) --write

bench-api: deps-bench build
	@tools/pytest-env python tests/bench/api_peer.py --holt $(abspath $(BUILD)/holt) --write

lint:
	@tools/lint

fuzz:
	@tools/fuzz

clean:
	@rm -rf build build-asan build-clang build-fuzz

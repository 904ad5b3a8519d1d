# The README's commands. Each begins with a check of what it needs (scripts/preflight.sh).

.PHONY: build demo demo-watch page test test-all dist install uninstall

build:
	@scripts/preflight.sh install
	cargo build --release

# Two measurements over an emulated path of 172 ms and 6.25 Gbit/s.
demo:
	@scripts/preflight.sh demo
	cargo build --release
	target/release/longhaul demo

# An agent on a path whose route changes; its page is on http://127.0.0.1:5280/.
demo-watch:
	@scripts/preflight.sh demo
	cargo build --release
	target/release/longhaul demo --watch

# Builds the web page from web/src; needs Node.js. Commit web/dist/page with the sources.
page:
	cargo xtask page

# One build makes the tests and the tool that runs them.
BUILD_TESTS = cargo test --workspace --features longhaul/clickhouse --locked --no-run
XTASK = $(or $(CARGO_TARGET_DIR),target)/debug/xtask

# The tests that a change needs.
test:
	@scripts/preflight.sh test
	$(BUILD_TESTS)
	$(XTASK) test

# Those and the slow ones: fuzzing, browser, database cluster, interoperability.
test-all:
	@scripts/preflight.sh test
	$(BUILD_TESTS)
	$(XTASK) test-all

# Tarball, .deb, .rpm, OCI image and sums in target/dist; packaging/verify.sh tries them.
dist:
	packaging/dist.sh

# The program of `cargo build --release` with manual pages, completions, units and examples.
PREFIX = /usr/local
install:
	@test -x target/release/longhaul || { echo "make: target/release/longhaul is missing; run cargo build --release first" >&2; exit 1; }
	@PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) packaging/install.sh target/release/longhaul

# Leaves /etc/longhaul and /var/lib/longhaul.
uninstall:
	rm -rf $(DESTDIR)$(PREFIX)/bin/longhaul $(DESTDIR)$(PREFIX)/share/doc/longhaul \
		$(DESTDIR)$(PREFIX)/share/man/man1/longhaul.1 $(DESTDIR)$(PREFIX)/share/man/man1/longhaul-*.1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/longhaul \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_longhaul \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/longhaul.fish \
		$(DESTDIR)$(PREFIX)/libexec/pscheduler/classes/tool/longhaul \
		$(DESTDIR)$(PREFIX)/lib/systemd/system/longhaul-serve.service \
		$(DESTDIR)$(PREFIX)/lib/systemd/system/longhaul-watch.service

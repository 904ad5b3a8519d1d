# The README's commands. Each begins with a check of what it needs (scripts/preflight.sh).

.PHONY: demo demo-watch page test test-all build

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

# The tests that a change needs.
test:
	@scripts/preflight.sh test
	cargo xtask test

# Those and the slow ones: fuzzing, browser, database cluster, interoperability.
test-all:
	@scripts/preflight.sh test
	cargo xtask test-all

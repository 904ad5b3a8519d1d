# The two commands of the README. Everything that decides anything is in xtask, in Rust.

.PHONY: demo demo-watch page test

# Two measurements over an emulated path of 172 ms and 6.25 Gbit/s.
demo: toolchain
	cargo build --release --package longhaul
	cargo xtask demo

# An agent on a path whose route changes; its page is on http://127.0.0.1:5280/.
demo-watch: toolchain
	cargo xtask demo-watch

# Builds the web page from web/src; needs Node.js. Commit web/dist/page with the sources.
page: toolchain
	cargo xtask page

# Everything that CI checks; as root with apt-get it installs what the tests need.
test: toolchain
	cargo xtask ci

.PHONY: toolchain
toolchain:
	@command -v cargo >/dev/null || { echo "make: cargo is missing; get Rust 1.95 or newer from https://rustup.rs" >&2; exit 1; }
	@command -v cc >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get --quiet update && apt-get --quiet --yes install gcc libc6-dev; } || { echo "make: a C compiler is missing (SQLite and ring need one); install gcc" >&2; exit 1; }
	@cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1 || rustup component add clippy rustfmt || { echo "make: clippy or rustfmt is missing; rustup component add clippy rustfmt" >&2; exit 1; }

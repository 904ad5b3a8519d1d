#!/bin/sh
# Fuzzes the parsers of external input, each for SECONDS (10), two at a time and at low priority. The
# fuzzed code is safe Rust: overflow checks find more in it than sanitizers do, and the build takes a
# third of the time. Without a nightly tool chain the property tests of the same parsers must do.
# usage: fuzz.sh [SECONDS]
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/target/tools/bin:$PATH
export PATH
cargo +nightly fuzz --version >/dev/null 2>&1 || {
    cargo +nightly --version >/dev/null 2>&1 &&
        cargo install --quiet --locked cargo-fuzz --root target/tools
} || {
    echo "cargo-fuzz or the nightly tool chain is not here: not fuzzed; the property tests of the parsers ran"
    exit 0
}
nice cargo +nightly fuzz build --dev --sanitizer none
cargo +nightly fuzz list | xargs -P 2 -I TARGET nice cargo +nightly fuzz run --dev --sanitizer none \
    TARGET -- -max_total_time="${1:-10}" -verbosity=0 -print_final_stats=1

#!/bin/sh
# Checks what `make TARGET` needs before anything is built, so that nobody waits ten minutes for a
# message. As root with apt-get it installs what is missing.
# usage: preflight.sh demo|test|install
set -eu
fail() {
    echo "make $target: $*" >&2
    exit 1
}
# Installs packages where that is possible: install PACKAGE...
install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    apt-get --quiet update && apt-get --quiet --yes --no-install-recommends install "$@"
}
target=$1
[ "$(uname -s)" = Linux ] || fail "longhaul runs on Linux only"
command -v cargo >/dev/null || fail "cargo is missing; install Rust 1.95 or newer from https://rustup.rs"
minor=$(rustc --version | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p')
[ "${minor:-0}" -ge 95 ] || fail "$(rustc --version) is too old; run \`rustup update stable\` (1.95 or newer)"
command -v cc >/dev/null || install gcc libc6-dev ||
    fail "a C compiler is missing (SQLite and ring need one); install gcc"
if [ "$target" != install ]; then
    [ "$(id -u)" = 0 ] && as= || as="--user --map-root-user"
    # shellcheck disable=SC2086  # two words, or none
    unshare $as --net true 2>/dev/null ||
        fail "no network namespaces here; run as root with CAP_SYS_ADMIN and CAP_NET_ADMIN, or allow user namespaces (sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=1000)"
fi
if [ "$target" = test ]; then
    [ -c /dev/fuse ] || modprobe fuse 2>/dev/null ||
        fail "no /dev/fuse, which the tests of power failures need; run \`modprobe fuse\`, or give it to the container"
    { cargo clippy --version && cargo fmt --version; } >/dev/null 2>&1 || rustup component add clippy rustfmt ||
        fail "clippy or rustfmt is missing; run \`rustup component add clippy rustfmt\`"
fi
host=$(rustc -vV | sed -n 's/^host: //p')
cargo fetch --locked --target "$host" ||
    fail "the crates cannot be downloaded; check the network, or the registry in ~/.cargo/config.toml"

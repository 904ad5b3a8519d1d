#!/bin/sh
# Makes target/dist/: tarball, .deb, .rpm, OCI image and SHA256SUMS, all from one stripped build
# with link-time optimisation that starts on glibc 2.28 and newer. `make dist` runs it.
# Decision 0031 gives the reasons.
set -eu
cd "$(dirname "$0")/.."
fail() {
	echo "dist: $1" >&2
	exit 1
}

# What cannot be installed here is missed at once, not after the build.
[ "$(uname -sm)" = "Linux x86_64" ] || fail "packages are made on Linux on x86_64 only"
while read -r command remedy; do
	command -v "$command" >/dev/null || fail "$command is missing; $remedy"
done <<'NEEDED'
cargo install Rust 1.95 or newer
cc install gcc
objdump install binutils
python3 install python3 3.9 or newer
apt-get run this on Debian or Ubuntu: the image takes its C library from their packages
dpkg-deb run this on Debian or Ubuntu: the image takes its C library from their packages
NEEDED
python3 -c 'import ensurepip, venv' 2>/dev/null || fail "venv of Python is missing; apt-get install python3-venv"
if [ -z "${LONGHAUL_COMMIT-}" ]; then
	[ -e .git ] && command -v git >/dev/null ||
		fail "without git and .git, set LONGHAUL_COMMIT='HASH DATE' and SOURCE_DATE_EPOCH"
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} ||
	fail "the date of the commit is unknown; set SOURCE_DATE_EPOCH"
CARGO_TARGET_DIR=$PWD/target/dist-build
export CARGO_TARGET_DIR SOURCE_DATE_EPOCH
umask 022

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
out=target/dist
tools=$CARGO_TARGET_DIR/tools
glibc=2.28
PATH=$tools/bin:$tools/venv/bin:$PATH

# Tools, in their pinned versions.
cargo fetch --quiet --locked || fail "cannot fetch the dependencies; connect to the crates registry"
[ -x "$tools/venv/bin/cargo-zigbuild" ] || {
	python3 -m venv "$tools/venv" &&
		"$tools/venv/bin/pip" install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.1
} || fail "cannot install ziglang and cargo-zigbuild; connect to PyPI"
tool() {
	[ ! -x "$tools/bin/${1%@*}" ] || return 0
	echo "dist: installing $1"
	CARGO_TARGET_DIR=$tools/build cargo install --quiet --locked --root "$tools" "$@" ||
		fail "cannot install $1; connect to the crates registry"
}
tool cargo-about@0.9.3 --features cli
tool cargo-deb@3.8.0
tool cargo-generate-rpm@0.21.1

rm -rf "$out"
mkdir -p "$out/debs"
(cd "$out/debs" && apt-get --quiet=2 -o APT::Sandbox::User=root download libc6 libgcc-s1 ca-certificates) ||
	fail "cannot download libc6; run apt-get update as root first"

# An unknown licence ends it here.
notices=$out/THIRD-PARTY-LICENSES.txt
cargo about generate --locked --offline --fail --manifest-path crates/longhaul/Cargo.toml \
	--config packaging/about.toml --output-file "$notices" packaging/about.hbs
cat web/dist/page/licences.txt crates/longhaul-record/places/LICENSE >>"$notices"

RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src= --remap-path-prefix=$PWD=" \
	cargo zigbuild --locked --package longhaul --features clickhouse --profile dist --target "x86_64-unknown-linux-gnu.$glibc"
program=$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/dist/longhaul
needed=$(objdump -T "$program" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
[ "$(printf '%s\n' "$needed" "GLIBC_$glibc" | sort -V | tail -1)" = "GLIBC_$glibc" ] ||
	fail "the program needs $needed, newer than glibc $glibc"

pack() { # SOURCE-FOLDER: a tar on stdout that is the same wherever it is made
	tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c .
}
name=longhaul-$version-x86_64-linux
DESTDIR=$out/tar PREFIX=/usr/local packaging/install.sh "$program" "$notices"
mkdir "$out/$name.d" && mv "$out/tar/usr/local" "$out/$name.d/$name" && mv "$out/tar/etc" "$out/$name.d/$name/"
pack "$out/$name.d" | gzip -9n >"$out/$name.tar.gz"

DESTDIR=$out/files PREFIX=/usr packaging/install.sh "$program" "$notices"
gzip -9n "$out/files/usr/share/man/man1"/*
{
	cat LICENSE-MIT
	printf '\nThe Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.\n'
} >"$out/licence"
cat >"$out/changelog" <<END
longhaul ($version-1) stable; urgency=medium

  * Release $version; /usr/share/doc/longhaul/CHANGELOG.md has the changes.

 -- longhaul maintainers <longhaul@localhost.invalid>  $(LC_ALL=C date -uRd "@$SOURCE_DATE_EPOCH")
END
cargo deb --quiet --no-build --no-strip --package longhaul --output "$out/"
cargo generate-rpm --package crates/longhaul --payload-compress xz --auto-req disabled --output "$out/"

image=$out/image
mkdir -p "$image/usr/lib" "$image/usr/lib64" "$image/usr/bin" "$image/etc/ssl/certs"
install -d -m 1777 "$image/tmp" "$image/var/lib/longhaul"
ln -s usr/lib "$image/lib" && ln -s usr/lib64 "$image/lib64"
for deb in "$out"/debs/*.deb; do
	dpkg-deb --fsys-tarfile "$deb" | tar -C "$image" -x --keep-directory-symlink
done
cat "$image"/usr/share/ca-certificates/mozilla/*.crt >"$image/etc/ssl/certs/ca-certificates.crt"
rm -rf "$image"/usr/lib/x86_64-linux-gnu/gconv
cp -R "$out/files/usr/share/doc/longhaul" "$image/usr/share/doc/"
install -m 755 "$program" "$image/usr/bin/longhaul"
echo 'longhaul:x:999:999::/var/lib/longhaul:/usr/sbin/nologin' >"$image/etc/passwd"
pack "$image" | python3 packaging/oci.py "$version" >"$out/longhaul-$version-oci.tar"

rm -rf "$out/debs" "$out/image" "$out/files" "$out/tar" "$out/$name.d" "$out/changelog" "$out/licence" "$notices"
(cd "$out" && sha256sum longhaul* >SHA256SUMS && ls -l)

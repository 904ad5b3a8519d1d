#!/bin/sh
# Builds the kernel of tests in virtual time from Debian's package of its sources, as FOLDER/linux.
# Needs root and apt-get, and about five CPU minutes.
# usage: build-kernel.sh FOLDER [SERIES]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=linux-source-${2:-6.12}
"$here/../../../scripts/requirements.sh" kernel
rm -rf "$1/sources"
mkdir -p "$1/sources"
cd "$1/sources"
apt-get download "$version"
dpkg-deb --extract "$version"_*.deb package
tar --extract --file "package/usr/src/$version.tar.xz"
cd "$version"
make -s ARCH=um defconfig
scripts/kconfig/merge_config.sh -m .config "$here/kernel.config" >/dev/null
make -s ARCH=um olddefconfig
make -s ARCH=um -j"$(nproc)" linux
strip -o ../../linux.partial linux
mv ../../linux.partial ../../linux
cd ../..
rm -rf sources

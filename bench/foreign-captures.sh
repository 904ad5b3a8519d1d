#!/bin/sh
# Fills FOLDER with the captures in Debian's source packages of tcpdump, Wireshark and nDPI, a folder
# for each, and keeps those that are there. The machine's own package lists are not changed.
# usage: foreign-captures.sh FOLDER
set -eu
mkdir -p "$1" && cd "$1"
mkdir -p apt/lists/partial source

if [ ! -f apt/apt.conf ]; then
    # The same mirrors as for binary packages.
    apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' | sort -u |
        sed 's/^/deb-src /; s/$/ main/' >apt/sources.list
    cat >apt/new.conf <<EOF
Dir::Etc::sourcelist "$PWD/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "$PWD/apt/lists";
APT::Sandbox::User "root";
EOF
    apt-get -c apt/new.conf -qq update
    mv apt/new.conf apt/apt.conf
fi
for package in tcpdump wireshark ndpi; do
    [ ! -d "$package" ] || continue
    (cd source && apt-get -c ../apt/apt.conf -qq source --download-only --tar-only "$package")
    rm -rf unpacked "$package.new" && mkdir unpacked "$package.new"
    for archive in source/"$package"_*.orig.tar.*[z2]; do
        tar -tf "$archive" | grep -E '\.pcap(ng)?(\.gz)?$' >source/list
        tar -xf "$archive" -C unpacked --files-from source/list
    done
    find unpacked -type f -exec mv {} "$package.new" \;
    rm -rf unpacked && mv "$package.new" "$package"
done

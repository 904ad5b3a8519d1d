#!/bin/sh
# Process 1 of a guest: mounts what a test needs, runs the script that the host wrote, powers off.
# The root file system is the host's, read-only; `share` names the one folder that can be written.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm || { mount -t devtmpfs dev /dev; mkdir -p /dev/shm; mount -t tmpfs tmpfs /dev/shm; }
mkdir -p /run/share /run/tmp /run/home
chmod 1777 /run/tmp
mount -t hostfs none /run/share -o "$share"
export TMPDIR=/run/tmp HOME=/run/home XDG_DATA_HOME=/run/home
# Buffers as on a data transfer node.
echo 67108864 >/proc/sys/net/core/rmem_max
echo 67108864 >/proc/sys/net/core/wmem_max
ip link set lo up
ulimit -n 65536
cd /run/tmp || exit
sh /run/share/script </dev/null >/run/share/output 2>&1
echo $? >/run/share/status
sync
echo o >/proc/sysrq-trigger
sleep 60

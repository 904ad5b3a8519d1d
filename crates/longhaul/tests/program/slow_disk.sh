# Writes what curl fetches to a disk that takes 1 MiB/s: a file system on a loop device, whose rate a control
# group limits.
# usage: unshare --mount sh slow_disk.sh FOLDER GROUP URL
set -e
PATH=$PATH:/usr/sbin:/sbin
cd "$1"
truncate -s 256M image
mkfs.ext4 -q -F image
mkdir -p disk
device=$(losetup --find --show image)
number=$(cat "/sys/block/${device#/dev/}/dev")
# Version 1 of control groups has a hierarchy for each controller.
if [ -d /sys/fs/cgroup/blkio ]; then
    group=/sys/fs/cgroup/blkio/$2
    mkdir "$group"
    echo "$number 1048576" >"$group/blkio.throttle.write_bps_device"
    # The pressure is counted in groups of version 2.
    pressure=/sys/fs/cgroup/unified/$2
    if mkdir "$pressure" 2>/dev/null; then echo $$ >"$pressure/cgroup.procs"; fi
else
    group=/sys/fs/cgroup/$2
    echo +io >/sys/fs/cgroup/cgroup.subtree_control
    mkdir "$group"
    echo "$number wbps=1048576" >"$group/io.max"
fi
echo $$ >"$group/cgroup.procs"
# Each write waits for the disk.
mount -o sync "$device" disk
# It goes with the mount.
losetup --detach "$device"
exec curl --silent --output disk/file "$3"

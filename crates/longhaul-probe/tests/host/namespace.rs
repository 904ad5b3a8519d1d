//! The place where settings can be written without harm.

use longhaul_sys::netlink::{self, NetlinkSocket, VethPair};
use longhaul_sys::netns::{self, NamespaceKind};
use longhaul_sys::process_control;
use std::io;
use std::path::PathBuf;

/// An interface that every test finds.
pub const VETH: &str = "veth-near";

/// Moves this process of one thread into a network namespace with a loopback and a pair of
/// devices; as root, or in a user namespace of its own.
pub fn take() -> io::Result<()> {
    if netns::unshare_namespace(NamespaceKind::Net).is_err() {
        let (user, group) = process_control::effective_ids();
        netns::unshare_namespace(NamespaceKind::User)?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
        netns::unshare_namespace(NamespaceKind::Net)?;
    }
    let netlink = NetlinkSocket::open()?;
    let pair = VethPair {
        name: VETH,
        address: [2, 0, 0, 0, 0, 1],
        peer_name: "veth-far",
        peer_address: [2, 0, 0, 0, 0, 2],
        mtu: 1500,
    };
    netlink.add_veth(&pair, netns::open_own_namespace(NamespaceKind::Net)?)?;
    for name in ["lo", VETH, "veth-far"] {
        netlink.set_up(netlink::interface_index(name)?)?;
    }
    std::fs::create_dir_all(folder())
}

pub fn leave() {
    std::fs::remove_dir_all(folder()).expect("the folder of the journals can be removed");
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("longhaul-host-{}", std::process::id()))
}

/// A journal of its own for each test.
pub fn journal(name: &str) -> PathBuf {
    folder().join(name).join("host-changes.json")
}

/// Runs `what` in another new network namespace, whose loopback is down.
pub fn elsewhere<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            netns::unshare_namespace(NamespaceKind::Net).expect("another network namespace");
            what()
        });
        thread.join().expect("the thread elsewhere")
    })
}

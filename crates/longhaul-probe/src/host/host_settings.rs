//! The settings that longhaul writes: each one is read and written as text, in one call.

use super::{HostError, error_text, format_governors};
use longhaul_sys::host::{self, ethtool, network_interface};
use longhaul_sys::netlink::{self, NetlinkSocket};
use std::io;

const MAX_VALUE_BYTES: usize = 1024;

/// Returns whether [`super::apply_settings`] can write the setting of this name.
pub fn is_writable(name: &str) -> bool {
    find_kind(name).is_some()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettingKind {
    Sysctl,
    Mtu,
    Queue,
    RxRing,
    TxRing,
    Governor,
}

fn find_kind(name: &str) -> Option<SettingKind> {
    Some(match name {
        "interface.mtu" => SettingKind::Mtu,
        "interface.txqueuelen" => SettingKind::Queue,
        "interface.ring.rx" => SettingKind::RxRing,
        "interface.ring.tx" => SettingKind::TxRing,
        "cpu.governor" => SettingKind::Governor,
        _ => {
            let rest =
                name.strip_prefix("net.core.").or_else(|| name.strip_prefix("net.ipv4.tcp_"))?;
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            (!rest.is_empty() && rest.bytes().all(plain)).then_some(SettingKind::Sysctl)?
        }
    })
}

/// A setting of this host or of one of its interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostSetting {
    kind: SettingKind,
    pub name: String,
    /// Set only for an interface's setting.
    pub interface: Option<String>,
}

impl HostSetting {
    /// # Errors
    /// The name is not a writable setting, or the setting needs an interface.
    pub fn find(name: &str, interface: Option<&str>) -> Result<HostSetting, HostError> {
        let kind =
            find_kind(name).ok_or_else(|| HostError::NotWritable { name: name.to_owned() })?;
        let needs_interface = !matches!(kind, SettingKind::Sysctl | SettingKind::Governor);
        let interface = interface.filter(|_| needs_interface).map(str::to_owned);
        if needs_interface && interface.is_none() {
            return Err(HostError::NoInterface { name: name.to_owned() });
        }
        Ok(HostSetting { kind, name: name.to_owned(), interface })
    }

    fn interface(&self) -> &str {
        self.interface.as_deref().unwrap_or_default()
    }

    /// Returns the exact current value.
    pub fn read(&self) -> io::Result<String> {
        let name = self.interface();
        match self.kind {
            SettingKind::Sysctl => host::read_setting_exact(&self.name),
            SettingKind::Mtu => network_interface::mtu_bytes(name)
                .map(|mtu| mtu.to_string())
                .ok_or_else(|| io::ErrorKind::NotFound.into()),
            SettingKind::Queue => {
                network_interface::transmit_queue_packets(name).map(|packets| packets.to_string())
            }
            SettingKind::RxRing => ethtool::RX_RING.query(name),
            SettingKind::TxRing => ethtool::TX_RING.query(name),
            SettingKind::Governor => host::read_governors().map(|all| format_governors(&all)),
        }
    }

    /// Writes a value.
    pub fn write(&self, value: &str) -> io::Result<()> {
        if value.len() > MAX_VALUE_BYTES || value.contains(['\n', '\0']) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let name = self.interface();
        let number = || value.trim().parse().map_err(|_| io::ErrorKind::InvalidInput);
        match self.kind {
            SettingKind::Sysctl => host::write_setting(&self.name, value),
            SettingKind::Mtu => network_interface::set_mtu(name, number()?),
            SettingKind::Queue => {
                NetlinkSocket::open()?.set_queue_packets(netlink::interface_index(name)?, number()?)
            }
            SettingKind::RxRing => ethtool::RX_RING.set_ring(name, number()?),
            SettingKind::TxRing => ethtool::TX_RING.set_ring(name, number()?),
            SettingKind::Governor => write_governors(value),
        }
    }

    /// Returns whether the setting's interface no longer exists.
    pub fn is_gone(&self) -> bool {
        let missing = |name: &String| netlink::interface_index(name).is_err();
        self.interface.as_ref().is_some_and(missing)
    }

    /// Returns a text for users that says why the setting could not be read or written.
    pub fn explain_error(&self, error: &io::Error) -> String {
        let words = error_text(error);
        let what = match error.kind() {
            io::ErrorKind::PermissionDenied if self.is_read_only() => {
                "read-only here; only the machine's initial network namespace may be able to set it"
            }
            io::ErrorKind::PermissionDenied => "only root can set it",
            io::ErrorKind::ReadOnlyFilesystem => {
                "settings are mounted read-only, as in most containers; set it on the machine itself"
            }
            io::ErrorKind::NotFound if self.kind == SettingKind::Sysctl => {
                "this kernel has no such setting or value, or only the machine's initial network \
                 namespace has it"
            }
            io::ErrorKind::InvalidInput => "the kernel does not accept this value",
            _ => return words,
        };
        format!("{what} ({words})")
    }

    /// Returns whether not even root can write the file.
    fn is_read_only(&self) -> bool {
        self.kind == SettingKind::Sysctl && host::is_writable(&self.name) == Some(false)
    }
}

/// Writes one governor for all cores, or one for each in their order.
fn write_governors(value: &str) -> io::Result<()> {
    let cores: Vec<u32> = host::read_governors()?.into_iter().map(|(core, _)| core).collect();
    let words: Vec<&str> = value.split_ascii_whitespace().collect();
    let of_core: Vec<&str> = match words.as_slice() {
        [one] => vec![one; cores.len()],
        many if many.len() == cores.len() => many.to_vec(),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    cores
        .into_iter()
        .zip(of_core)
        .try_for_each(|(core, governor)| host::set_governor(core, governor))
}

/// Compares two values as the kernel does, which accepts blanks and prints tabs.
pub(super) fn is_same_value(one: &str, other: &str) -> bool {
    one.split_ascii_whitespace().eq(other.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_settings_of_the_list_are_written() {
        for name in [
            "net.core.rmem_max",
            "net.ipv4.tcp_rmem",
            "interface.mtu",
            "interface.ring.tx",
            "cpu.governor",
        ] {
            assert!(is_writable(name), "{name}");
        }
        for name in [
            "",
            "net.core.",
            "net.core.../../kernel/core_pattern",
            "net.core.a/b",
            "net.ipv4.ip_forward",
            "net.ipv4.conf.all.rp_filter",
            "kernel.core_pattern",
            "interface.driver",
            "interface.ring.rx_max",
        ] {
            assert!(!is_writable(name), "{name}");
        }
    }

    #[test]
    fn a_setting_of_an_interface_needs_one_and_others_have_none() {
        let without = HostSetting::find("interface.mtu", None).expect_err("no interface");
        assert!(matches!(without, HostError::NoInterface { .. }));
        let host = HostSetting::find("cpu.governor", Some("eth0")).expect("a setting");
        assert_eq!(host.interface, None);
    }

    #[test]
    fn a_value_of_two_lines_is_not_written() {
        let setting = HostSetting::find("net.ipv4.tcp_rmem", None).expect("a setting");
        for value in ["1 2 3\n4", "1\0", &"1".repeat(MAX_VALUE_BYTES + 1)] {
            let error = setting.write(value).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn blanks_and_tabs_are_the_same_to_the_kernel() {
        assert!(is_same_value("4096\t131072\t6291456", " 4096 131072  6291456"));
        assert!(!is_same_value("4096 131072", "4096 131072 1"));
    }
}

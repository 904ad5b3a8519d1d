//! Finds out whether a TCP port is open in the network namespace of a process.
//!
//! Source: `/proc/PID/net/tcp` and `tcp6`; state 0A is LISTEN.

pub(super) fn is_port_open(pid: u32, port: u16) -> bool {
    ["tcp", "tcp6"].into_iter().any(|table| {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}"));
        table.is_ok_and(|table| has_listener(&table, port))
    })
}

fn has_listener(table: &str, port: u16) -> bool {
    table.lines().skip(1).any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let local = columns.next().and_then(|local| local.rsplit_once(':'));
        let local_port = local.and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        local_port == Some(port) && columns.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_in_state_listen_on_that_very_port_counts() {
        let table = "  sl  local_address rem_address   st\n\
                     \x20  0: 00000000:1451 00000000:0000 0A 00000000:00000000\n\
                     \x20  1: 0100007F:1452 0100007F:9C40 01 00000000:00000000\n";
        assert!(has_listener(table, 5201));
        assert!(!has_listener(table, 5202), "connected, not listening");
        assert!(!has_listener(table, 80));
        assert!(!has_listener("", 5201));
    }
}

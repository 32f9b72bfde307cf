//! Finds a connection in the socket table of the sandbox's network namespace.

use super::IdentityError;
use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The inode of the client's end: the entry whose own address is our peer.
pub(super) fn find_inode(
    proc: &Path,
    pid: u32,
    peer: SocketAddr,
    local: SocketAddr,
) -> Result<u64, IdentityError> {
    let net = proc.join(pid.to_string()).join("net");
    let mut readable = None;
    for (file, form) in [("tcp", Form::Four), ("tcp6", Form::Six)] {
        let (Some(own), Some(other)) = (form.write(peer), form.write(local)) else { continue };
        match fs::read_to_string(net.join(file)) {
            Ok(table) => {
                if let Some(inode) = inode_of(&table, &own, &other) {
                    return Ok(inode);
                }
                readable = Some(Ok(()));
            }
            Err(source) => readable = readable.or(Some(Err(source))),
        }
    }
    match readable {
        Some(Err(source)) => Err(IdentityError::Proc { what: "the sandbox's socket table", source }),
        _ => Err(IdentityError::NoSocket),
    }
}

#[derive(Clone, Copy)]
enum Form {
    Four,
    Six,
}

impl Form {
    /// As written in the table: each 32-bit group of the address in the machine's byte order.
    fn write(self, address: SocketAddr) -> Option<String> {
        let octets = match (self, address.ip()) {
            (Self::Four, IpAddr::V4(v4)) => v4.octets().to_vec(),
            (Self::Four, IpAddr::V6(v6)) => v6.to_ipv4_mapped()?.octets().to_vec(),
            // A client may reach an IPv4 address through an IPv6 socket.
            (Self::Six, IpAddr::V4(v4)) => v4.to_ipv6_mapped().octets().to_vec(),
            (Self::Six, IpAddr::V6(v6)) => v6.octets().to_vec(),
        };
        let mut out = String::new();
        for group in octets.chunks_exact(4) {
            let group = u32::from_ne_bytes([group[0], group[1], group[2], group[3]]);
            write!(out, "{group:08X}").ok()?;
        }
        write!(out, ":{:04X}", address.port()).ok()?;
        Some(out)
    }
}

fn inode_of(table: &str, own: &str, other: &str) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let found_own = words.nth(1)?;
        let found_other = words.next()?;
        if found_own != own || found_other != other {
            return None;
        }
        // State, queues, timers, retransmissions, user and timeout come before the inode.
        words.nth(6)?.parse().ok().filter(|inode| *inode != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_both_ends() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 777 1 0 20 0 0 10 -1\n   \
                     1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 888 1 0 20 0 0 10 -1\n";
        let local: SocketAddr = "127.0.0.1:8080".parse().unwrap();
        let peer: SocketAddr = "127.0.0.1:50000".parse().unwrap();
        let write = |address| Form::Four.write(address).unwrap();
        assert_eq!(inode_of(table, &write(peer), &write(local)), Some(888));
        assert_eq!(inode_of(table, &write(local), &write(peer)), Some(777));
        assert_eq!(inode_of(table, &write(peer), &write("127.0.0.1:81".parse().unwrap())), None);
    }
}

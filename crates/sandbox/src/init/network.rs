//! The sandbox's own loopback and the sockets on it that the host side serves. There is no other interface.

use crate::channel;
use crate::message::InitReport;
use crate::spec::{LocalRange, SandboxNetwork, SocketKind, SocketSpec};
use crate::step::{StartStep, StepContext, StepError};
use crate::sys;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

const BACKLOG: i32 = 1024;
/// In a fresh network namespace the loopback interface always has this number.
const LOOPBACK_INDEX: u32 = 1;

/// Brings loopback up and makes it answer for the spec's ranges.
pub(super) fn set_up(network: &SandboxNetwork) -> Result<(), StepError> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None);
    sys::bring_up(socket.at(StartStep::Network, "a socket")?, "lo").at(StartStep::Network, "lo")?;
    for range in &network.local_ranges {
        add_local_route(range).at(StartStep::Network, range.address)?;
    }
    Ok(())
}

/// Makes the sockets and sends them to the host side, keeping none.
pub(super) fn hand_out_sockets(network: &SandboxNetwork, control: &UnixStream) -> Result<(), StepError> {
    for batch in network.sockets.chunks(channel::MAX_DESCRIPTORS) {
        let sockets: Vec<OwnedFd> = batch
            .iter()
            .map(|spec| make(spec).at(StartStep::Sockets, spec.address))
            .collect::<Result<_, _>>()?;
        let borrowed: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        let count = u32::try_from(borrowed.len()).unwrap_or(u32::MAX);
        channel::send(control, &InitReport::Sockets { count }, &borrowed)
            .at(StartStep::Sockets, "sending them out")?;
    }
    Ok(())
}

fn make(spec: &SocketSpec) -> io::Result<OwnedFd> {
    let family = match spec.address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let kind = match spec.kind {
        SocketKind::TcpListener => SocketType::STREAM,
        SocketKind::Udp => SocketType::DGRAM,
    };
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if family == AddressFamily::INET6 {
        rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &spec.address)?;
    if spec.kind == SocketKind::TcpListener {
        rustix::net::listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

/// `ip route add local RANGE dev lo`, over netlink.
fn add_local_route(range: &LocalRange) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::sendto(&socket, &route_request(range), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 1024];
    let (received, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    acknowledged(&answer[..received])
}

/// An answer is a message header of 16 bytes, then the negated error number, 0 for success.
fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let Some(code) = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes)
    else {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    };
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
}

/// A `RTM_NEWROUTE` message for a range that is local to this machine.
fn route_request(range: &LocalRange) -> Vec<u8> {
    const NEW_ROUTE: u16 = 24;
    const REQUEST_ACKNOWLEDGED_CREATE: u16 = 0x1 | 0x4 | 0x400;
    const TABLE_LOCAL: u8 = 255;
    const PROTOCOL_STATIC: u8 = 4;
    const SCOPE_HOST: u8 = 254;
    const TYPE_LOCAL: u8 = 2;
    const ATTRIBUTE_DESTINATION: u16 = 1;
    const ATTRIBUTE_INTERFACE: u16 = 4;
    let (family, address) = match range.address {
        IpAddr::V4(address) => (AddressFamily::INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AddressFamily::INET6, address.octets().to_vec()),
    };
    let family = u8::try_from(family.as_raw()).unwrap_or(0);
    let mut body =
        vec![family, range.prefix_bits, 0, 0, TABLE_LOCAL, PROTOCOL_STATIC, SCOPE_HOST, TYPE_LOCAL];
    body.extend(0_u32.to_ne_bytes());
    push_attribute(&mut body, ATTRIBUTE_DESTINATION, &address);
    push_attribute(&mut body, ATTRIBUTE_INTERFACE, &LOOPBACK_INDEX.to_ne_bytes());
    let length = u32::try_from(16 + body.len()).unwrap_or(u32::MAX);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(NEW_ROUTE.to_ne_bytes());
    message.extend(REQUEST_ACKNOWLEDGED_CREATE.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(body);
    message
}

/// Both kinds of value are multiples of four bytes, so that no padding is needed.
fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(u16::try_from(4 + value.len()).unwrap_or(u16::MAX).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
}

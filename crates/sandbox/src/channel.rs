//! Framed messages with descriptors over a Unix stream socket: four bytes of length, then the message.
//! Both ends are this program; still every length is bounded, because one end is next to the agent.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use rustix::process::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The largest message; a spec with its synthesized files must fit.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// The kernel takes 253 descriptors per message.
pub(crate) const MAX_DESCRIPTORS: usize = 200;

const SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS), ScmCredentials(1));

/// Sends `message` with `descriptors` attached to its first byte.
pub fn send<M: Serialize>(
    socket: &UnixStream,
    message: &M,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = match u32::try_from(body.len()) {
        Ok(length) if body.len() <= MAX_MESSAGE_BYTES => length.to_le_bytes(),
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too large")),
    };
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let parts = [IoSlice::new(&length), IoSlice::new(&body)];
    // NOSIGNAL: a peer that died is an error value here, not a signal for the whole program.
    let sent = retry(|| rustix::net::sendmsg(socket.as_fd(), &parts, &mut ancillary, SendFlags::NOSIGNAL))?;
    if sent < length.len() {
        send_rest(socket, &length[sent..])?;
        return send_rest(socket, &body);
    }
    send_rest(socket, &body[sent - length.len()..])
}

fn send_rest(socket: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = retry(|| rustix::net::send(socket.as_fd(), bytes, SendFlags::NOSIGNAL))?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// A message, the descriptors that came with it, and who sent it, if the socket was asked to tell.
pub(crate) struct Received<M> {
    pub(crate) message: M,
    pub(crate) descriptors: Vec<OwnedFd>,
    pub(crate) sender: Option<Pid>,
}

/// Receives one message and the descriptors that came with it. `None` at the end of the stream.
pub fn receive<M: DeserializeOwned>(socket: &UnixStream) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    Ok(receive_from(socket)?.map(|received| (received.message, received.descriptors)))
}

/// The same, with the sender's pid as this side sees it. Needs `tell_senders`.
pub(crate) fn receive_from<M: DeserializeOwned>(mut socket: &UnixStream) -> io::Result<Option<Received<M>>> {
    let mut header = [0; 4];
    let mut descriptors = Vec::new();
    let mut sender = None;
    let first = receive_first(socket, &mut header, &mut descriptors, &mut sender)?;
    if first == 0 {
        return Ok(None);
    }
    socket.read_exact(&mut header[first..])?;
    let length = u32::from_le_bytes(header) as usize;
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too large"));
    }
    let mut body = Vec::with_capacity(length.min(1 << 16));
    socket.take(length as u64).read_to_end(&mut body)?;
    let message = postcard::from_bytes(&body).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    Ok(Some(Received { message, descriptors, sender }))
}

/// Makes the kernel attach the sender's pid to each message that arrives here.
pub(crate) fn tell_senders(socket: &UnixStream) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_passcred(socket, true)?)
}

fn receive_first(
    socket: &UnixStream,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
    sender: &mut Option<Pid>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry(|| {
        let mut parts = [IoSliceMut::new(buffer)];
        rustix::net::recvmsg(socket.as_fd(), &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    for message in ancillary.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(rights) => descriptors.extend(rights),
            RecvAncillaryMessage::ScmCredentials(credentials) => *sender = Some(credentials.pid),
            _ => {}
        }
    }
    Ok(received.bytes)
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

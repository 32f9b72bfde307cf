//! Both directions of one websocket, until one of them ends.

use super::super::admission::AdmittedConnection;
use super::super::client::ClientConnection;
use super::super::decide::DecidedRequest;
use super::super::record::ConnectionRecord;
use super::super::response_mask::ResponseMask;
use super::super::stream::BoxStream;
use super::super::tunnel::{ByteCounts, CountedRecord};
use super::super::upstream::Upstream;
use super::frames::{DirectionEnd, TimedFrames};
use super::to_client::ToClient;
use super::to_server::ToServer;
use crate::websocket::{FrameHead, FrameOrder, Opcode, WebSocketFrameReader};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, WriteHalf};
use tokio::sync::Notify;

/// How long to wait for the other side to close as well.
const CLOSE_TIME: Duration = Duration::from_secs(5);
/// A close frame holds at most 125 bytes, two of which are the code.
const MAX_REASON_BYTES: usize = 120;

/// Starts after both sides have agreed. `record` is that of the handshake.
pub(in super::super) async fn relay(
    connection: &AdmittedConnection,
    client: ClientConnection,
    upstream: Upstream,
    decided: &DecidedRequest,
    mut record: ConnectionRecord,
) {
    let (client, from_client) = client.into_stream();
    let (server, from_server) = upstream.into_stream();
    let (client_reader, mut client_writer) = tokio::io::split(client);
    let (server_reader, mut server_writer) = tokio::io::split(server);
    let limits = connection.proxy.config.limits;
    let counts = ByteCounts::default();
    let counted = CountedRecord { record: &mut record, counts: &counts };
    let frames = TimedFrames { counts: &counts, quiet: limits.tunnel_idle, within_frame: limits.idle };
    let client_frames = WebSocketFrameReader::new(client_reader, from_client);
    let mut to_server = ToServer::new(connection, decided, client_frames, frames);
    let mut to_client = ToClient {
        connection,
        reader: WebSocketFrameReader::new(server_reader, from_server),
        order: FrameOrder::default(),
        frames,
        message_mask: ResponseMask::new(connection),
        control_mask: ResponseMask::new(connection),
    };
    let ended = tokio::select! {
        ended = run(&mut to_server, &mut server_writer, &mut to_client, &mut client_writer) => ended,
        // No close frame: this may be in the middle of another one.
        refusal = connection.watch_caller(&counts) => return counted.record.refused(&refusal),
    };
    match ended.end {
        DirectionEnd::Closed | DirectionEnd::Stopped => {}
        DirectionEnd::Broken(reason) => counted.record.broken(reason),
        DirectionEnd::Refused { refusal, close_code } => {
            if ended.between_frames {
                drop(frames.write(&mut client_writer, &close_frame(close_code, &refusal.detail)).await);
                drop(client_writer.shutdown().await);
            }
            counted.record.broken(refusal.detail);
        }
    }
}

struct WebsocketEnd {
    end: DirectionEnd,
    /// A close frame can be sent to the client only between two frames.
    between_frames: bool,
}

async fn run(
    to_server: &mut ToServer<'_>,
    server_writer: &mut WriteHalf<BoxStream>,
    to_client: &mut ToClient<'_>,
    client_writer: &mut WriteHalf<BoxStream>,
) -> WebsocketEnd {
    let stop = Notify::new();
    let out = to_server.run(server_writer);
    let back = to_client.run(client_writer, &stop);
    tokio::pin!(out, back);
    tokio::select! {
        end = &mut out => {
            if matches!(end, DirectionEnd::Refused { .. }) {
                stop.notify_one();
            }
            let other = tokio::time::timeout(CLOSE_TIME, &mut back).await;
            let between_frames = matches!(other, Ok(DirectionEnd::Stopped | DirectionEnd::Closed));
            WebsocketEnd { end, between_frames }
        }
        end = &mut back => {
            let other = match &end {
                DirectionEnd::Closed => tokio::time::timeout(CLOSE_TIME, &mut out).await.ok(),
                _ => None,
            };
            let refused = other.filter(|other| matches!(other, DirectionEnd::Refused { .. }));
            WebsocketEnd { end: refused.unwrap_or(end), between_frames: true }
        }
    }
}

fn close_frame(code: u16, reason: &str) -> Vec<u8> {
    let mut end = reason.len().min(MAX_REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let length = 2 + end as u64;
    let mut out = FrameHead { last: true, opcode: Opcode::Close, mask: None, length }.write();
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(&reason.as_bytes()[..end]);
    out
}

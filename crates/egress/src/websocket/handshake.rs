//! The handshake: what the client asks for, and whether the server agreed to it. A server that sends 101 to a request
//! that it did not understand must not get a stream that is not inspected.

use crate::http1::{RequestHead, ResponseHead};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const AGREEMENT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

fn key(request: &RequestHead) -> Option<&[u8]> {
    let mut keys = request.fields.all("sec-websocket-key");
    let key = keys.next()?;
    let fits = keys.next().is_none() && STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16);
    fits.then_some(key)
}

/// Whether the request is a valid websocket handshake.
fn check_handshake(request: &RequestHead) -> Result<(), &'static str> {
    if request.method != "GET" {
        return Err("a websocket is asked for with GET");
    }
    if request.fields.words("sec-websocket-version") != ["13"] {
        return Err("Sec-WebSocket-Version is not 13");
    }
    if key(request).is_none() {
        return Err("Sec-WebSocket-Key is not one key of 16 bytes");
    }
    Ok(())
}

/// Prepares a handshake for the server: without extensions, which would make text unreadable. Other requests stay as
/// they are.
pub fn prepare_handshake(request: &mut RequestHead) -> Result<(), &'static str> {
    if request.is_websocket() {
        check_handshake(request)?;
        request.fields.remove("sec-websocket-extensions");
    }
    Ok(())
}

/// Whether the server's 101 belongs to this request.
pub fn is_accepted(request: &RequestHead, response: &ResponseHead) -> bool {
    let Some(key) = key(request) else { return false };
    let text = [key, AGREEMENT.as_bytes()].concat();
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &text);
    let expected = STANDARD.encode(digest);
    let accepts: Vec<&[u8]> = response.fields.all("sec-websocket-accept").collect();
    accepts == [expected.as_bytes()]
        && response.fields.words("upgrade") == ["websocket"]
        && response.fields.all("sec-websocket-extensions").next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(key: &str) -> RequestHead {
        let text = format!(
            "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n\
             Sec-WebSocket-Version: 13\r\n\r\n"
        );
        RequestHead::parse(text.as_bytes()).unwrap()
    }

    fn answer(rest: &str) -> ResponseHead {
        let text = format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{rest}\r\n\r\n");
        ResponseHead::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn handshake_needs_the_right_accept_key() {
        // The example of RFC 6455.
        let request = request("dGhlIHNhbXBsZSBub25jZQ==");
        let accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert_eq!(check_handshake(&request), Ok(()));
        assert!(is_accepted(&request, &answer(&format!("Upgrade: websocket\r\n{accept}"))));
        for wrong in [
            accept.to_owned(),
            "Upgrade: websocket".to_owned(),
            "Upgrade: websocket\r\nSec-WebSocket-Accept: x".to_owned(),
            format!("Upgrade: websocket\r\n{accept}\r\n{accept}"),
            format!("Upgrade: websocket\r\n{accept}\r\nSec-WebSocket-Extensions: permessage-deflate"),
        ] {
            assert!(!is_accepted(&request, &answer(&wrong)), "{wrong}");
        }
    }

    #[test]
    fn a_handshake_without_a_key_is_none() {
        assert!(check_handshake(&request("")).is_err());
        assert!(check_handshake(&request("dGhl")).is_err());
    }
}

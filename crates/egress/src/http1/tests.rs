//! Heads and bodies with one reading pass, ambiguous ones are refused; and a lenient parser reads everything that passes
//! in the same way.

use super::body::relay_body;
use super::reader::ReadHeadError;
use super::*;
use proptest::prelude::*;
use std::time::Duration;

const TIME: Duration = Duration::from_secs(1);

fn parse(text: &str) -> Result<RequestHead, HeadError> {
    RequestHead::parse(text.as_bytes())
}

#[test]
fn ambiguous_heads_are_refused() {
    for (text, error) in [
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", HeadError::BareLineEnd),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", HeadError::BareLineEnd),
        ("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", HeadError::BareLineEnd),
        ("GET / HTTP/1.1\r\nHost: a\r\n", HeadError::BareLineEnd),
        ("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", HeadError::ControlByte),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", HeadError::FoldedLine),
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", HeadError::FoldedLine),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", HeadError::FieldName),
        ("GET / HTTP/1.1\r\nHost\r\n\r\n", HeadError::FieldName),
        ("GET / HTTP/1.1\r\n: a\r\n\r\n", HeadError::FieldName),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::StartLine),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", HeadError::StartLine),
        ("GET /\r\nHost: a\r\n\r\n", HeadError::StartLine),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", HeadError::Version),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", HeadError::Version),
        ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Method),
        ("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        ("GET /é HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        ("GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        ("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        ("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\n",
            HeadError::ContentLength,
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", HeadError::ContentLength),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", HeadError::ContentLength),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", HeadError::ContentLength),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", HeadError::ContentLength),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999999999999\r\n\r\n",
            HeadError::ContentLength,
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            HeadError::LengthAndChunks,
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            HeadError::TransferEncoding,
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", HeadError::TransferEncoding),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            HeadError::TransferEncoding,
        ),
        ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", HeadError::TransferEncoding),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close, host\r\n\r\n", HeadError::ConnectionOption),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: authorization\r\n\r\n", HeadError::ConnectionOption),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
            HeadError::Upgrade,
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket, h2c\r\n\r\n", HeadError::Upgrade),
    ] {
        assert_eq!(parse(text), Err(error), "{text:?}");
    }
}

#[test]
fn hosts_stand_once() {
    let host = |text: &str| parse(text).and_then(|head| head.host().map(|host| host.map(str::to_owned)));
    assert_eq!(host("GET / HTTP/1.1\r\nHost: a:80\r\n\r\n"), Ok(Some("a:80".to_owned())));
    assert_eq!(host("GET / HTTP/1.1\r\n\r\n"), Err(HeadError::Host));
    assert_eq!(host("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), Err(HeadError::Host));
    assert_eq!(host("GET / HTTP/1.0\r\n\r\n"), Ok(None));
}

#[test]
fn targets_have_their_forms() {
    let target = |line: &str| parse(&format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n")).unwrap().target;
    let origin = |path: &str, query: Option<&str>| RequestTarget::Origin {
        path: path.into(),
        query: query.map(str::to_owned),
    };
    assert_eq!(target("GET /a?b=c?d"), origin("/a", Some("b=c?d")));
    assert_eq!(target("GET /"), origin("/", None));
    assert_eq!(target("CONNECT a:443"), RequestTarget::Authority("a:443".into()));
    assert_eq!(target("OPTIONS *"), RequestTarget::Asterisk);
    let absolute = |path: &str, query: Option<&str>| RequestTarget::Absolute {
        authority: "a:8080".into(),
        path: path.into(),
        query: query.map(str::to_owned),
    };
    assert_eq!(target("GET http://a:8080/x?y"), absolute("/x", Some("y")));
    assert_eq!(target("GET HTTP://a:8080"), absolute("/", None));
    assert_eq!(target("GET http://a:8080?y"), absolute("/", Some("y")));
}

#[test]
fn upstream_request_is_rebuilt() {
    let head = parse(
        "POST http://a/x HTTP/1.1\r\nHost: a\r\nProxy-Authorization: b\r\nProxy-Connection: keep-alive\r\n\
         Connection: keep-alive\r\nTE: trailers\r\nX-Own: 1\r\nContent-Length: 3\r\n\r\n",
    )
    .unwrap();
    let out = String::from_utf8(head.write_upstream("a", "/canonical?q")).unwrap();
    assert_eq!(out, "POST /canonical?q HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX-Own: 1\r\n\r\n");
}

#[test]
fn answers_are_framed_by_their_method_and_status() {
    let framing =
        |text: &str, method: &str| ResponseHead::parse(text.as_bytes()).and_then(|head| head.framing(method));
    assert_eq!(framing("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "GET"), Ok(Framing::Length(3)));
    assert_eq!(framing("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "HEAD"), Ok(Framing::None));
    assert_eq!(framing("HTTP/1.1 304 \r\nContent-Length: 3\r\n\r\n", "GET"), Ok(Framing::None));
    assert_eq!(framing("HTTP/1.1 200\r\n\r\n", "GET"), Ok(Framing::UntilClose));
    assert_eq!(framing("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET"), Ok(Framing::Chunked));
    let doubled = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(framing(doubled, "GET"), Err(HeadError::LengthAndChunks));
    for bad in
        ["HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 999 X\r\n\r\n", "ICY 200 OK\r\n\r\n", "HTTP/1.1 200OK\r\n\r\n"]
    {
        assert!(framing(bad, "GET").is_err(), "{bad}");
    }
}

async fn relayed(bytes: &[u8], framing: Framing) -> Result<(u64, String, Vec<u8>), BodyError> {
    let mut reader = HeadReader::new(bytes);
    let mut out = Vec::new();
    let length = relay_body(&mut reader, &mut out, framing, TIME, &mut |_: &[u8]| false).await?;
    let (unread, ahead) = reader.into_parts();
    Ok((length, String::from_utf8(out).unwrap(), [&ahead, unread].concat()))
}

#[tokio::test]
async fn bodies_end_where_their_framing_says() {
    let (length, out, rest) = relayed(b"abcNEXT", Framing::Length(3)).await.unwrap();
    assert_eq!((length, out.as_str(), rest.as_slice()), (3, "abc", &b"NEXT"[..]));
    let chunks = b"3;ext=\"x\"\r\nabc\r\n0a\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nNEXT";
    let (length, out, rest) = relayed(chunks, Framing::Chunked).await.unwrap();
    assert_eq!((length, rest.as_slice()), (13, &b"NEXT"[..]));
    assert_eq!(out, "3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n");
    assert!(matches!(relayed(b"ab", Framing::Length(3)).await, Err(BodyError::Cut)));
    for bad in [
        "3\nabc\r\n0\r\n\r\n",
        "+3\r\nabc\r\n",
        "0x3\r\nabc\r\n",
        " 3\r\nabc\r\n",
        "3 \r\nabc\r\n",
        "\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "ffffffffffffffff\r\n",
        "-1\r\n",
    ] {
        assert!(relayed(bad.as_bytes(), Framing::Chunked).await.is_err(), "{bad:?}");
    }
}

#[tokio::test]
async fn heads_are_read_one_by_one_and_bounded() {
    let mut reader = HeadReader::new(&b"A\r\n\r\nB\n\nC\r\nD\r\n\r\nrest"[..]);
    assert_eq!(reader.read_head(TIME, TIME).await.unwrap().unwrap(), b"A\r\n\r\n");
    // An end that a lenient parser would accept ends the head here too; the head is refused afterwards.
    assert_eq!(reader.read_head(TIME, TIME).await.unwrap().unwrap(), b"B\n\n");
    assert_eq!(reader.read_head(TIME, TIME).await.unwrap().unwrap(), b"C\r\nD\r\n\r\n");
    assert!(matches!(reader.read_head(TIME, TIME).await, Err(ReadHeadError::Cut)));
    let endless = vec![b'a'; MAX_HEAD_BYTES + 1];
    let mut reader = HeadReader::new(&endless[..]);
    assert!(matches!(reader.read_head(TIME, TIME).await, Err(ReadHeadError::TooLarge)));
    let mut silent = HeadReader::new(tokio::io::empty());
    assert!(silent.read_head(TIME, TIME).await.unwrap().is_none());
}

/// A TLS connection that its client closed without `close_notify`.
struct Closed(&'static [u8]);

impl tokio::io::AsyncRead for Closed {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        if self.0.is_empty() {
            return std::task::Poll::Ready(Err(std::io::ErrorKind::UnexpectedEof.into()));
        }
        buffer.put_slice(std::mem::take(&mut self.0));
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_client_that_leaves_after_its_request_has_done_nothing_wrong() {
    let mut reader = HeadReader::new(Closed(b"A\r\n\r\n"));
    assert!(reader.read_head(TIME, TIME).await.unwrap().is_some());
    assert!(reader.read_head(TIME, TIME).await.unwrap().is_none());
    let mut within = HeadReader::new(Closed(b"A\r\n"));
    assert!(matches!(within.read_head(TIME, TIME).await, Err(ReadHeadError::Io(_))));
}

/// Fragments of attacks, so that random heads reach the edge cases.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        Just("\r\n".to_owned()),
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("\0".to_owned()),
        Just(" ".to_owned()),
        Just("Content-Length: 3\r\n".to_owned()),
        Just("Content-Length: 03\r\n".to_owned()),
        Just("Transfer-Encoding: chunked\r\n".to_owned()),
        Just("Transfer-Encoding:\tchunked\r\n".to_owned()),
        Just("Host: a\r\n".to_owned()),
        Just("Connection: close\r\n".to_owned()),
        Just("\r\n\r\n".to_owned()),
    ]
}

proptest! {
    #[test]
    fn what_passes_is_read_alike_by_a_forgiving_parser(pieces in proptest::collection::vec(piece(), 0..8)) {
        let text = format!("POST /x HTTP/1.1\r\n{}\r\n", pieces.concat());
        let Ok(head) = RequestHead::parse(text.as_bytes()) else { return Ok(()) };
        let mut fields = [httparse::EMPTY_HEADER; 256];
        let mut theirs = httparse::Request::new(&mut fields);
        let parsed = theirs.parse(text.as_bytes());
        prop_assert_eq!(parsed, Ok(httparse::Status::Complete(text.len())), "{:?}", text);
        prop_assert_eq!(theirs.method, Some("POST"));
        let ours: Vec<(String, Vec<u8>)> =
            head.fields.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
        let theirs: Vec<(String, Vec<u8>)> =
            theirs.headers.iter().map(|field| (field.name.to_owned(), field.value.trim_ascii().to_vec())).collect();
        prop_assert_eq!(ours, theirs);
        let values = |name: &str| head.fields.all(name).count();
        prop_assert!(values("content-length") + values("transfer-encoding") <= 1);
    }

    #[test]
    fn any_bytes_are_parsed_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(RequestHead::parse(&bytes));
        drop(ResponseHead::parse(&bytes));
    }

    /// Fields from HTTP/2: what passes can be written as HTTP/1.1 without gaining fields.
    #[test]
    fn fields_of_another_reader_stay_what_they_are(
        fields in proptest::collection::vec(("[ -~\r\n\0]{0,6}", "[ -~\r\n\0]{0,8}"), 0..5), target in "[ -~\r\n]{0,10}",
    ) {
        let listed = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let Ok(listed) = Fields::of(listed) else { return Ok(()) };
        let Ok(head) = RequestHead::of(b"GET", target.as_bytes(), HttpVersion::Http11, listed) else { return Ok(()) };
        let kept = head.without_hop().iter().filter(|(name, _)| !name.eq_ignore_ascii_case("upgrade")).count();
        let again = RequestHead::parse(&head.write_upstream("a", &target));
        prop_assert_eq!(again.map(|again| again.without_hop().iter().count()), Ok(kept));
    }

    #[test]
    fn what_we_write_we_read_again(pieces in proptest::collection::vec(piece(), 0..8)) {
        let text = format!("POST /x HTTP/1.1\r\nHost: a\r\n{}\r\n", pieces.concat());
        let Ok(head) = RequestHead::parse(text.as_bytes()) else { return Ok(()) };
        let out = head.write_upstream("a", "/x");
        let again = RequestHead::parse(&out);
        prop_assert!(again.is_ok(), "{:?}", String::from_utf8_lossy(&out));
        prop_assert_eq!(again.map(|again| again.framing), Ok(head.framing));
    }
}

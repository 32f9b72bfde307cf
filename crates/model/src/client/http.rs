//! One POST over plain HTTP/1.1, and its answer's body in portions. Knows only what the gateway sends: a length, chunks, or
//! bytes until the end.

use super::{Client, ClientError, MAX_ANSWER_BYTES};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

const MAX_LINE_BYTES: u64 = 16 << 10;
const MAX_HEADER_LINES: usize = 100;

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) content_type: String,
    reader: BufReader<TcpStream>,
    framing: Framing,
}

enum Framing {
    Length { left: u64 },
    Chunks { left: u64, begun: bool },
    ToEnd,
    Done,
}

pub(super) fn post(client: &Client, path: &str, body: &[u8]) -> Result<Reply, ClientError> {
    let address = client.address;
    let connected = TcpStream::connect_timeout(&address, client.connect_time);
    let mut stream = connected.map_err(|source| ClientError::Connect { address, source })?;
    let set_up = stream
        .set_nodelay(true)
        .and_then(|()| stream.set_read_timeout(Some(client.idle_time)))
        .and_then(|()| stream.set_write_timeout(Some(client.idle_time)));
    set_up.map_err(|source| ClientError::Connect { address, source })?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         accept: text/event-stream, application/json\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut reader = BufReader::new(stream);
    // A gateway that refuses early answers before it has read the body: its answer says more than the failed write.
    match (read_head(&mut reader), sent) {
        (Ok((status, content_type, framing)), _) => Ok(Reply { status, content_type, reader, framing }),
        (Err(_), Err(source)) => Err(ClientError::Send(source)),
        (Err(error), Ok(())) => Err(error),
    }
}

fn read_head(reader: &mut BufReader<TcpStream>) -> Result<(u16, String, Framing), ClientError> {
    let status_line = read_line(reader)?;
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|code| code.parse::<u16>().ok())
        .ok_or_else(|| ClientError::Protocol(format!("it begins with {status_line:?}")))?;
    let mut content_type = String::new();
    let mut framing = Framing::ToEnd;
    for _ in 0..MAX_HEADER_LINES {
        let line = read_line(reader)?;
        if line.is_empty() {
            return Ok((status, content_type, framing));
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-type" => value.clone_into(&mut content_type),
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => {
                framing = Framing::Chunks { left: 0, begun: false };
            }
            "content-length" => {
                let left =
                    value.parse().map_err(|_| ClientError::Protocol(format!("bad length {value:?}")))?;
                framing = Framing::Length { left };
            }
            _ => {}
        }
    }
    Err(ClientError::Protocol(format!("more than {MAX_HEADER_LINES} header lines")))
}

fn read_line(reader: &mut BufReader<TcpStream>) -> Result<String, ClientError> {
    let mut line = Vec::new();
    reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(ClientError::Read)?;
    if line.pop() != Some(b'\n') {
        return Err(ClientError::Read(std::io::ErrorKind::UnexpectedEof.into()));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map_err(|_| ClientError::Protocol("a header line is not text".to_owned()))
}

impl Reply {
    /// 0 is the end of the body.
    pub(super) fn read(&mut self, portion: &mut [u8]) -> Result<usize, ClientError> {
        let limit = match &mut self.framing {
            Framing::Done => return Ok(0),
            Framing::ToEnd => portion.len() as u64,
            Framing::Length { left } => *left,
            Framing::Chunks { left, begun } => {
                if *left == 0 {
                    if std::mem::replace(begun, true) {
                        read_line(&mut self.reader)?;
                    }
                    let line = read_line(&mut self.reader)?;
                    let size = line.split(';').next().unwrap_or_default().trim();
                    *left = u64::from_str_radix(size, 16)
                        .map_err(|_| ClientError::Protocol(format!("bad chunk size {size:?}")))?;
                }
                *left
            }
        };
        if limit == 0 {
            self.framing = Framing::Done;
            return Ok(0);
        }
        let most = usize::try_from(limit).unwrap_or(usize::MAX).min(portion.len());
        let length = self.reader.read(&mut portion[..most]).map_err(ClientError::Read)?;
        match &mut self.framing {
            Framing::Length { left } | Framing::Chunks { left, .. } => {
                if length == 0 {
                    return Err(ClientError::Read(std::io::ErrorKind::UnexpectedEof.into()));
                }
                *left -= length as u64;
            }
            Framing::ToEnd | Framing::Done => {}
        }
        Ok(length)
    }

    pub(super) fn rest(&mut self) -> Result<Vec<u8>, ClientError> {
        let mut all = Vec::new();
        let mut portion = vec![0; 16 << 10];
        loop {
            match self.read(&mut portion)? {
                0 => return Ok(all),
                length if all.len() + length > MAX_ANSWER_BYTES => return Err(ClientError::TooLarge),
                length => all.extend_from_slice(&portion[..length]),
            }
        }
    }
}

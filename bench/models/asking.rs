//! A client that keeps its connection and reads whole answers.

use model::wire::Wire;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Whole,
    Streamed,
}

pub(crate) struct Client {
    address: SocketAddr,
    wire: Wire,
    path: &'static str,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, wire: Wire, path: &'static str) -> Self {
        Self { address, wire, path }
    }

    /// The median of many requests, one after the other.
    pub(crate) fn latency(&self, asked: Asked, count: usize) -> Duration {
        let mut connection = BufReader::new(TcpStream::connect(self.address).unwrap());
        let mut times: Vec<Duration> = (0..count)
            .map(|_| {
                let begun = Instant::now();
                self.ask(&mut connection, asked);
                begun.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 2]
    }

    /// The time divided by the requests, over several connections at once.
    pub(crate) fn time_of_each(&self, connections: usize, count: usize) -> Duration {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..connections {
                scope.spawn(|| {
                    let mut connection = BufReader::new(TcpStream::connect(self.address).unwrap());
                    for _ in 0..count / connections {
                        self.ask(&mut connection, Asked::Whole);
                    }
                });
            }
        });
        begun.elapsed() / u32::try_from(count).unwrap()
    }

    fn ask(&self, connection: &mut BufReader<TcpStream>, asked: Asked) {
        let body = self.body(asked).to_string();
        let key = key();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nauthorization: Bearer {key}\r\n\
             x-api-key: {key}\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n{body}",
            self.path,
            body.len()
        );
        connection.get_mut().write_all(head.as_bytes()).unwrap();
        let head = read_head(connection);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        match length {
            Some(length) => drop(read(connection, length)),
            None => while read_chunk(connection) {},
        }
    }

    fn body(&self, asked: Asked) -> Value {
        let stream = asked == Asked::Streamed;
        let said = json!([{"role": "user", "content": "Say one word."}]);
        match self.wire {
            Wire::Messages => {
                json!({"model": "bench", "max_tokens": 100, "messages": said, "stream": stream})
            }
            Wire::Responses => json!({"model": "bench", "input": said, "stream": stream}),
            Wire::Chat => {
                json!({"model": "bench", "messages": said, "stream": stream, "stream_options": stream.then(|| json!({"include_usage": true}))})
            }
        }
    }
}

/// LiteLLM starts only with a key that looks strong.
pub(crate) fn key() -> String {
    format!("sk-{}", "5f0c9a71".repeat(8))
}

/// In lower case.
pub(crate) fn read_head(from: &mut impl BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head).unwrap_or(0) == 0 {
            return String::new();
        }
    }
    let (first, rest) = head.split_once("\r\n").unwrap();
    format!("{first}\r\n{}", rest.to_ascii_lowercase())
}

pub(crate) fn read(from: &mut impl Read, length: usize) -> Vec<u8> {
    let mut body = vec![0; length];
    from.read_exact(&mut body).unwrap();
    body
}

/// Whether more follow.
fn read_chunk(from: &mut impl BufRead) -> bool {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    let length = usize::from_str_radix(line.trim(), 16).unwrap();
    drop(read(from, length + 2));
    length > 0
}

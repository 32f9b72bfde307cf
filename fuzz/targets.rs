//! Everything that reads bytes of somebody else, one function each: it must end, and must not panic. What reads back what it
//! wrote is checked too. The gate runs each for a bounded number of mutations (`tests/fuzzed.rs`); libFuzzer runs them for
//! as long as it is let (`fuzz/README.md`).

use std::path::Path;
use std::time::Duration;

use egress::dns::{QuestionType, read_question, read_reply, write_question};
use egress::http1::{Framing, HeadReader, RequestHead, ResponseHead, collect_body};
use egress::websocket::{FrameHead, FrameOrder};
use fullsend::internal::git;
use fullsend::internal::image::{self, Caps};
use fullsend::internal::neutral_contract::{HookPhase, NeutralRequest};
use session::{ImportTerms, SessionLimits, Sessions, SqliteStore};

/// One reader, and texts that it reads, from which mutations start.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    pub seeds: &'static [&'static [u8]],
    /// How many mutations the gate tries. Targets that write files try fewer.
    pub rounds: usize,
}

pub const TARGETS: &[Target] = &[
    Target {
        name: "http1_head",
        run: http1_head,
        seeds: &[
            b"GET /a?b=c HTTP/1.1\r\nHost: api.test\r\nContent-Length: 3\r\nConnection: close\r\n\r\n",
            b"POST http://a.test:80/x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nUpgrade: websocket\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n",
        ],
        rounds: 4_000,
    },
    Target {
        name: "http1_body",
        run: http1_body,
        seeds: &[
            b"5;a=b\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
            b"1\r\na\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
        ],
        rounds: 1_000,
    },
    Target {
        name: "sse",
        run: sse,
        seeds: &[
            b"event: message_start\ndata: {\"a\":1}\n\nid: 7\nretry: 10\ndata: b\ndata: c\n\n",
            b": comment\r\ndata: [DONE]\r\n\r\n",
        ],
        rounds: 4_000,
    },
    Target {
        name: "websocket",
        run: websocket,
        seeds: &[b"\x81\x85\x01\x02\x03\x04hello", b"\x02\x7e\x01\x00", b"\x88\x02\x03\xe8", b"\x89\x7f\0\0\0\0\0\0\x10\0"],
        rounds: 8_000,
    },
    Target {
        name: "dns",
        run: dns,
        seeds: &[
            b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0\x03api\x04test\x00\x00\x01\x00\x01",
            b"\x12\x34\x81\x80\x00\x01\x00\x01\0\0\0\0\x03api\x04test\x00\x00\x01\x00\x01\xc0\x0c\x00\x01\x00\x01\0\0\0\x3c\x00\x04\x5d\xb8\xd8\x22",
        ],
        rounds: 8_000,
    },
    Target {
        name: "git_config",
        run: git_config,
        seeds: &[
            b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = git@a.test:b/c # d\n",
            b"[include]\n path = \"/etc/\\\nx\"\n[filter \"a\\\"b\"] clean = sh -c 'x' ; y\n",
        ],
        rounds: 4_000,
    },
    Target { name: "git_index", run: git_index, seeds: &[GIT_INDEX], rounds: 200 },
    Target { name: "tar_layer", run: tar_layer, seeds: &[b"a/file\0", b"./../../etc/passwd\0"], rounds: 40 },
    Target {
        name: "policy",
        run: policy,
        seeds: &[b"version: 1\nnetwork_policies:\n  a:\n    endpoints:\n      - {host: '*.a.test', port: 443, protocol: rest, rules: [{allow: {method: GET, path: '/x/**'}}]}\n    binaries: [{path: '/usr/bin/*'}]\n"],
        rounds: 400,
    },
    Target {
        name: "yaml",
        run: yaml_document,
        seeds: &[b"a: &a {b: *c}\nc: [1, 'it''s', \"\\u00e9\"]\nd: |\n  block\ne: >-\n  folded\n", b"- - ? x\n    : !!str y\n"],
        rounds: 2_000,
    },
    Target {
        name: "session_bundle",
        run: session_bundle,
        seeds: &[b"{\"type\":\"bundle\",\"version\":1,\"header\":{}}\n{\"type\":\"event\"}\n"],
        rounds: 60,
    },
    Target {
        name: "hook_json",
        run: hook_json,
        seeds: &[b"{\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"ls\"},\"tool_response\":\"x\",\"id\":\"1\"}"],
        rounds: 4_000,
    },
];

fn http1_head(bytes: &[u8]) {
    drop(ResponseHead::parse(bytes));
    if let Ok(head) = RequestHead::parse(bytes) {
        let written = head.write_upstream("api.test", "/a");
        let again = RequestHead::parse(&written).expect("what is written can be read");
        assert_eq!((again.method, again.framing), (head.method, head.framing));
    }
}

fn http1_body(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    for framing in [Framing::Chunked, Framing::Length(5), Framing::None] {
        let mut reader = HeadReader::new(bytes);
        let most = bytes.len() as u64;
        let body =
            runtime.block_on(collect_body(&mut reader, framing, most, Duration::from_secs(1), &mut |_| true));
        assert!(body.map_or(true, |body| body.len() <= bytes.len()));
    }
}

fn sse(bytes: &[u8]) {
    let mut whole = model::internal::SseDecoder::default();
    let mut pieces = model::internal::SseDecoder::default();
    let mut first = Vec::new();
    let mut second = Vec::new();
    if whole.push(bytes).is_err() {
        return;
    }
    first.extend(std::iter::from_fn(|| whole.next_frame()).map(|frame| (frame.event, frame.data)));
    for byte in bytes {
        if pieces.push(&[*byte]).is_err() {
            return;
        }
        second.extend(std::iter::from_fn(|| pieces.next_frame()).map(|frame| (frame.event, frame.data)));
    }
    assert_eq!(first, second, "frames do not depend on how they arrive");
}

fn websocket(bytes: &[u8]) {
    let mut order = FrameOrder::default();
    let mut rest = bytes;
    while let Ok(Some((head, length))) = FrameHead::parse(rest) {
        let written = head.write();
        let (again, _) =
            FrameHead::parse(&written).expect("what is written can be read").expect("it is whole");
        assert_eq!(again, head);
        if order.admit(&head).is_err() {
            return;
        }
        let body = usize::try_from(head.length).unwrap_or(usize::MAX);
        let Some(next) = rest.get(length..).and_then(|rest| rest.get(body..)) else { return };
        rest = next;
    }
}

fn dns(bytes: &[u8]) {
    if let Ok(question) = read_question(bytes) {
        // A name may be written in more ways than the one that we write.
        if let Ok(written) = write_question(&question) {
            assert_eq!(read_question(&written).expect("what is written can be read").name, question.name);
        }
        drop(read_reply(bytes, &question));
    }
    let asked = egress::dns::DnsQuestion { id: 0x1234, name: "api.test".to_owned(), kind: QuestionType::A };
    drop(read_reply(bytes, &asked));
}

fn git_config(bytes: &[u8]) {
    let rewritten = git::rewrite_config(bytes);
    assert_eq!(git::rewrite_config(&rewritten), rewritten, "nothing is left to take away");
}

const GIT_INDEX: &[u8] = b"DIRC\0\0\0\x02\0\0\0\x01\
\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x81\xa4\0\0\0\0\0\0\0\0\0\0\0\0\
01234567890123456789\0\x04.env\0\0\0\0\0\0";

fn git_index(bytes: &[u8]) {
    in_directory(|place| {
        std::fs::write(place.join("index"), bytes).expect("a file");
        git::tracked_count(place);
        git::tracked_secrets(&place.join("index"));
    });
}

/// The bytes are the fields of a header, which gets a right checksum.
fn tar_layer(bytes: &[u8]) {
    let mut header = [0_u8; 512];
    let length = bytes.len().min(512);
    header[..length].copy_from_slice(&bytes[..length]);
    header[257..262].copy_from_slice(b"ustar");
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    in_directory(|place| {
        let archive = [&header[..], &[0; 1024]].concat();
        std::fs::write(place.join("image.tar"), archive).expect("a file");
        drop(image::prepare(&place.join("image.tar"), &place.join("cache"), Caps::default()));
        assert!(!place.join("passwd").exists());
    });
}

fn policy(bytes: &[u8]) {
    let mut sources = yaml::Sources::default();
    let source = sources.add("policy.yaml", String::from_utf8_lossy(bytes).into_owned());
    if let Ok(parsed) = policy::Policy::parse(&sources, source) {
        drop(policy::Compiled::new(&parsed.policy));
    }
}

fn yaml_document(bytes: &[u8]) {
    let mut sources = yaml::Sources::default();
    let source = sources.add("a.yaml", String::from_utf8_lossy(bytes).into_owned());
    drop(yaml::parse(&sources, source, yaml::ParseLimits::default()));
}

fn session_bundle(bytes: &[u8]) {
    in_directory(|place| {
        let store = SqliteStore::open(&place.join("sessions.db")).expect("a store");
        let mut sessions = Sessions::new(Box::new(store), SessionLimits::default());
        drop(sessions.import(&mut &bytes[..], &ImportTerms::default()));
    });
}

fn hook_json(bytes: &[u8]) {
    for phase in [HookPhase::Pre, HookPhase::Post] {
        drop(NeutralRequest::read(phase, None, bytes));
    }
}

fn in_directory(look: impl FnOnce(&Path)) {
    let place = tempfile::tempdir().expect("a directory");
    look(place.path());
}

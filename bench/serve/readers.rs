//! Readers of event streams: what one costs while nothing happens, how soon it gets an event, and whether a thousand of them
//! get every event once while the server is killed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::server::{EventStream, Served, append, get, pause};
use super::{line, quantile};

const IDLE_READERS: usize = 500;
const IDLE_SECONDS: u64 = 10;
const LATENCY_ROUNDS: usize = 200;

const SESSIONS: usize = 50;
const READERS: usize = 1000;
const APPENDS_PER_SECOND: u64 = 200;
const LOAD_SECONDS: u64 = 20;
/// After the last append, until everybody must have everything.
const CATCH_UP: Duration = Duration::from_secs(180);

pub fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

pub fn idle() {
    in_runtime(async {
        let served = Served::start();
        let session = served.create_session().await;
        let before = served.memory();
        let mut silent = Vec::new();
        for _ in 0..IDLE_READERS {
            silent.push(TcpStream::connect(&served.host).await.unwrap());
        }
        pause(1000).await;
        let connected = served.memory();
        drop(silent);
        pause(1000).await;
        let empty = served.memory();
        let mut readers = Vec::new();
        for _ in 0..IDLE_READERS {
            readers.push(EventStream::open(&served.host, &session, 0).await.unwrap());
        }
        pause(1000).await;
        let with_readers = served.memory();
        let each = |memory: f64, base: f64| (memory - base).max(0.0) / IDLE_READERS as f64;
        line("idle-reader-memory-kb", each(with_readers, empty), each(connected, before).max(0.01));
        let start = served.processor_time();
        pause(IDLE_SECONDS * 1000).await;
        let busy = (served.processor_time() - start) / IDLE_SECONDS as f64;
        drop(readers);
        pause(2000).await;
        let start = served.processor_time();
        pause(IDLE_SECONDS * 1000).await;
        let alone = (served.processor_time() - start) / IDLE_SECONDS as f64;
        line("idle-500-readers-processor-ms-per-s", busy, alone.max(0.01));
    });
}

pub fn latency() {
    in_runtime(async {
        let served = Served::start();
        let session = served.create_session().await;
        let mut stream = EventStream::open(&served.host, &session, 0).await.unwrap();
        let mut streamed = Vec::new();
        let mut asked = Vec::new();
        let mut last = 0;
        for round in 0..LATENCY_ROUNDS {
            let message = format!("message {round}");
            append(&served.host, &session, &format!("key-{round}"), &message).await.unwrap();
            let stored = Instant::now();
            while let Ok((number, data)) = stream.next().await {
                last = number;
                if data.contains(&message) {
                    break;
                }
            }
            streamed.push(stored.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            let path = format!("/v1/sessions/{session}/events?after={}", last - 1);
            assert!(get(&served.host, &path).await.unwrap().to_string().contains(&message));
            asked.push(start.elapsed().as_secs_f64() * 1e3);
        }
        line("event-latency-p50-ms", quantile(&mut streamed, 0.5), quantile(&mut asked, 0.5));
        line("event-latency-p99-ms", quantile(&mut streamed, 0.99), quantile(&mut asked, 0.99));
    });
}

/// What all readers saw together.
#[derive(Default)]
struct Seen {
    delivered: AtomicU64,
    lost: AtomicU64,
    doubled: AtomicU64,
    reconnected: AtomicU64,
    latencies: Mutex<Vec<f64>>,
}

/// Reads one session until event `end` has come, however often the server goes away.
async fn read(host: String, session: String, seen: Arc<Seen>, end: Arc<AtomicU64>, began: Instant) {
    let mut last = 0;
    while end.load(Ordering::Relaxed) != last {
        let Ok(mut stream) = EventStream::open(&host, &session, last).await else {
            pause(100).await;
            continue;
        };
        seen.reconnected.fetch_add(1, Ordering::Relaxed);
        while end.load(Ordering::Relaxed) != last {
            let next = tokio::time::timeout(Duration::from_secs(1), stream.next()).await;
            let (number, data) = match next {
                Ok(Ok(event)) => event,
                Ok(Err(_)) => break,
                // Nothing came: look whether everything has.
                Err(_) => continue,
            };
            seen.delivered.fetch_add(1, Ordering::Relaxed);
            if number <= last {
                seen.doubled.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            seen.lost.fetch_add(number - last - 1, Ordering::Relaxed);
            last = number;
            let sent =
                data.split_once("sent at ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<f64>().ok());
            if let Some(sent) = sent {
                seen.latencies.lock().unwrap().push(began.elapsed().as_secs_f64() * 1e3 - sent);
            }
        }
    }
}

pub fn load() {
    in_runtime(async {
        let mut served = Served::start();
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(served.create_session().await);
        }
        let began = Instant::now();
        let seen = Arc::new(Seen::default());
        let ends: Vec<Arc<AtomicU64>> = (0..SESSIONS).map(|_| Arc::new(AtomicU64::new(u64::MAX))).collect();
        let base = served.memory();
        let readers: Vec<_> = (0..READERS)
            .map(|number| {
                let at = number % SESSIONS;
                let session = sessions[at].clone();
                tokio::spawn(read(
                    served.host.clone(),
                    session,
                    Arc::clone(&seen),
                    Arc::clone(&ends[at]),
                    began,
                ))
            })
            .collect();
        pause(3000).await;
        let total = APPENDS_PER_SECOND * LOAD_SECONDS;
        let next = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let appenders: Vec<_> = (0..16)
            .map(|_| {
                tokio::spawn(append_all(
                    served.host.clone(),
                    sessions.clone(),
                    Arc::clone(&next),
                    total,
                    start,
                    began,
                ))
            })
            .collect();
        let mut most = 0.0_f64;
        let mut restarted = false;
        while appenders.iter().any(|appender| !appender.is_finished()) {
            pause(200).await;
            most = most.max(served.memory());
            if !restarted && next.load(Ordering::Relaxed) >= total / 2 {
                restarted = true;
                served.restart();
            }
        }
        let took = start.elapsed().as_secs_f64();
        let stored = stored_messages(&served.host, &sessions, &ends).await;
        let caught_up = tokio::time::timeout(CATCH_UP, async {
            for reader in readers {
                drop(reader.await);
            }
        });
        let caught_up = caught_up.await.is_ok();
        let expected: u64 =
            ends.iter().map(|end| end.load(Ordering::Relaxed)).sum::<u64>() * (READERS / SESSIONS) as u64;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        println!(
            "load: everybody caught up: {caught_up}, {} streams opened by {READERS} readers",
            count(&seen.reconnected)
        );
        line("load-appends-per-second", total as f64 / took, APPENDS_PER_SECOND as f64);
        line("load-messages-stored-once", stored as f64, total as f64);
        line("load-events-delivered", count(&seen.delivered), expected as f64);
        println!("load-events-lost {} 0 -", count(&seen.lost));
        println!("load-events-doubled {} 0 -", count(&seen.doubled));
        line("load-memory-mb", most / 1024.0, base / 1024.0);
        let mut latencies = seen.latencies.lock().unwrap().clone();
        line("load-latency-p50-p99-ms", quantile(&mut latencies, 0.5), quantile(&mut latencies, 0.99));
    });
}

/// Appends at the agreed rate. What fails is sent again with the same key.
async fn append_all(
    host: String,
    sessions: Vec<String>,
    next: Arc<AtomicU64>,
    total: u64,
    start: Instant,
    began: Instant,
) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= total {
            return;
        }
        let due = Duration::from_secs_f64(number as f64 / APPENDS_PER_SECOND as f64);
        tokio::time::sleep(due.saturating_sub(start.elapsed())).await;
        let at = usize::try_from(number).unwrap() % sessions.len();
        let session = &sessions[at];
        let message = format!("message-{number} sent at {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
        while append(&host, session, &format!("key-{number}"), &message).await.is_err() {
            pause(50).await;
        }
    }
}

/// How many different messages are in the logs; one that is there twice stops the bench. Notes the last event of each session.
async fn stored_messages(host: &str, sessions: &[String], ends: &[Arc<AtomicU64>]) -> usize {
    let mut found = BTreeSet::new();
    for (session, end) in sessions.iter().zip(ends) {
        let mut after = 0;
        loop {
            let page =
                get(host, &format!("/v1/sessions/{session}/events?after={after}&limit=1000")).await.unwrap();
            let events = page["events"].as_array().unwrap();
            for event in events {
                after = event["seq"].as_u64().unwrap();
                let message = event["message"].as_str().and_then(|text| text.split(' ').next());
                if let Some(message) = message {
                    assert!(found.insert(message.to_owned()), "{message} is stored twice");
                }
            }
            if page["next"].is_null() {
                break;
            }
        }
        end.store(after, Ordering::Relaxed);
    }
    found.len()
}

//! A durable append, next to a bare insert of the same rows, as durable, in turns. The bare table has the same columns
//! and the two keys that every such log needs: a unique position and a unique id. The rows of a batch go in one
//! transaction on both sides, and to the server in one statement. Only ours also finds the session and earlier inputs,
//! checks every input, folds it into the state, seals it with a checksum, writes the state, keeps the index that the
//! end of a log is read by, and wakes those who wait.

use rusqlite::params;
use uuid::Uuid;

use crate::cluster::{Cluster, Durability};
use crate::fixture::{Clock, Directory, message, sleeps, worker};
use crate::{in_turns, line};
use session::{ClaimTarget, PostgresStore, SessionId, SessionLimits, Sessions, SqliteStore};

const BATCH: usize = 100;

pub(crate) fn run() {
    sqlite();
    postgres();
}

/// The text of a usual message.
fn text() -> String {
    "x".repeat(200)
}

/// The same as it is stored.
fn payload() -> String {
    serde_json::to_string(&message(&text())).unwrap()
}

/// Ids that grow with time and are random within a seed, as those of ours.
fn id(seq: i64) -> Uuid {
    let number = seq.unsigned_abs();
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Uuid::from_u64_pair(number / 100, mixed)
}

/// Appends, and now and then a wake that consumes the inputs, so that the queue does not grow for ever.
struct Ours {
    sessions: Sessions,
    clock: Clock,
    id: SessionId,
}

impl Ours {
    fn new(mut sessions: Sessions) -> Self {
        let mut clock = Clock::new(1);
        let id = sessions.create(&clock.header("bench")).unwrap().header.id;
        Self { sessions, clock, id }
    }

    fn append(&mut self, count: usize) {
        let inputs: Vec<_> = (0..count).map(|_| self.clock.input(message(&text()))).collect();
        self.sessions.append(self.id, &inputs, &mut self.clock.seed()).unwrap();
    }

    fn drain(&mut self) {
        while let Some(claimed) =
            self.sessions.claim(ClaimTarget::Due, &worker("bench"), &mut self.clock.seed()).unwrap()
        {
            self.sessions.commit(&claimed.lease, &sleeps(), &mut self.clock.seed()).unwrap();
        }
    }
}

fn sqlite() {
    let directory = Directory::below(&std::env::temp_dir());
    let store = SqliteStore::open(&directory.database()).unwrap();
    let mut ours = Ours::new(Sessions::new(Box::new(store), SessionLimits::default()));
    let bare = rusqlite::Connection::open(directory.path().join("bare.db")).unwrap();
    bare.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE events (session_id BLOB, seq INTEGER, id BLOB, time_ms INTEGER, wake_id BLOB, version INTEGER,
                              type TEXT, is_conversation INTEGER, payload TEXT, checksum BLOB,
                              PRIMARY KEY (session_id, seq)) WITHOUT ROWID;
         CREATE UNIQUE INDEX events_id ON events (session_id, id);",
    )
    .unwrap();
    let sql = "INSERT INTO events VALUES (?1, ?2, ?3, 1, NULL, 1, 'user.message', 1, ?4, ?5)";
    let session = Uuid::from_u128(7);
    let mut seq = 0_i64;
    let mut insert = |count: usize| {
        bare.execute_batch("BEGIN IMMEDIATE").unwrap();
        for _ in 0..count {
            seq += 1;
            let row = params![session, seq, id(seq), payload(), [0_u8; 32]];
            bare.prepare_cached(sql).unwrap().execute(row).unwrap();
        }
        bare.execute_batch("COMMIT").unwrap();
    };
    for (name, count, rounds) in [("append-sqlite", 1, 400), ("append-sqlite-batch-100", BATCH, 60)] {
        let (our_time, peer_time) = in_turns(rounds, || ours.append(count), || insert(count));
        line(name, our_time, peer_time);
        ours.drain();
    }
}

fn postgres() {
    let cluster = match Cluster::start(Durability::Disk) {
        Ok(cluster) => cluster,
        Err(reason) => return println!("# append-postgres was left out: {reason}"),
    };
    let url = cluster.database();
    let store = PostgresStore::connect(&url).unwrap();
    let mut ours = Ours::new(Sessions::new(Box::new(store), SessionLimits::default()));
    let mut bare = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    bare.batch_execute(
        "CREATE TABLE bare (session_id uuid, seq bigint, id uuid, time_ms bigint, wake_id uuid, version integer, type text,
                            is_conversation boolean, payload text, checksum bytea, PRIMARY KEY (session_id, seq));
         CREATE UNIQUE INDEX bare_id ON bare (session_id, id)",
    )
    .unwrap();
    let insert = "INSERT INTO bare SELECT $1, seq, id, 1, NULL, 1, 'user.message', true, payload, checksum
                  FROM unnest($2::bigint[], $3::uuid[], $4::text[], $5::bytea[]) AS new (seq, id, payload, checksum)";
    let insert = bare.prepare(insert).unwrap();
    let session = Uuid::from_u128(7);
    let mut head = 0_i64;
    for (name, count, rounds) in [("append-postgres", 1, 400), ("append-postgres-batch-100", BATCH, 60)] {
        let peer = || {
            let seqs: Vec<i64> = (head + 1..).take(count).collect();
            let ids: Vec<Uuid> = seqs.iter().map(|seq| id(*seq)).collect();
            let payloads: Vec<String> = seqs.iter().map(|_| payload()).collect();
            let checksums = vec![[0_u8; 32].to_vec(); count];
            head = *seqs.last().unwrap();
            bare.execute(&insert, &[&session, &seqs, &ids, &payloads, &checksums]).unwrap();
        };
        let (our_time, peer_time) = in_turns(rounds, || ours.append(count), peer);
        line(name, our_time, peer_time);
        ours.drain();
    }
}

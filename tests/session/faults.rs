//! Faults of the embedded store: damage, no room, a cut write, another version, a file that is none.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Barrier;
use std::{env, fs, thread};

use rusqlite::Connection;

use crate::fixture::{Clock, Directory, message, skip, sleeps, worker};
use session::{
    ClaimFilter, ClaimTarget, ContextWindow, ListedSession, Seq, SessionError, SessionHeader, SessionId,
    SessionLimits, Sessions, SqliteStore, StoreError,
};

fn open(directory: &Directory) -> Sessions {
    Sessions::new(Box::new(SqliteStore::open(&directory.database()).unwrap()), SessionLimits::default())
}

/// A store with one session that had three wakes.
fn furnished(directory: &Directory) -> (Sessions, Clock, SessionId) {
    let mut sessions = open(directory);
    let mut clock = Clock::new(4);
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    for number in 0..3 {
        let input = [clock.input(message(&format!("message {number}")))];
        sessions.append(id, &input, &mut clock.seed()).unwrap();
        let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
        sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    }
    (sessions, clock, id)
}

#[test]
fn damage_is_noticed_and_never_read() {
    for (what, sql) in [
        ("a payload", "UPDATE events SET payload = replace(payload, 'message 1', 'message 9')"),
        ("an order", "UPDATE events SET seq = -seq WHERE seq IN (7, 8)"),
        ("a hole", "DELETE FROM events WHERE seq = 7"),
        ("a checksum", "UPDATE events SET checksum = zeroblob(32) WHERE seq = 7"),
        ("a version", "UPDATE events SET version = 9 WHERE seq = 7"),
    ] {
        let directory = Directory::new();
        let (mut sessions, _, id) = furnished(&directory);
        Connection::open(directory.database()).unwrap().execute(sql, []).unwrap();
        let read = sessions.events(id, Seq(0), 100);
        assert!(matches!(read, Err(SessionError::Store(StoreError::Corrupt { .. }))), "{what}: {read:?}");
    }
    for (what, sql) in [
        ("a state", "UPDATE sessions SET state = '{}'"),
        ("a state's version", "UPDATE sessions SET state = replace(state, '\"version\":3', '\"version\":9')"),
        ("a header", "UPDATE sessions SET header = 'x'"),
    ] {
        let directory = Directory::new();
        let (mut sessions, mut clock, id) = furnished(&directory);
        Connection::open(directory.database()).unwrap().execute(sql, []).unwrap();
        let read = sessions.session(id);
        assert!(matches!(read, Err(SessionError::Store(StoreError::Corrupt { .. }))), "{what}: {read:?}");
        let appended = sessions.append(id, &[clock.input(message("more"))], &mut clock.seed());
        assert!(
            matches!(appended, Err(SessionError::Store(StoreError::Corrupt { .. }))),
            "{what}: {appended:?}"
        );
    }
}

/// The last event is the one that no gap gives away.
#[test]
fn a_log_that_lost_its_end_is_refused() {
    let directory = Directory::new();
    let (mut sessions, mut clock, id) = furnished(&directory);
    sessions.append(id, &[clock.input(message("more"))], &mut clock.seed()).unwrap();
    let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
    let sql = "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)";
    Connection::open(directory.database()).unwrap().execute(sql, []).unwrap();
    let damaged = |result: Result<(), SessionError>, what: &str| {
        assert!(
            matches!(result, Err(SessionError::Store(StoreError::Corrupt { session: Some(_), .. }))),
            "{what}: {result:?}"
        );
    };
    damaged(sessions.events(id, Seq(0), 100).map(drop), "a read");
    damaged(sessions.context(&lease, &ContextWindow::default()).map(drop), "a context");
    damaged(sessions.export(id, &mut std::iter::empty(), &mut Vec::new()).map(drop), "an export");
}

/// One bad row is listed, skipped and left alone; the others go on.
#[test]
fn a_session_that_cannot_be_read_stops_nobody() {
    let directory = Directory::new();
    let (mut sessions, mut clock, bad) = furnished(&directory);
    sessions.append(bad, &[clock.input(message("first in the queue"))], &mut clock.seed()).unwrap();
    let good = sessions.create(&clock.header("triage")).unwrap().header.id;
    sessions.append(good, &[clock.input(message("hello"))], &mut clock.seed()).unwrap();
    let sql = "UPDATE sessions SET state = replace(state, '\"version\":3', '\"version\":9') WHERE id = ?1";
    let raw: Vec<u8> = bad.to_string().replace('-', "").as_bytes().chunks(2).map(byte).collect();
    assert_eq!(Connection::open(directory.database()).unwrap().execute(sql, [raw]).unwrap(), 1);
    let claimed = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap();
    assert_eq!(claimed.lease.session, good);
    assert_eq!(sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap(), None);
    let listed = sessions.list(None, None, 10).unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().any(|entry| matches!(entry, ListedSession::Unreadable { id, .. } if *id == bad)));
}

fn byte(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
}

/// A store of the first version: no repositories, no marks.
#[test]
fn a_store_of_the_first_version_is_migrated() {
    let directory = Directory::new();
    let (mut sessions, _, id) = furnished(&directory);
    let events = sessions.events(id, Seq(0), 100).unwrap();
    drop(sessions);
    let old = "DROP INDEX sessions_status; DROP INDEX sessions_repository; DROP INDEX sessions_work; DROP INDEX sessions_end;
               ALTER TABLE sessions DROP COLUMN labels; DROP TABLE objects;
               ALTER TABLE sessions DROP COLUMN repository; ALTER TABLE sessions DROP COLUMN unreadable_by;
               DROP INDEX learnings_key; DROP INDEX learnings_newest;
               ALTER TABLE learnings DROP COLUMN repository;
               CREATE UNIQUE INDEX learnings_key ON learnings (agent, key);
               CREATE INDEX learnings_newest ON learnings (agent, number);
               DROP TABLE compatibility; PRAGMA user_version = 1;";
    Connection::open(directory.database()).unwrap().execute_batch(old).unwrap();
    let mut sessions = open(&directory);
    assert_eq!(sessions.events(id, Seq(0), 100).unwrap(), events);
    assert_eq!(sessions.session(id).unwrap().header.repository, None);
}

/// A store of the second version, with a header of the first: no labels, no objects.
#[test]
fn a_store_of_the_second_version_is_migrated() {
    let directory = Directory::new();
    let (mut sessions, mut clock, id) = furnished(&directory);
    let events = sessions.events(id, Seq(0), 100).unwrap();
    drop(sessions);
    let old = "DROP INDEX sessions_status; DROP INDEX sessions_repository; DROP INDEX sessions_work; DROP INDEX sessions_end;
               ALTER TABLE sessions DROP COLUMN labels; DROP TABLE objects; PRAGMA user_version = 2;
               UPDATE sessions SET header = replace(header, '\"version\":2,', '');";
    Connection::open(directory.database()).unwrap().execute_batch(old).unwrap();
    let mut sessions = open(&directory);
    assert_eq!(sessions.events(id, Seq(0), 100).unwrap(), events);
    let header = sessions.session(id).unwrap().header;
    assert_eq!((header.version, header.organisation, header.labels.len()), (1, None, 0));
    sessions.put_object(id, "run/1", b"x").unwrap();
    let any = ClaimFilter { labels: Some(Vec::new()), ..ClaimFilter::default() };
    sessions.append(id, &[clock.input(message("once more"))], &mut clock.seed()).unwrap();
    let claimed = sessions.claim(ClaimTarget::Matching(&any), &worker("a"), &mut clock.seed()).unwrap();
    assert_eq!(
        claimed.map(|wake| wake.lease.session),
        Some(id),
        "a session without labels is for every worker"
    );
}

/// A program that knows no labels cannot read a session that has some, and can read all others.
#[test]
fn an_older_program_skips_sessions_with_labels_only() {
    let directory = Directory::new();
    let (mut sessions, mut clock, plain) = furnished(&directory);
    let labels = vec!["gpu".to_owned()];
    let labelled = sessions.create(&SessionHeader { labels, ..clock.header("triage") }).unwrap().header.id;
    sessions.append(labelled, &[clock.input(message("hello"))], &mut clock.seed()).unwrap();
    let connection = Connection::open(directory.database()).unwrap();
    let version = |id: SessionId| -> i64 {
        let sql = "SELECT state ->> '$.version' FROM sessions WHERE lower(hex(id)) = ?1";
        connection.query_row(sql, [id.to_string().replace('-', "")], |row| row.get(0)).unwrap()
    };
    assert_eq!((version(plain), version(labelled)), (3, 4));
}

#[test]
fn no_room_loses_nothing_and_passes() {
    let directory = Directory::new();
    let (mut sessions, mut clock, id) = furnished(&directory);
    let head = sessions.session(id).unwrap().state.head;
    drop(sessions);
    // The bound is the connection's: our own one meets it as it would meet a full disk.
    let store = SqliteStore::open(&directory.database()).unwrap();
    let pages: i64 = store.connection().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    store.connection().execute_batch(&format!("PRAGMA max_page_count = {}", pages + 2)).unwrap();
    let mut sessions = Sessions::new(Box::new(store), SessionLimits::default());
    let long = clock.input(message(&"x".repeat(100_000)));
    let refused = sessions.append(id, std::slice::from_ref(&long), &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Store(StoreError::Full { .. }))), "{refused:?}");
    assert_eq!(sessions.session(id).unwrap().state.head, head);
    assert_eq!(sessions.events(id, Seq(0), 100).unwrap().len() as u64, head.0);
    sessions.append(id, &[clock.input(message("short"))], &mut clock.seed()).unwrap();
    drop(sessions);
    open(&directory).append(id, &[long], &mut clock.seed()).unwrap();
}

/// Tells the test below which directory is its small disk.
const SMALL_DISK: &str = "FULLSEND_TEST_SMALL_DISK";

/// A real file system of one mebibyte, in a namespace of its own.
#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let directory = Directory::new();
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let namespaces: &[&str] = if is_root { &["--mount"] } else { &["--mount", "--user", "--map-root-user"] };
    let inside = |command: &str| {
        Command::new("unshare")
            .args(namespaces)
            .args(["sh", "-c", &format!("mount -t tmpfs -o size=1m tmpfs \"$1\" && {command}"), "sh"])
            .args([directory.path(), &env::current_exe().unwrap()])
            .env(SMALL_DISK, directory.path())
            .output()
            .unwrap()
    };
    let tried = inside("true");
    if !tried.status.success() {
        return skip("a_full_disk", &format!("no file system can be mounted here: {tried:?}"));
    }
    let ran = inside("exec \"$2\" --exact faults::on_a_small_disk --ignored --nocapture");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"));
}

#[test]
#[ignore = "started by the test above, on a disk of its own"]
fn on_a_small_disk() {
    let Some(place) = env::var_os(SMALL_DISK).map(PathBuf::from) else { return };
    let ballast = place.join("ballast");
    fs::write(&ballast, vec![0; 300 << 10]).unwrap();
    let store = SqliteStore::open(&place.join("sessions.db")).unwrap();
    let mut sessions = Sessions::new(Box::new(store), SessionLimits::default());
    let mut clock = Clock::new(4);
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    sessions.append(id, &[clock.input(message("before"))], &mut clock.seed()).unwrap();
    let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
    let mut acknowledged = Vec::new();
    let refused = loop {
        let input = clock.input(message(&"x".repeat(20_000)));
        match sessions.append(id, std::slice::from_ref(&input), &mut clock.seed()) {
            Ok(places) => acknowledged.push((places[0], input.id)),
            Err(error) => break error,
        }
        assert!(acknowledged.len() < 100, "two megabytes do not fit");
    };
    assert!(matches!(refused, SessionError::Store(StoreError::Full { .. })), "{refused}");
    let commit = sessions.commit(&lease, &sleeps(), &mut clock.seed());
    assert!(matches!(commit, Err(SessionError::Store(StoreError::Full { .. }))), "{commit:?}");
    // Whoever opens it now, as after a crash, finds all of it and no more.
    drop(sessions);
    let mut sessions = Sessions::new(
        Box::new(SqliteStore::open(&place.join("sessions.db")).unwrap()),
        SessionLimits::default(),
    );
    let events = sessions.events(id, Seq(0), 1_000).unwrap();
    let long = events.iter().skip(1).filter(|event| event.payload.is_input());
    assert_eq!(long.map(|event| (event.seq, event.id)).collect::<Vec<_>>(), acknowledged);
    assert!(acknowledged.len() > 3, "only {} fitted", acknowledged.len());
    fs::remove_file(ballast).unwrap();
    sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    sessions.append(id, &[clock.input(message("after"))], &mut clock.seed()).unwrap();
}

/// Power may fail while the write-ahead log is being written: its end is then missing or wrong. Whatever was cut, what is
/// left is a log without holes and the state that it folds to.
#[test]
fn a_cut_write_leaves_a_whole_log() {
    let directory = Directory::new();
    let (sessions, _, id) = furnished(&directory);
    let database = directory.database();
    let journal = directory.path().join("sessions.db-wal");
    let main = fs::read(&database).unwrap();
    let wal = fs::read(&journal).unwrap();
    drop(sessions);
    assert!(wal.len() > 100_000, "the log is not where it was expected");
    let mut heads = Vec::new();
    for cut in (0..40).map(|step| wal.len() * step / 39) {
        for garbage in [false, true] {
            let mut torn = wal[..cut].to_vec();
            if garbage {
                torn.extend(std::iter::repeat_n(0xa5, wal.len() - cut));
            }
            fs::remove_file(directory.path().join("sessions.db-shm")).ok();
            fs::write(&database, &main).unwrap();
            fs::write(&journal, &torn).unwrap();
            let mut sessions = open(&directory);
            let Ok(session) = sessions.session(id) else { continue };
            let events = sessions.events(id, Seq(0), 1_000).unwrap();
            let mut state = session::SessionState::default();
            events.iter().for_each(|event| state.apply(event).unwrap());
            assert_eq!(state, session.state);
            heads.push(state.head.0);
            let mut clock = Clock::new(5);
            let place = sessions.append(id, &[clock.input(message("after"))], &mut clock.seed()).unwrap();
            assert_eq!(place, [state.head.next()], "the next event follows the last one that is there");
        }
    }
    heads.dedup();
    assert!(heads.len() > 5 && heads.last() == Some(&18), "{heads:?}");
}

#[test]
fn only_what_is_a_store_of_this_version_is_opened() {
    let directory = Directory::new();
    fs::write(directory.database(), "this is a letter, not a database, and it is long enough").unwrap();
    let opened = SqliteStore::open(&directory.database()).err().unwrap();
    assert!(matches!(opened, StoreError::Corrupt { .. }), "{opened}");
    let directory = Directory::new();
    furnished(&directory);
    let newer = Connection::open(directory.database()).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(SqliteStore::open(&directory.database()).expect("a newer store that this version may use"));
    newer.execute_batch("UPDATE compatibility SET minimum = 5").unwrap();
    let opened = SqliteStore::open(&directory.database()).err().unwrap();
    assert!(matches!(opened, StoreError::Version { found: 99, known: 4 }), "{opened}");
    let nowhere = SqliteStore::open(&directory.path().join("no/such/place.db")).err().unwrap();
    assert!(matches!(&nowhere, StoreError::Location { .. }), "{nowhere}");
    assert!(nowhere.to_string().contains("no/such/place.db"), "{nowhere}");
}

/// A worker and the first command of its user may come at the same time.
#[test]
fn many_open_a_new_file_at_once() {
    for _ in 0..50 {
        let directory = Directory::new();
        let start = Barrier::new(8);
        thread::scope(|scope| {
            for number in 0..8 {
                let start = &start;
                let directory = &directory;
                scope.spawn(move || {
                    let mut clock = Clock::new(number);
                    start.wait();
                    let mut sessions = open(directory);
                    sessions.create(&clock.header("triage")).unwrap();
                });
            }
        });
        assert_eq!(open(&directory).list(None, None, 100).unwrap().len(), 8);
    }
}

#[test]
fn store_files_are_private() {
    let directory = Directory::new();
    let (_sessions, ..) = furnished(&directory);
    for name in ["sessions.db", "sessions.db-wal", "sessions.db-shm"] {
        let mode = fs::metadata(directory.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_commit_waits_for_the_disk() {
    let directory = Directory::new();
    let store = SqliteStore::open(&directory.database()).unwrap();
    let pragma = |name: &str| -> String {
        let sql = format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}");
        store.connection().query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!((pragma("journal_mode").as_str(), pragma("synchronous").as_str()), ("wal", "2"));
}

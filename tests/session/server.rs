//! Faults and features that only a server has: it stops and restarts, others migrate it, and it notifies waiting
//! threads.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, thread};

use postgres::{Client, NoTls};

use crate::cluster::{self, Cluster, Durability};
use crate::fixture::{Clock, message, skip, sleeps, worker};
use session::{
    ClaimTarget, PostgresStore, Seq, SessionError, SessionId, SessionLimits, Sessions, StoreError, WaitFor,
};

fn open(url: &str) -> Sessions {
    Sessions::new(Box::new(PostgresStore::connect(url).unwrap()), SessionLimits::default())
}

fn create(sessions: &mut Sessions, clock: &mut Clock) -> SessionId {
    sessions.create(&clock.header("triage")).unwrap().header.id
}

#[test]
fn the_server_crashes_and_comes_back() {
    let mut cluster = match Cluster::start(Durability::Disk) {
        Ok(cluster) => cluster,
        Err(reason) => return skip("the_server_crashes_and_comes_back", &reason),
    };
    let url = cluster.database();
    let mut sessions = open(&url);
    let mut clock = Clock::new(6);
    let id = create(&mut sessions, &mut clock);
    let first = clock.input(message("before"));
    sessions.append(id, std::slice::from_ref(&first), &mut clock.seed()).unwrap();
    let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
    cluster.crash();
    let second = clock.input(message("meanwhile"));
    for _ in 0..2 {
        let failed = sessions.append(id, std::slice::from_ref(&second), &mut clock.seed());
        assert!(matches!(failed, Err(SessionError::Store(StoreError::Unavailable { .. }))), "{failed:?}");
    }
    cluster.start_again();
    assert_eq!(sessions.append(id, &[first], &mut clock.seed()).unwrap(), [Seq(1)]);
    sessions.append(id, &[second], &mut clock.seed()).unwrap();
    let state = sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    assert_eq!(state.pending.len(), 1, "the lease outlived the server");
    let events = sessions.events(id, Seq(0), 100).unwrap();
    assert_eq!(events.iter().filter(|event| event.payload.is_input()).count(), 2);
}

#[test]
fn many_start_on_an_empty_database_and_none_on_a_newer_one() {
    let Ok(cluster) = cluster::shared() else {
        return skip("many_start_on_an_empty_database_and_none_on_a_newer_one", "no PostgreSQL");
    };
    let url = cluster.database();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| PostgresStore::connect(&url).map(drop).unwrap());
        }
    });
    let mut client = Client::connect(&url, NoTls).unwrap();
    let versions = client.query("SELECT version FROM fullsend.migrations", &[]).unwrap();
    assert_eq!(versions.len(), 1);
    client.execute("INSERT INTO fullsend.migrations (version) VALUES (99)", &[]).unwrap();
    PostgresStore::connect(&url).map(drop).expect("a newer store that this version may use");
    client.execute("UPDATE fullsend.compatibility SET minimum = 6", &[]).unwrap();
    let refused = PostgresStore::connect(&url).err().unwrap();
    assert!(matches!(refused, StoreError::Version { found: 99, known: 5 }), "{refused}");
}

#[test]
fn those_who_wait_are_told_at_once() {
    let Ok(cluster) = cluster::shared() else {
        return skip("those_who_wait_are_told_at_once", "no PostgreSQL");
    };
    let url = cluster.database();
    let mut sessions = open(&url);
    let mut clock = Clock::new(7);
    let id = create(&mut sessions, &mut clock);
    let (told, heard) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = open(&url);
            reader.wait(WaitFor::Events, Duration::ZERO).unwrap();
            told.send(Instant::now()).unwrap();
            let events = reader.follow(id, Seq(0), 10, Duration::from_secs(60)).unwrap();
            assert_eq!(events.len(), 1);
            told.send(Instant::now()).unwrap();
        });
        heard.recv().unwrap();
        thread::sleep(Duration::from_millis(200));
        let sent = Instant::now();
        sessions.append(id, &[clock.input(message("now"))], &mut clock.seed()).unwrap();
        let delay = heard.recv().unwrap().duration_since(sent);
        assert!(delay < Duration::from_secs(5), "it took {delay:?}");
    });
}

#[test]
fn damage_in_a_server_is_noticed() {
    let Ok(cluster) = cluster::shared() else {
        return skip("damage_in_a_server_is_noticed", "no PostgreSQL");
    };
    for sql in [
        "UPDATE fullsend.events SET payload = replace(payload, 'hello', 'hallo')",
        "DELETE FROM fullsend.events WHERE seq = 1",
        "UPDATE fullsend.events SET wake_id = id",
    ] {
        let url = cluster.database();
        let mut sessions = open(&url);
        let mut clock = Clock::new(8);
        let id = create(&mut sessions, &mut clock);
        let inputs = [clock.input(message("hello")), clock.input(message("again"))];
        sessions.append(id, &inputs, &mut clock.seed()).unwrap();
        Client::connect(&url, NoTls).unwrap().execute(sql, &[]).unwrap();
        let read = sessions.events(id, Seq(0), 10);
        assert!(matches!(read, Err(SessionError::Store(StoreError::Corrupt { .. }))), "{sql}: {read:?}");
    }
}

#[test]
fn its_clock_is_a_clock() {
    let Ok(cluster) = cluster::shared() else { return skip("its_clock_is_a_clock", "no PostgreSQL") };
    let mut sessions = open(&cluster.database());
    let first = sessions.now().unwrap();
    thread::sleep(Duration::from_millis(20));
    let passed = sessions.now().unwrap().0 - first.0;
    assert!((10..60_000).contains(&passed), "{passed} ms");
    assert!(first.0 > 1_700_000_000_000);
}

/// The server's own clock jumps: forward, leases end early and nobody commits twice; back, nothing waits for a day.
#[test]
fn the_clock_of_the_server_jumps() {
    let cluster = match Cluster::with_clock() {
        Ok(cluster) => cluster,
        Err(reason) => return skip("the_clock_of_the_server_jumps", &reason),
    };
    let mut sessions = open(&cluster.database());
    let mut clock = Clock::new(6);
    let id = create(&mut sessions, &mut clock);
    sessions.append(id, &[clock.input(message("go"))], &mut clock.seed()).unwrap();
    let mut claim = |sessions: &mut Sessions, owner: &str| {
        clock.now_ms = sessions.now().unwrap().0;
        sessions.claim(ClaimTarget::Due, &worker(owner), &mut clock.seed()).unwrap()
    };
    let first = claim(&mut sessions, "a").unwrap().lease;
    assert!(claim(&mut sessions, "b").is_none(), "it is held");
    let before = sessions.now().unwrap().0;
    cluster.set_clock("+1d");
    assert!(sessions.now().unwrap().0 - before > 86_000_000);
    let second = claim(&mut sessions, "b").unwrap().lease;
    assert_eq!((second.session, second.wake), (id, first.wake), "the same wake, taken over");
    cluster.set_clock("+0");
    let third = claim(&mut sessions, "c").unwrap().lease;
    let mut clock = Clock::new(7);
    for stale in [first, second] {
        let refused = sessions.commit(&stale, &sleeps(), &mut clock.seed());
        assert!(matches!(refused, Err(SessionError::Refused(_))), "{refused:?}");
    }
    let state = sessions.commit(&third, &sleeps(), &mut clock.seed()).unwrap();
    assert!(state.pending.is_empty());
}

/// Tells the child below which database it writes to, and in which round.
const DATABASE: &str = "FULLSEND_TEST_SERVER_DATABASE";
const ROUND: &str = "FULLSEND_TEST_SERVER_ROUND";

/// Writers are killed at any time, in the middle of whatever they do. Plain SQL judges what is left, with nothing but the list
/// of appends that were acknowledged.
#[test]
fn writers_killed_at_any_time_lose_nothing_acknowledged() {
    let Ok(cluster) = cluster::shared() else {
        return skip("writers_killed_at_any_time_lose_nothing_acknowledged", "no PostgreSQL");
    };
    let url = cluster.database();
    let mut acknowledged = BTreeMap::new();
    for round in 0..12_u64 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "server::writes_until_it_is_killed", "--ignored", "--nocapture"])
            .envs([(DATABASE, url.as_str()), (ROUND, &round.to_string())])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut left = 5 + round;
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            let Some((_, told)) = line.split_once("@@") else { continue };
            let (id, seq) = told.split_once(' ').unwrap();
            acknowledged.insert(id.to_owned(), seq.parse::<i64>().unwrap());
            left = left.saturating_sub(1);
            if left == 0 {
                // Not always at the same place of what comes next.
                thread::sleep(Duration::from_micros(round * 700));
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        judge(&mut Client::connect(&url, NoTls).unwrap(), &acknowledged);
    }
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
}

fn judge(client: &mut Client, acknowledged: &BTreeMap<String, i64>) {
    let sql = "SELECT count(*), max(seq), (SELECT (state::json->>'head')::bigint FROM fullsend.sessions) FROM fullsend.events";
    let row = client.query_one(sql, &[]).unwrap();
    let count: i64 = row.get(0);
    let last: i64 = row.get(1);
    let head: i64 = row.get(2);
    assert_eq!((count, head), (last, last), "a log without holes, and the state that it leads to");
    let sql = "SELECT id::text, seq FROM fullsend.events WHERE type = 'user.message'";
    let found: BTreeMap<String, i64> =
        client.query(sql, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
    for (id, seq) in acknowledged {
        assert_eq!(found.get(id), Some(seq), "{id} was acknowledged at {seq}");
    }
    // Each range of inputs that was ever consumed, and whether any input is in two of them.
    let sql = "SELECT count(*), count(DISTINCT input) FROM fullsend.events,
                 json_array_elements(payload::json->'span'->'consumed') AS range,
                 generate_series((range->>0)::bigint, (range->>1)::bigint) AS input
               WHERE type = 'span.completed'";
    let row = client.query_one(sql, &[]).unwrap();
    assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1), "an input was consumed twice");
}

#[test]
#[ignore = "started and killed by the test above"]
fn writes_until_it_is_killed() {
    let Ok(url) = env::var(DATABASE) else { return };
    let round: u64 = env::var(ROUND).unwrap().parse().unwrap();
    let mut sessions = open(&url);
    // The same session in every round, and a clock on which the leases of the round before are over.
    let id = create(&mut sessions, &mut Clock::new(8));
    let mut clock = Clock::new(1_000 + round);
    clock.pass_ms(i64::try_from(round).unwrap() * 3_600_000);
    loop {
        let input = clock.input(message("word"));
        let places = sessions.append(id, std::slice::from_ref(&input), &mut clock.seed()).unwrap();
        writeln!(std::io::stdout(), "@@{} {}", input.id, places[0].0).unwrap();
        if let Some(claimed) = sessions.claim(ClaimTarget::Due, &worker("child"), &mut clock.seed()).unwrap()
        {
            sessions.renew(&claimed.lease, &worker("child"), clock.now()).unwrap();
            sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
        }
    }
}

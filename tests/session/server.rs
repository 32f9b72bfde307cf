//! Faults and manners that only a server has: it goes away and comes back, others migrate it, it tells those who wait.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use session::id::SessionId;
use session::lease::Pick;
use session::limits::Limits;
use session::sequence::Seq;
use session::sessions::Sessions;
use session::store::postgres::PostgresStore;
use session::store::{Error, StoreError};

use crate::cluster::{self, Cluster, Durability};
use crate::fixture::{Clock, message, skip, sleeps, worker};

fn open(url: &str) -> Sessions {
    Sessions::new(Box::new(PostgresStore::connect(url).unwrap()), Limits::default())
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
    let (mut sessions, mut clock) = (open(&url), Clock::new(6));
    let id = create(&mut sessions, &mut clock);
    let first = clock.input(message("before"));
    sessions.append(id, std::slice::from_ref(&first), &mut clock.moment()).unwrap();
    let lease = sessions.claim(Pick::Due, &worker("a"), &mut clock.moment()).unwrap().unwrap().lease;
    cluster.crash();
    let second = clock.input(message("meanwhile"));
    for _ in 0..2 {
        let failed = sessions.append(id, std::slice::from_ref(&second), &mut clock.moment());
        assert!(matches!(failed, Err(Error::Store(StoreError::Unavailable { .. }))), "{failed:?}");
    }
    cluster.start_again();
    assert_eq!(sessions.append(id, &[first], &mut clock.moment()).unwrap(), [Seq(1)]);
    sessions.append(id, &[second], &mut clock.moment()).unwrap();
    let state = sessions.commit(&lease, &sleeps(), &mut clock.moment()).unwrap();
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
    let refused = PostgresStore::connect(&url).err().unwrap();
    assert!(matches!(refused, StoreError::Version { found: 99, known: 1 }), "{refused}");
}

#[test]
fn those_who_wait_are_told_at_once() {
    let Ok(cluster) = cluster::shared() else {
        return skip("those_who_wait_are_told_at_once", "no PostgreSQL");
    };
    let url = cluster.database();
    let (mut sessions, mut clock) = (open(&url), Clock::new(7));
    let id = create(&mut sessions, &mut clock);
    let (told, heard) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = open(&url);
            reader.wait(Duration::ZERO).unwrap();
            told.send(Instant::now()).unwrap();
            let events = reader.follow(id, Seq(0), 10, Duration::from_secs(60)).unwrap();
            assert_eq!(events.len(), 1);
            told.send(Instant::now()).unwrap();
        });
        heard.recv().unwrap();
        thread::sleep(Duration::from_millis(200));
        let sent = Instant::now();
        sessions.append(id, &[clock.input(message("now"))], &mut clock.moment()).unwrap();
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
        let (mut sessions, mut clock) = (open(&url), Clock::new(8));
        let id = create(&mut sessions, &mut clock);
        let inputs = [clock.input(message("hello")), clock.input(message("again"))];
        sessions.append(id, &inputs, &mut clock.moment()).unwrap();
        Client::connect(&url, NoTls).unwrap().execute(sql, &[]).unwrap();
        let read = sessions.events(id, Seq(0), 10);
        assert!(matches!(read, Err(Error::Store(StoreError::Corrupt { .. }))), "{sql}: {read:?}");
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
    let (mut sessions, mut clock) = (open(&cluster.database()), Clock::new(6));
    let id = create(&mut sessions, &mut clock);
    sessions.append(id, &[clock.input(message("go"))], &mut clock.moment()).unwrap();
    let mut claim = |sessions: &mut Sessions, owner: &str| {
        clock.now_ms = sessions.now().unwrap().0;
        sessions.claim(Pick::Due, &worker(owner), &mut clock.moment()).unwrap()
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
        let refused = sessions.commit(&stale, &sleeps(), &mut clock.moment());
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
    let state = sessions.commit(&third, &sleeps(), &mut clock.moment()).unwrap();
    assert!(state.pending.is_empty());
}

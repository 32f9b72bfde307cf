//! Connections to a server that hang, break or lose a reply; users with few rights; TLS.

use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use crate::certificates::certificates;
use crate::cluster::{self, Cluster};
use crate::fixture::{Clock, Directory, message, reports, skip, sleeps, worker};
use crate::proxy::{Proxy, Traffic};
use session::{
    ClaimTarget, ListedSession, Payload, PostgresOptions, PostgresStore, Seq, SessionError, SessionId,
    SessionLimits, Sessions, StoreError, WaitFor,
};

/// How long a call may take where calls are meant to hang.
const SHORT: Duration = Duration::from_secs(2);

fn open(url: &str) -> Sessions {
    Sessions::new(Box::new(PostgresStore::connect(url).unwrap()), SessionLimits::default())
}

fn open_impatient(url: &str) -> Sessions {
    let options = PostgresOptions { call_timeout: SHORT, ..PostgresOptions::default() };
    Sessions::new(Box::new(PostgresStore::open(url, &options).unwrap()), SessionLimits::default())
}

fn create(sessions: &mut Sessions, clock: &mut Clock) -> SessionId {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    sessions.append(id, &[clock.input(message("hello"))], &mut clock.seed()).unwrap();
    id
}

/// A database behind a proxy, or nothing where there is no server.
fn behind_a_proxy(test: &str) -> Option<(Proxy, String, String)> {
    let cluster = match cluster::shared() {
        Ok(cluster) => cluster,
        Err(reason) => {
            skip(test, reason);
            return None;
        }
    };
    let database = cluster.database();
    let proxy = Proxy::start(cluster.directory());
    let url = proxy.url(&database);
    Some((proxy, url, database))
}

#[test]
fn a_call_ends_when_the_connection_hangs() {
    let Some((proxy, url, _)) = behind_a_proxy("a_call_ends_when_the_connection_hangs") else { return };
    let mut sessions = open_impatient(&url);
    let mut clock = Clock::new(21);
    let id = create(&mut sessions, &mut clock);
    proxy.set(Traffic::Stalls);
    for _ in 0..2 {
        let start = Instant::now();
        let failed = sessions.session(id);
        assert!(matches!(failed, Err(SessionError::Store(StoreError::Unavailable { .. }))), "{failed:?}");
        assert!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
    }
    proxy.set(Traffic::Passes);
    assert_eq!(sessions.session(id).unwrap().state.head, Seq(1), "the next call has a new connection");
}

#[test]
fn what_was_stored_without_a_reply_is_stored_once() {
    let Some((proxy, url, database)) = behind_a_proxy("what_was_stored_without_a_reply_is_stored_once")
    else {
        return;
    };
    let mut sessions = open_impatient(&url);
    let mut direct = open(&database);
    let mut clock = Clock::new(22);
    let id = create(&mut sessions, &mut clock);
    let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
    let reported = reports(&mut clock, &[Payload::RunAttached { run_id: "run-1".to_owned(), digest: None }]);
    // The connection must be open and its statements prepared, so that only the reply of the write is lost.
    sessions
        .report(
            &lease,
            &reports(&mut clock, &[Payload::RunUsage { usage: <_>::default() }]),
            &mut clock.seed(),
        )
        .unwrap();
    proxy.set(Traffic::LosesReplies);
    sessions.report(&lease, &reported, &mut clock.seed()).unwrap_err();
    proxy.set(Traffic::Passes);
    sessions.report(&lease, &reported, &mut clock.seed()).unwrap();
    let stored = direct.events(id, Seq(0), 100).unwrap();
    assert_eq!(
        stored.iter().filter(|event| event.payload.kind() == "run.attached").count(),
        1,
        "neither lost nor doubled"
    );
    proxy.set(Traffic::LosesReplies);
    sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap_err();
    proxy.set(Traffic::Passes);
    let state = sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    assert!(state.pending.is_empty(), "the commit was stored, and its writer learns so");
    let stored = direct.events(id, Seq(0), 100).unwrap();
    assert_eq!(stored.iter().filter(|event| event.payload.kind() == "agent.message").count(), 1);
}

#[test]
fn connections_that_are_cut_are_replaced() {
    let Some((proxy, url, _)) = behind_a_proxy("connections_that_are_cut_are_replaced") else { return };
    let mut sessions = open(&url);
    let mut clock = Clock::new(23);
    let id = create(&mut sessions, &mut clock);
    for _ in 0..3 {
        proxy.cut();
        // A call that was on its way may fail; the one after it may not.
        drop(sessions.session(id));
        assert_eq!(sessions.session(id).unwrap().state.head, Seq(1));
    }
}

#[test]
fn a_process_has_few_connections() {
    let Some((proxy, url, _)) = behind_a_proxy("a_process_has_few_connections") else { return };
    let mut clock = Clock::new(24);
    let id = create(&mut open(&url), &mut clock);
    let mut many: Vec<Sessions> = (0..30).map(|_| open(&url)).collect();
    for sessions in &mut many {
        sessions.session(id).unwrap();
        sessions.wait(WaitFor::Due, Duration::ZERO).unwrap();
        sessions.wait(WaitFor::Due, Duration::from_millis(1)).unwrap();
    }
    assert!(proxy.accepted() <= 2, "{} connections", proxy.accepted());
}

/// One message for 50 workers that wait: what the server has to do until the wake is committed.
#[test]
fn one_wake_among_many_idle_workers_is_cheap() {
    let Ok(cluster) = cluster::shared() else {
        return skip("one_wake_among_many_idle_workers_is_cheap", "no PostgreSQL");
    };
    let url = cluster.database();
    let mut sessions = open(&url);
    let mut clock = Clock::new(25);
    let id = create(&mut sessions, &mut clock);
    let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
    let mut waiting = open(&url);
    waiting.wait(WaitFor::Due, Duration::ZERO).unwrap();
    waiting.wait(WaitFor::Due, Duration::from_millis(200)).unwrap();
    let mut writes = 0;
    for number in 0..20 {
        let attached = Payload::RunAttached { run_id: format!("run-{number}"), digest: None };
        sessions.report(&lease, &reports(&mut clock, &[attached]), &mut clock.seed()).unwrap();
        sessions.renew(&lease, &worker("a"), clock.now()).unwrap();
        writes += 2;
    }
    sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    assert!(
        !waiting.wait(WaitFor::Due, Duration::from_millis(300)).unwrap(),
        "{writes} writes start no wake"
    );
    sessions.append(id, &[clock.input(message("again"))], &mut clock.seed()).unwrap();
    assert!(waiting.wait(WaitFor::Due, Duration::from_secs(20)).unwrap(), "a message does");
    sessions.append(id, &[clock.input(message("and again"))], &mut clock.seed()).unwrap();
    assert!(!waiting.wait(WaitFor::Due, Duration::from_millis(300)).unwrap(), "the second changes nothing");
}

#[test]
fn a_user_who_may_only_read_can_read() {
    let Ok(cluster) = cluster::shared() else {
        return skip("a_user_who_may_only_read_can_read", "no PostgreSQL");
    };
    let url = cluster.database();
    let mut sessions = open(&url);
    let mut clock = Clock::new(26);
    let id = create(&mut sessions, &mut clock);
    let mut owner = Client::connect(&url, NoTls).unwrap();
    let name = url.rsplit_once('/').unwrap().1;
    owner
        .batch_execute(&format!(
            "CREATE ROLE reader_{name} LOGIN; GRANT USAGE ON SCHEMA fullsend TO reader_{name};
             GRANT SELECT ON ALL TABLES IN SCHEMA fullsend TO reader_{name};
             CREATE ROLE writer_{name} LOGIN; GRANT USAGE ON SCHEMA fullsend TO writer_{name};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fullsend TO writer_{name};
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA fullsend TO writer_{name}"
        ))
        .unwrap();
    let mut reader = open(&url.replace("fullsend@", &format!("reader_{name}@")));
    assert_eq!(reader.events(id, Seq(0), 10).unwrap().len(), 1);
    assert_eq!(reader.list(None, None, 10).unwrap().len(), 1);
    reader.export(id, &mut std::iter::empty(), &mut Vec::new()).unwrap();
    let refused = reader.append(id, &[clock.input(message("more"))], &mut clock.seed()).unwrap_err();
    assert!(matches!(refused, SessionError::Store(StoreError::Rights { .. })), "{refused}");
    assert!(refused.to_string().contains("permission denied for table"), "{refused}");
    let mut writer = open(&url.replace("fullsend@", &format!("writer_{name}@")));
    writer.append(id, &[clock.input(message("more"))], &mut clock.seed()).unwrap();
    let lease = writer.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
    writer.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
}

#[test]
fn errors_name_their_cause() {
    let Ok(cluster) = cluster::shared() else { return skip("errors_name_their_cause", "no PostgreSQL") };
    let url = cluster.database();
    let base = url.rsplit_once('/').unwrap().0;
    let failed = |url: &str| PostgresStore::connect(url).err().unwrap().to_string();
    let missing = failed(&format!("{base}/no_such_database"));
    assert!(missing.contains("database \"no_such_database\" does not exist"), "{missing}");
    let nobody = failed(&url.replace("fullsend@", "no_such_user@"));
    assert!(nobody.contains("role \"no_such_user\" does not exist"), "{nobody}");
    let closed = failed("postgres://me@127.0.0.1:1/db");
    assert!(closed.contains("Connection refused"), "{closed}");
    Client::connect(&url, NoTls).unwrap().batch_execute("CREATE ROLE stranger LOGIN").unwrap();
    let stranger = PostgresStore::connect(&url.replace("fullsend@", "stranger@")).err().unwrap();
    assert!(matches!(stranger, StoreError::NotMigrated), "{stranger}");
}

/// One bad row is listed, skipped and left alone; the others go on. A row of a newer program is such a row for this one.
#[test]
fn a_row_that_cannot_be_read_stops_nobody() {
    let Ok(cluster) = cluster::shared() else {
        return skip("a_row_that_cannot_be_read_stops_nobody", "no PostgreSQL");
    };
    for sql in [
        "UPDATE fullsend.sessions SET state = regexp_replace(state, '\"version\":\\d+', '\"version\":99') WHERE id::text = $1",
        "UPDATE fullsend.sessions SET state = 'x' WHERE id::text = $1",
        "UPDATE fullsend.sessions SET header = '{}' WHERE id::text = $1",
    ] {
        let url = cluster.database();
        let mut sessions = open(&url);
        let mut clock = Clock::new(27);
        let bad = create(&mut sessions, &mut clock);
        let good = create(&mut sessions, &mut clock);
        let mut client = Client::connect(&url, NoTls).unwrap();
        assert_eq!(client.execute(sql, &[&bad.to_string()]).unwrap(), 1);
        let mut sessions = open(&url);
        let claimed = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap();
        assert_eq!(claimed.lease.session, good, "{sql}");
        assert_eq!(sessions.claim(ClaimTarget::Due, &worker("b"), &mut clock.seed()).unwrap(), None);
        let marked = "SELECT unreadable_by FROM fullsend.sessions WHERE id::text = $1";
        let mark: Option<i32> = client.query_one(marked, &[&bad.to_string()]).unwrap().get(0);
        assert!(mark.is_some(), "{sql}");
        let listed = sessions.list(None, None, 10).unwrap();
        let is_bad =
            |entry: &ListedSession| matches!(entry, ListedSession::Unreadable { id, .. } if *id == bad);
        assert_eq!((listed.len(), listed.iter().filter(|entry| is_bad(entry)).count()), (2, 1), "{sql}");
        sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
    }
}

#[test]
fn tls_is_as_strict_as_its_mode() {
    let directory = Directory::new();
    let files = certificates(&directory);
    let (cluster, port) = match Cluster::with_tls(&files) {
        Ok(started) => started,
        Err(reason) => return skip("tls_is_as_strict_as_its_mode", &reason),
    };
    let name = cluster.database().rsplit_once('/').unwrap().1.to_owned();
    let shown = |file: &str| files.join(file).display().to_string().replace('/', "%2F");
    let authority = format!("sslrootcert={}", shown("ca.pem"));
    let client = format!("sslcert={}&sslkey={}", shown("client.pem"), shown("client.key"));
    let connect = |host: &str, parameters: &str| {
        let url = format!("postgres://fullsend@{host}:{port}/{name}?{parameters}");
        PostgresStore::connect(&url).map(drop).map_err(|error| error.to_string())
    };
    let named = "localhost";
    let address = "&hostaddr=127.0.0.1";
    assert_eq!(connect(named, &format!("sslmode=verify-full&{authority}&{client}{address}")), Ok(()));
    assert_eq!(connect("127.0.0.1", &format!("sslmode=verify-ca&{authority}&{client}")), Ok(()));
    assert_eq!(connect("127.0.0.1", &format!("sslmode=require&{client}")), Ok(()));
    let wrong_name = connect("127.0.0.1", &format!("sslmode=verify-full&{authority}&{client}")).unwrap_err();
    assert!(wrong_name.contains("not valid for name"), "{wrong_name}");
    let unknown =
        connect(named, &format!("sslmode=verify-full&sslrootcert={}&{client}{address}", shown("client.pem")));
    assert!(unknown.unwrap_err().contains("certificate"), "an unknown authority");
    let plain = connect("127.0.0.1", "sslmode=disable").unwrap_err();
    assert!(plain.contains("no encryption"), "{plain}");
    let anonymous = connect("127.0.0.1", "sslmode=require").unwrap_err();
    assert!(anonymous.contains("certificate"), "the server wants a certificate: {anonymous}");
}

/// A pooler in transaction mode: each transaction may reach another connection of the server, and no notification arrives.
#[test]
fn a_pooler_in_transaction_mode_is_good_enough() {
    let name = "a_pooler_in_transaction_mode_is_good_enough";
    let Ok(cluster) = cluster::shared() else { return skip(name, "no PostgreSQL") };
    let directory = Directory::new();
    let pooler = match cluster.pooler(&directory) {
        Ok(pooler) => pooler,
        Err(reason) => return skip(name, &reason),
    };
    let url = pooler.url(&cluster.database());
    let mut clock = Clock::new(28);
    let ids: Vec<SessionId> = (0..8).map(|_| create(&mut open(&url), &mut clock)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let url = &url;
            scope.spawn(move || {
                let mut clock = Clock::new(300 + thread);
                let mut sessions = open(url);
                while let Some(claimed) =
                    sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap()
                {
                    let attached = Payload::RunAttached { run_id: "run".to_owned(), digest: None };
                    sessions
                        .report(&claimed.lease, &reports(&mut clock, &[attached]), &mut clock.seed())
                        .unwrap();
                    sessions.renew(&claimed.lease, &worker("a"), clock.now()).unwrap();
                    sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
                }
            });
        }
    });
    let mut sessions = open(&url);
    for id in ids {
        assert!(sessions.session(id).unwrap().state.pending.is_empty());
    }
    let start = Instant::now();
    while !sessions.wait(WaitFor::Due, Duration::from_secs(5)).unwrap() {
        assert!(start.elapsed() < Duration::from_secs(30), "without notifications a worker looks by itself");
    }
}

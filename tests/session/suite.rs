//! What every store must do, run over each of them.

mod appends;
mod bundles;
mod children;
mod dead_letters;
mod endings;
mod imports;
mod labels;
mod leases;
mod objects;
mod pauses;
mod plans;
mod reads;
mod repeats;
mod repositories;
mod workers;

use crate::cluster;
use crate::fixture::{Clock, Directory, skip};
use session::{PostgresStore, SessionLimits, Sessions, SqliteStore};

/// A store that several connections share.
pub(crate) struct Place {
    open: Box<dyn Fn() -> Sessions + Sync>,
}

impl Place {
    pub(crate) fn open(&self) -> Sessions {
        (self.open)()
    }
}

type Test = fn(&Place, &mut Sessions, &mut Clock);

pub(crate) fn on_sqlite(test: Test) {
    on_sqlite_with(SessionLimits::default(), |place| test(place, &mut place.open(), &mut Clock::new(3)));
}

pub(crate) fn on_sqlite_with(limits: SessionLimits, test: impl FnOnce(&Place)) {
    let directory = Directory::new();
    let path = directory.database();
    let open = move || Sessions::new(Box::new(SqliteStore::open(&path).unwrap()), limits.clone());
    test(&Place { open: Box::new(open) });
}

pub(crate) fn on_postgres(name: &str, test: Test) {
    on_postgres_with(name, SessionLimits::default(), |place| {
        test(place, &mut place.open(), &mut Clock::new(3));
    });
}

pub(crate) fn on_postgres_with(name: &str, limits: SessionLimits, test: impl FnOnce(&Place)) {
    let url = match cluster::shared() {
        Ok(cluster) => cluster.database(),
        Err(reason) => return skip(name, reason),
    };
    let open = move || Sessions::new(Box::new(PostgresStore::connect(&url).unwrap()), limits.clone());
    test(&Place { open: Box::new(open) });
}

/// Makes one test per store of each function.
macro_rules! over_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test] fn $name() { crate::suite::on_sqlite(super::$name); })+
        }
        mod postgres {
            $(#[test] fn $name() { crate::suite::on_postgres(stringify!($name), super::$name); })+
        }
    };
}
pub(crate) use over_stores;

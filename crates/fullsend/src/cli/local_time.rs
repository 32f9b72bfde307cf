//! The user's time zone: TZ, or the system's.

use std::path::{Component, Path, PathBuf};

use super::configuration::variable;
use crate::event::zone::TimeZone;

/// Where time zone files are.
const ZONES: &str = "/usr/share/zoneinfo";

/// UTC where the zone is not known.
pub fn time_zone() -> TimeZone {
    let file = match variable("TZ") {
        Some(name) => zone_file(&name),
        None => Some(PathBuf::from("/etc/localtime")),
    };
    file.and_then(|path| std::fs::read(path).ok())
        .and_then(|bytes| TimeZone::parse(&bytes))
        .unwrap_or_default()
}

/// A name such as `Europe/Berlin`, or a path.
fn zone_file(name: &str) -> Option<PathBuf> {
    let name = Path::new(name.trim_start_matches(':'));
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    if plain { Some(Path::new(ZONES).join(name)) } else { name.is_absolute().then(|| name.to_owned()) }
}

//! The `--origin` of a scanned text.

use scan::Origin;

pub fn origin(name: &str) -> Result<Origin, String> {
    let names = Origin::ALL.map(Origin::as_str).join(", ");
    Origin::parse(name).ok_or_else(|| format!("an origin is one of {names}"))
}

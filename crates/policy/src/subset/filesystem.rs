//! Paths within paths, compared as written. The sandbox resolves symbolic links when it mounts them.

use yaml::Spanned;

use super::widening::Widening;
use crate::baseline;
use crate::model::Filesystem;
use crate::read::beneath;

pub(super) fn check(inner: &Filesystem, outer: &Filesystem) -> Result<(), Widening> {
    let writable: Vec<&str> = paths(&outer.read_write).chain(baseline::READ_WRITE.iter().copied()).collect();
    let readable: Vec<&str> = paths(&outer.read_only)
        .chain(baseline::READ_ONLY.iter().copied())
        .chain(writable.iter().copied())
        .collect();
    within(&inner.read_write, &writable, "write")?;
    within(&inner.read_only, &readable, "read")?;
    if let (true, false, Some(flag)) =
        (inner.includes_workdir(), outer.includes_workdir(), &inner.include_workdir)
    {
        return Err(Widening::new(
            flag.at,
            "the working directory is not writable in the organisation's policy",
        ));
    }
    Ok(())
}

fn paths(list: &[Spanned<String>]) -> impl Iterator<Item = &str> {
    list.iter().map(|path| path.as_str())
}

fn within(list: &[Spanned<String>], allowed: &[&str], verb: &str) -> Result<(), Widening> {
    match list.iter().find(|path| !allowed.iter().any(|directory| beneath(path, directory))) {
        Some(path) => Err(Widening::new(
            path.at,
            format!("the organisation's policy does not let it {verb} `{}`", path.value),
        )),
        None => Ok(()),
    }
}

//! Programs from PyPI, for tests against outside suites: each set is installed into a directory of its own below `target/cache`,
//! once, under a lock, where `FULLSEND_TEST_OUTSIDE` is set.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use crate::support::{has_program, root};

/// The directory with `bin/`, or why there is none.
pub fn install(name: &str, test: &str, packages: &[&str]) -> Result<PathBuf, String> {
    if std::env::var_os("FULLSEND_TEST_OUTSIDE").is_none() {
        return Err(format!("set FULLSEND_TEST_OUTSIDE=1 to install {name} from PyPI"));
    }
    if !has_program("python3", test) {
        return Err("python3 is not installed".to_owned());
    }
    let place = root().join("target/cache").join(name);
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(&place).map_err(failed)?;
    let lock = File::create(place.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let marker = place.join("installed");
    let wanted = packages.join("\n");
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(place);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
    let quickly = ["install", "--quiet", "--timeout", "5", "--retries", "0"];
    run(Command::new(place.join("bin/pip")).args(quickly).args(packages))?;
    fs::write(marker, wanted).map_err(failed)?;
    Ok(place)
}

/// What the program printed, or why it failed.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(text) } else { Err(text) }
}

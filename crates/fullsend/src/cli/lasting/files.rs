//! `fullsend sandbox put` and `get`: files and directories into and out of a lasting sandbox.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use clap::Args;
use sandbox::TransferCaps;

use super::super::exit::{Exit, Failure};
use super::super::sandbox_options::failed;
use crate::archive::ArchiveCounts;
use crate::lasting::pump::CommandInput;
use crate::lasting::transfer::{self, FilesError, GotFiles, WantedFiles};

#[derive(Args, Debug)]
pub struct PutArguments {
    /// The sandbox: its id, a unique prefix of its id, or its name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// A file or a directory; `-` is standard input
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The path inside; a relative one starts at the workspace
    #[arg(value_name = "TO")]
    to: String,
    /// Set the file's mode, such as 755 [default: that of the file]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<u32>,
    #[command(flatten)]
    bounds: Bounds,
}

#[derive(Args, Debug)]
pub struct GetArguments {
    /// The sandbox: its id, a unique prefix of its id, or its name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// The path inside; a relative one starts at the workspace
    #[arg(value_name = "FROM")]
    from: String,
    /// A path on the host; `-` is standard output, where a directory is written as a tar archive
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    bounds: Bounds,
}

#[derive(Args, Debug)]
struct Bounds {
    /// Copy at most this much, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    max_mb: u64,
    /// Copy at most this many files
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    max_files: u64,
}

impl Bounds {
    fn caps(&self) -> TransferCaps {
        TransferCaps { bytes: self.max_mb << 20, files: self.max_files }
    }
}

fn parse_mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| format!("`{text}` is not a mode such as 755"))
}

pub fn put(arguments: &PutArguments) -> Result<Exit, Failure> {
    let PutArguments { sandbox, from, to, mode, bounds } = arguments;
    let client = super::client(sandbox)?;
    let unreadable = |error: io::Error| failed(format!("cannot read {}: {error}", from.display()));
    let counts = if from == Path::new("-") {
        let own = io::stdin().as_fd().try_clone_to_owned().map_err(unreadable)?;
        transfer::put(&client, to, CommandInput::Descriptor(own), *mode)
    } else if from.is_dir() {
        transfer::put_tree(&client, from, to, bounds.caps())
    } else {
        let file = std::fs::File::open(from).map_err(unreadable)?;
        let status = file.metadata().map_err(unreadable)?;
        if status.len() > bounds.caps().bytes {
            return Err(failed(format!("{} is larger than {} MiB", from.display(), bounds.max_mb))
                .help("raise --max-mb"));
        }
        let own_mode = std::os::unix::fs::PermissionsExt::mode(&status.permissions()) & 0o777;
        transfer::put(&client, to, CommandInput::Descriptor(file.into()), Some(mode.unwrap_or(own_mode)))
    };
    report(counts.map_err(|error| not_moved(&error))?);
    Ok(Exit::Done)
}

pub fn get(arguments: &GetArguments) -> Result<Exit, Failure> {
    let GetArguments { sandbox, from, to, bounds } = arguments;
    let client = super::client(sandbox)?;
    let got = transfer::get(&client, from, WantedFiles::FileOrDirectory, bounds.caps())
        .map_err(|error| not_moved(&error))?;
    if to == Path::new("-") {
        let (GotFiles::File { contents: mut bytes, .. } | GotFiles::Directory { archive: mut bytes }) = got;
        let mut out = io::stdout().lock();
        io::copy(&mut bytes, &mut out)?;
        out.flush()?;
        return Ok(Exit::Done);
    }
    report(got.save(to, bounds.caps()).map_err(|error| not_moved(&error))?);
    Ok(Exit::Done)
}

fn not_moved(error: &FilesError) -> Failure {
    failed(error.to_string())
}

/// Reports the files that were left out; the others were copied.
fn report(counts: ArchiveCounts) {
    if counts.left_out > 0 {
        super::super::write_stderr(&format!(
            "warning: {} entries were left out: special files, or links that lead outside\n",
            counts.left_out
        ));
    }
}

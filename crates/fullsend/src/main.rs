//! The `fullsend` program.

fn main() -> std::process::ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    match fullsend::cli::hidden::dispatch(&arguments) {
        Some(code) => code,
        None => fullsend::cli::main(arguments),
    }
}

//! The `fullsend` program.

fn main() -> std::process::ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    match fullsend::run_hidden_command(&arguments) {
        Some(code) => code,
        None => fullsend::main(arguments),
    }
}

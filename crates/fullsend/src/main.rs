//! The `fullsend` program.

fn main() -> std::process::ExitCode {
    fullsend::cli::main(std::env::args_os())
}

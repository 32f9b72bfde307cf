//! The tests of the sandbox as a whole: real sandboxes, each case as root and as an ordinary user. This binary is its own
//! `__init`, because a sandbox starts the program that it is part of, and has its own small runner for the same reason.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(clippy::print_stdout, reason = "the report of the tests")]

mod attacks;
mod cases;
mod inside;
mod runner;
mod stuck;
mod table;
mod victim;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [_, "__init"] => sandbox::init::main(),
        [_, "--victim", directory, step] => victim::live(directory.as_ref(), step),
        [_, "--attempt", name] => attacks::make_attempt(name),
        [_, "--abstract", name] => attacks::connect_abstract(name),
        [_, "--stuck", directory] => stuck::live(directory.as_ref()),
        [_, "--full-disk", directory] => {
            cases::live_on_full_disk(directory.as_ref());
            ExitCode::SUCCESS
        }
        [_, "--read", path] => inside::read(path),
        [_, "--from-memory", program, argument] => inside::run_from_memory(program, argument),
        _ => runner::run(&cases::all()),
    }
}

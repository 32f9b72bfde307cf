//! The tests of the sandbox as a whole: real sandboxes, each case as root and as an ordinary user. This binary is its own
//! `__init`, because a sandbox starts the program that it is part of, and has its own small runner for the same reason.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(clippy::print_stdout, reason = "the report of the tests")]

mod cases;
mod runner;
mod victim;
mod world;

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [_, "__init"] => sandbox::init::main(),
        [_, "--victim", directory, step] => victim::live(directory.as_ref(), step),
        _ => {}
    }
    runner::run(&cases::all())
}

//! The command line: parse, call, print. One file per command. Only this module reads the environment, prints, and exits.

mod acp;
mod always_json;
mod changed_files;
mod check;
mod check_output;
mod checkout_options;
mod ci;
mod ci_outputs;
mod complete;
mod completions;
mod configuration;
mod dispatch;
mod doctor;
mod doctor_host;
mod doctor_model;
mod enter;
mod env_file;
mod event_file;
mod executor;
pub(crate) mod exit;
mod explain;
mod fetch_skill;
mod forge_options;
pub(crate) mod hidden;
mod hidden_hook;
mod hook;
mod image;
mod init;
mod issues;
mod json_lines;
mod lasting;
mod list;
mod local_time;
mod lock;
mod lock_options;
mod man;
mod mcp;
mod mcp_http;
mod migrate;
mod models;
#[cfg(test)]
mod one_way_tests;
mod open_files;
mod original_options;
mod own_command;
mod policy;
mod post_comment;
mod post_review;
mod progress;
mod pull_options;
mod registries;
mod run;
mod run_options;
mod run_result;
mod runs;
mod runtimes;
mod sandbox;
mod sandbox_options;
mod scan;
mod scan_bench;
mod scan_origin;
mod scan_ranking;
mod schema;
mod self_test;
mod serve;
mod serve_runs;
mod serve_webhooks;
mod session;
mod signals;
mod signing;
mod store;
mod sweep;
mod telemetry;
mod terminal;
mod tool_server;
mod trigger;
mod trusted_base;
mod version;
mod worker;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::render::diagnostics::clean_text;
use crate::render::workflow_commands::neutralise;
use exit::{Exit, Failure};

/// Run one coding agent, from one YAML file, in one sandbox, and record what happened.
#[derive(Debug, Parser)]
#[command(name = "fullsend", disable_version_flag = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a harness: start its agent in a sandbox, validate the output and record what happened
    #[command(after_help = "Example:\n  fullsend run triage\n  fullsend run -p \"why does the test fail?\"")]
    Run(Box<run::Arguments>),
    /// Show, compare, apply, verify and remove recorded runs
    #[command(after_help = "Example:\n  fullsend runs show latest")]
    Runs(runs::Arguments),
    /// Show runs and sessions in the browser, and serve them as an HTTP API
    #[command(after_help = "Example:\n  fullsend serve")]
    Serve(serve::Arguments),
    /// Serve fullsend as tools to an MCP client, over standard input and output or HTTP
    #[command(
        after_help = "Example:\n  fullsend mcp\n  claude mcp add fullsend -- fullsend mcp\n  fullsend mcp --http 127.0.0.1:7172"
    )]
    Mcp(mcp::Arguments),
    /// Serve fullsend as an agent to an editor that speaks ACP, over standard input and output
    #[command(after_help = "Example:\n  fullsend acp\n  fullsend acp helper --session")]
    Acp(acp::Arguments),
    /// Test which events of a forge start which harnesses
    #[command(after_help = "Example:\n  fullsend trigger test --event payload.json --kind issues")]
    Trigger(trigger::Arguments),
    /// Print, write and check the pipeline of a CI that runs the harnesses
    #[command(after_help = "Example:\n  fullsend ci render github --write")]
    Ci(ci::Arguments),
    /// Open the saved workspace of a run in a new sandbox without a network
    #[command(after_help = "Example:\n  fullsend enter latest -- ls -la")]
    Enter(enter::Arguments),
    /// Check harnesses without running anything
    #[command(after_help = "Example:\n  fullsend check triage")]
    Check(check::Arguments),
    /// Show every effective value of a harness, with the file and line that set it
    #[command(after_help = "Example:\n  fullsend explain triage security")]
    Explain(explain::Arguments),
    /// Print the JSON Schema of a file format
    #[command(after_help = "Example:\n  fullsend schema harness > harness.schema.json")]
    Schema(schema::Arguments),
    /// Create a working .fullsend directory
    #[command(after_help = "Example:\n  fullsend init --runtime claude")]
    Init(init::Arguments),
    /// List the harnesses of all layers
    #[command(after_help = "Example:\n  fullsend list")]
    List(list::Arguments),
    /// Write the digests of all remote resources and images into fullsend.lock
    #[command(after_help = "Example:\n  fullsend lock\n  fullsend check --locked")]
    Lock(lock::Arguments),
    /// Ask the host for a skill, inside a run whose harness allows it
    #[command(after_help = "Example:\n  fullsend fetch-skill https://example.com/skills/labels/SKILL.md")]
    FetchSkill(fetch_skill::Arguments),
    /// Check whether a directory of the Go implementation works here, and write the needed edits as a patch
    #[command(after_help = "Example:\n  fullsend migrate --fullsend-dir ../agents --patch migrate.patch")]
    Migrate(migrate::Arguments),
    /// List the runtimes and their features, and install their programs
    #[command(after_help = "Example:\n  fullsend runtimes install claude")]
    Runtimes(runtimes::Arguments),
    /// Pull images from registries, and list and remove those in the cache
    #[command(after_help = "Example:\n  fullsend image pull quay.io/acme/tools:1")]
    Image(image::Arguments),
    /// List what models cost, show one, and install a newer price list
    #[command(after_help = "Example:\n  fullsend models show claude-sonnet-5")]
    Models(models::Arguments),
    /// Scan text, directories and URLs with the scanners that a run uses
    #[command(after_help = "Example:\n  fullsend scan context .")]
    Scan(scan::Arguments),
    /// Judge one tool call of any runtime, read as JSON from standard input
    #[command(after_help = "Example:\n  fullsend hook pre < call.json")]
    Hook(hook::Arguments),
    /// Test a policy, or suggest the rule that would have allowed a refused request
    #[command(after_help = "Example:\n  fullsend policy suggest latest")]
    Policy(policy::Arguments),
    /// Run commands in a sandbox, or create one that lasts
    #[command(after_help = "Example:\n  fullsend sandbox run -- make test")]
    Sandbox(sandbox::Arguments),
    /// Send many runs to Slurm, Kubernetes or this machine, one job each, and collect them
    #[command(
        after_help = "Example:\n  fullsend dispatch send --engine slurm --folder runs-1 requests.jsonl"
    )]
    Dispatch(dispatch::Arguments),
    /// Check whether this machine can run agents and what it can enforce, and print how to fix what is missing
    #[command(after_help = "Example:\n  fullsend doctor")]
    Doctor(doctor::Arguments),
    /// Test this machine with one whole run that needs no key
    #[command(after_help = "Example:\n  fullsend self-test")]
    SelfTest(self_test::Arguments),
    /// Create and use sessions: agents that keep working for days
    #[command(after_help = "Example:\n  fullsend session create --agent triage")]
    Session(session::Arguments),
    /// Run due session wakes; several workers can share a store
    #[command(after_help = "Example:\n  fullsend worker")]
    Worker(worker::Arguments),
    /// Create and migrate the tables of a session store, and check that it works
    #[command(after_help = "Example: fullsend store check --objects s3://acme-agents/sessions")]
    Store(store::Arguments),
    /// Clean up after crashed runs and complete their records
    #[command(after_help = "Example:\n  fullsend sweep")]
    Sweep(sweep::Arguments),
    /// Write a comment on an issue or a pull request, or update the one with the same marker
    #[command(
        after_help = "Example:\n  fullsend post-comment --repo acme/widgets --number 7 --marker '<!-- triage -->' --result summary.md"
    )]
    PostComment(post_comment::Arguments),
    /// Write a review of a pull request, once for each commit
    #[command(
        after_help = "Example:\n  fullsend post-review --repo acme/widgets --pr 7 --result review.json"
    )]
    PostReview(post_review::Arguments),
    /// Print an issue of GitHub, GitLab or Jira, or comment on it
    #[command(after_help = "Example:\n  fullsend issues get --tracker jira --project ACME --number 7")]
    Issues(issues::Arguments),
    /// Print the version
    #[command(after_help = "Example:\n  fullsend version --json")]
    Version(version::Arguments),
    /// Print shell completions
    #[command(after_help = "Example:\n  fullsend completions bash > /etc/bash_completion.d/fullsend")]
    Completions(completions::Arguments),
    /// Write the manual pages
    #[command(after_help = "Example:\n  fullsend man ~/.local/share/man/man1")]
    Man(man::Arguments),
}

/// Runs one command and returns its exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let [_, flag] = &arguments[..]
        && (flag == "--version" || flag == "-V")
    {
        let printed = version::run(&version::Arguments::default());
        return ExitCode::from(printed.unwrap_or_else(|failure| report(&failure)));
    }
    if let Some(answered) = complete::answer(&arguments) {
        return answered;
    }
    let command = match parse(&arguments) {
        Ok(command) => command,
        Err(error) => return usage(&error),
    };
    open_files::raise_limit();
    let result = match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Runs(arguments) => runs::run(&arguments),
        Command::Enter(arguments) => enter::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Lock(arguments) => lock::run(&arguments),
        Command::FetchSkill(arguments) => fetch_skill::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Init(arguments) => init::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::Runtimes(arguments) => runtimes::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Models(arguments) => models::run(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Hook(arguments) => hook::run(&arguments),
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Sandbox(arguments) => {
            return sandbox::run(&arguments)
                .map_or_else(|failure| ExitCode::from(report(&failure)), ExitCode::from);
        }
        Command::Dispatch(arguments) => {
            return dispatch::run(&arguments)
                .map_or_else(|failure| ExitCode::from(report(&failure)), ExitCode::from);
        }
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::SelfTest(arguments) => self_test::run(&arguments),
        Command::Session(arguments) => session::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Mcp(arguments) => mcp::run(&arguments),
        Command::Acp(arguments) => acp::run(&arguments),
        Command::Trigger(arguments) => trigger::run(&arguments),
        Command::Ci(arguments) => ci::run(&arguments),
        Command::Worker(arguments) => worker::run(&arguments),
        Command::Store(arguments) => store::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::PostComment(arguments) => post_comment::run(&arguments),
        Command::PostReview(arguments) => post_review::run(&arguments),
        Command::Issues(arguments) => issues::run(&arguments),
        Command::Version(arguments) => version::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
    };
    ExitCode::from(match result {
        Ok(exit) => exit,
        Err(failure) => report(&failure),
    })
}

/// Building the parser of every command takes longer than most commands. So the commands that programs start often get a
/// parser of their own. If that one refuses the words, the whole parser says why, or prints the help.
fn parse(words: &[OsString]) -> Result<Command, clap::Error> {
    match parse_often_used(words) {
        Some(command) => Ok(command),
        None => Arguments::try_parse_from(words).map(|arguments| arguments.command),
    }
}

fn parse_often_used(words: &[OsString]) -> Option<Command> {
    match words.get(1)?.to_str()? {
        "run" => parse_alone("run", words).map(|it| Command::Run(Box::new(it))),
        "hook" => parse_alone("hook", words).map(Command::Hook),
        "sandbox" => parse_alone("sandbox", words).map(Command::Sandbox),
        "worker" => parse_alone("worker", words).map(Command::Worker),
        _ => None,
    }
}

/// Parses the words after `fullsend NAME`.
fn parse_alone<T: Args>(name: &'static str, words: &[OsString]) -> Option<T> {
    let command = T::augment_args(clap::Command::new(name));
    let matches = command.try_get_matches_from(words.get(1..)?).ok()?;
    T::from_arg_matches(&matches).ok()
}

/// Requested help goes to standard output; a usage error goes to standard error.
fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render();
    if error.use_stderr() {
        write_stderr(&text.to_string());
        return ExitCode::from(Exit::Usage);
    }
    match std::io::stdout().write_all(text.to_string().as_bytes()) {
        Ok(()) => ExitCode::from(Exit::Done),
        Err(error) => ExitCode::from(Failure::from(error).exit),
    }
}

fn report(failure: &Failure) -> Exit {
    if !failure.message.is_empty() {
        write_stderr(&format!("fullsend: {}\n", clean_text(&failure.message)));
    }
    if let Some(help) = &failure.help {
        write_stderr(&format!("  help: {help}\n"));
    }
    failure.exit
}

/// Writes to standard error, without commands for a CI. A closed standard error is ignored.
fn write_stderr(text: &str) {
    write_stderr_unchanged(&neutralise(text));
}

/// The same without escaping: for our own CI commands.
fn write_stderr_unchanged(text: &str) {
    drop(std::io::stderr().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use std::ffi::OsString;

    /// The words that help texts start with.
    const VERBS: &[&str] = &[
        "Accept",
        "Confirm",
        "Terminate",
        "Wake",
        "Add",
        "Answer",
        "Apply",
        "Ask",
        "Cancel",
        "Check",
        "Clean",
        "Compare",
        "Complete",
        "Create",
        "Delete",
        "Drop",
        "Export",
        "Fetch",
        "Get",
        "Import",
        "Install",
        "Interrupt",
        "Judge",
        "List",
        "Measure",
        "Move",
        "Open",
        "Print",
        "Pull",
        "Put",
        "Queue",
        "Remove",
        "Retry",
        "Run",
        "Scan",
        "Send",
        "Serve",
        "Show",
        "Start",
        "Stop",
        "Suggest",
        "Test",
        "Verify",
        "Watch",
        "Write",
    ];

    fn check(command: &clap::Command, path: &str) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let verb = about.split([' ', ',']).next().unwrap_or_default();
        assert!(
            VERBS.contains(&verb),
            "`{path} --help` starts with {verb:?}, which is not a known verb: {about}"
        );
        let example = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let example: Vec<&str> = example.split_whitespace().collect();
        assert!(
            example.join(" ").contains(&format!("Example: {path}")),
            "`{path} --help` has no example of itself"
        );
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            check(below, &format!("{path} {}", below.get_name()));
        }
    }

    #[test]
    fn a_parser_of_its_own_reads_a_command_like_the_whole_parser() {
        let lines = [
            "fullsend run triage --repo . --var A=1 --output json",
            "fullsend run -p why?",
            "fullsend hook pre --contract neutral",
            "fullsend sandbox run -- make -j2 test",
            "fullsend sandbox run --policy p.yaml true",
            "fullsend sandbox create --name a --ttl 60",
            "fullsend worker",
        ];
        for line in lines {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let whole = super::Arguments::try_parse_from(&words).unwrap().command;
            let alone = super::parse_often_used(&words).expect(line);
            assert_eq!(format!("{alone:?}"), format!("{whole:?}"), "{line}");
        }
        let wrong = ["fullsend", "run", "--no-such-flag"].map(OsString::from);
        assert!(super::parse_often_used(&wrong).is_none());
        assert!(super::parse(&wrong).unwrap_err().to_string().contains("--no-such-flag"));
    }

    #[test]
    fn every_help_starts_with_a_verb_and_has_an_example() {
        for command in super::Arguments::command().get_subcommands().filter(|command| !command.is_hide_set())
        {
            check(command, &format!("fullsend {}", command.get_name()));
        }
    }
}

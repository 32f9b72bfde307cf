//! `fullsend dispatch`: sends run requests to an engine, and shows, cancels and collects them.

use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::always_json::AlwaysJson;
use super::configuration::variable;
use super::executor;
use super::exit::{Exit, Failure};
use super::signals;
use crate::cancel::Cancel;
use crate::dispatch::folder::{self, DispatchFolder, EngineName, FolderError};
use crate::dispatch::job;
use crate::dispatch::kubernetes::{self, KubernetesOptions};
use crate::dispatch::request::{self, DispatchRequest};
use crate::dispatch::slurm::{self, SlurmOptions};
use crate::event::clock::Moment;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    which: DispatchCommand,
}

#[derive(Debug, Subcommand)]
enum DispatchCommand {
    /// Send requests, one JSON object per line, to an engine: one run is one job
    #[command(
        after_help = "Example:\n  fullsend dispatch send --engine slurm --folder ../runs-1 requests.jsonl\n\nA request has the fields \
                            harness, prompt, inputs, vars, model, runtime, max_usd, timeout_minutes and repo."
    )]
    Send(Box<SendArguments>),
    /// Show the progress of a dispatch: how many jobs wait, run and have ended
    #[command(after_help = "Example:\n  fullsend dispatch status ../runs-1")]
    Status(StatusArguments),
    /// Print what one job wrote
    #[command(after_help = "Example:\n  fullsend dispatch logs ../runs-1 3")]
    Logs(JobArguments),
    /// Cancel the jobs of a dispatch that have not ended
    #[command(after_help = "Example:\n  fullsend dispatch cancel ../runs-1")]
    Cancel(FolderArgument),
    /// Print the results of a dispatch, one JSON object per line
    #[command(after_help = "Example:\n  fullsend dispatch collect ../runs-1 > results.jsonl")]
    Collect(CollectArguments),
    /// Run one job; engines call this
    #[command(hide = true)]
    Job(RunJobArguments),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Engine {
    Local,
    Slurm,
    Kubernetes,
}

#[derive(Args, Debug)]
struct SendArguments {
    /// The requests; `-` is standard input
    #[arg(value_name = "FILE")]
    requests: PathBuf,
    /// Write requests and results to this new directory; all machines of the engine need access to it
    #[arg(long, value_name = "DIR", required_unless_present_any = ["image"])]
    folder: Option<PathBuf>,
    /// Where the jobs run
    #[arg(long, value_enum, default_value_t = Engine::Local)]
    engine: Engine,
    /// Run at most this many jobs at once
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    parallel: usize,
    /// Wait this many seconds between the first signal and killing a job
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    grace: u64,
    /// Slurm: the partition
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Slurm: one more argument for sbatch, such as --mem=4G
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Kubernetes: the image of the container; the documents to apply are printed
    #[arg(long, value_name = "IMAGE", required_if_eq("engine", "kubernetes"))]
    image: Option<String>,
    /// Kubernetes: the name of the Job
    #[arg(long, value_name = "NAME", default_value = "fullsend")]
    name: String,
    /// Kubernetes: the namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Kubernetes: a secret whose keys become variables of the runs
    #[arg(long, value_name = "NAME")]
    secret: Vec<String>,
    /// Kubernetes: the volume claim for results
    #[arg(long, value_name = "NAME")]
    claim: Option<String>,
    /// Kubernetes: processors of one run
    #[arg(long, value_name = "QUANTITY", default_value = "1")]
    cpu: String,
    /// Kubernetes: memory of one run
    #[arg(long, value_name = "QUANTITY", default_value = "4Gi")]
    memory: String,
}

#[derive(Args, Debug)]
struct FolderArgument {
    /// The directory of the dispatch
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(Args, Debug)]
struct StatusArguments {
    #[command(flatten)]
    dispatch: FolderArgument,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct CollectArguments {
    #[command(flatten)]
    dispatch: FolderArgument,
    #[command(flatten)]
    always: AlwaysJson,
}

#[derive(Args, Debug)]
struct JobArguments {
    /// The directory of the dispatch
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The number of the job; the first is 0
    #[arg(value_name = "INDEX")]
    index: usize,
}

#[derive(Args, Debug)]
struct RunJobArguments {
    folder: PathBuf,
    /// By default the engine's own variable
    index: Option<usize>,
    /// The requests of a folder that has none yet
    #[arg(long)]
    requests: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    match &arguments.which {
        DispatchCommand::Send(arguments) => send(arguments),
        DispatchCommand::Status(one) => status(&open(&one.dispatch.folder)?, one.json).map(Exit::code),
        DispatchCommand::Logs(one) => logs(&open(&one.folder)?, one.index).map(Exit::code),
        DispatchCommand::Cancel(one) => cancel(&open(&one.folder)?).map(Exit::code),
        DispatchCommand::Collect(one) => collect(&open(&one.dispatch.folder)?).map(Exit::code),
        DispatchCommand::Job(arguments) => run_job(arguments),
    }
}

fn open(path: &Path) -> Result<DispatchFolder, Failure> {
    DispatchFolder::open(path).map_err(unusable)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn unusable(error: FolderError) -> Failure {
    Failure::new(Exit::Missing, error.to_string())
}

/// The directory that relative paths of requests start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelativePaths {
    Here,
    /// The machine that runs the job.
    There,
}

fn read_requests(path: &Path, relative: RelativePaths) -> Result<Vec<DispatchRequest>, Failure> {
    let wrong = |message: String| Failure::new(Exit::Invalid, message);
    let here = std::env::current_dir().map_err(|error| wrong(error.to_string()))?;
    let here = Some(here.as_path()).filter(|_| relative == RelativePaths::Here);
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let opened = std::fs::File::open(path);
        Box::new(opened.map_err(|error| wrong(format!("cannot read {}: {error}", path.display())))?)
    };
    request::read(BufReader::new(source), here).map_err(|error| wrong(error.to_string()))
}

fn send(arguments: &SendArguments) -> Result<u8, Failure> {
    let relative = match arguments.engine {
        Engine::Kubernetes => RelativePaths::There,
        Engine::Local | Engine::Slurm => RelativePaths::Here,
    };
    let requests = read_requests(&arguments.requests, relative)?;
    let engine = match arguments.engine {
        Engine::Kubernetes => return print_documents(arguments, &requests).map(Exit::code),
        Engine::Local => EngineName::Local,
        Engine::Slurm => EngineName::Slurm,
    };
    let Some(path) = &arguments.folder else {
        return Err(Failure::new(Exit::Usage, "name a new directory with --folder"));
    };
    let created = Moment::now().rfc3339();
    let folder = DispatchFolder::create(path, engine, &requests, created).map_err(unusable)?;
    match engine {
        EngineName::Slurm => submit(arguments, &folder, requests.len()).map(Exit::code),
        EngineName::Local | EngineName::Kubernetes => run_here(&folder, requests.len(), arguments.parallel),
    }
}

fn print_documents(arguments: &SendArguments, requests: &[DispatchRequest]) -> Result<Exit, Failure> {
    let text = folder::lines(requests).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())?;
    if text.len() > 1 << 20 {
        return Err(Failure::new(Exit::Invalid, "the requests are larger than a ConfigMap may be")
            .help("send them in parts of less than 1 MiB"));
    }
    let options = KubernetesOptions {
        name: arguments.name.clone(),
        namespace: arguments.namespace.clone(),
        image: arguments.image.clone().unwrap_or_default(),
        parallel: arguments.parallel,
        secrets: arguments.secret.clone(),
        claim: arguments.claim.clone(),
        cpu: arguments.cpu.clone(),
        memory: arguments.memory.clone(),
        grace_seconds: arguments.grace,
    };
    let mut out = std::io::stdout().lock();
    for document in kubernetes::documents(&text, requests.len(), &options) {
        let text = serde_json::to_string_pretty(&document).unwrap_or_default();
        writeln!(out, "---\n{text}")?;
    }
    Ok(Exit::Done)
}

fn submit(arguments: &SendArguments, folder: &DispatchFolder, count: usize) -> Result<Exit, Failure> {
    let failed = |message: String| Failure::new(Exit::Missing, message);
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let script = folder.path().join("job.sh");
    std::fs::write(&script, slurm::script(&program, folder))
        .map_err(|error| failed(format!("cannot write {}: {error}", script.display())))?;
    // Slurm opens the logs, and makes no directories for them.
    for index in 0..count {
        folder.job(index).map_err(unusable)?;
    }
    let options = SlurmOptions {
        parallel: arguments.parallel,
        partition: arguments.partition.clone(),
        grace_seconds: arguments.grace,
        more: arguments.sbatch.clone(),
    };
    let words = slurm::sbatch(folder, count, &script, &options);
    let ran = Command::new("sbatch").args(words).stdin(Stdio::null()).output();
    let ran = ran.map_err(|error| failed(format!("cannot run sbatch: {error}; install Slurm's client")))?;
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    let Some(id) = slurm::job_id(&printed).filter(|_| ran.status.success()) else {
        return Err(failed(format!("sbatch refused: {}", String::from_utf8_lossy(&ran.stderr).trim())));
    };
    folder.set_job(id).map_err(unusable)?;
    writeln!(std::io::stdout(), "{id}")?;
    Ok(Exit::Done)
}

/// As many jobs at once as asked for. The exit code is that of the first job that failed.
fn run_here(folder: &DispatchFolder, count: usize, parallel: usize) -> Result<u8, Failure> {
    let executor = executor::start(1)?;
    let stop = Cancel::default();
    signals::watch(executor.handle(), &stop)?;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..parallel.clamp(1, count) {
            scope.spawn(|| {
                while !stop.is_cancelled() {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    if index >= count {
                        return;
                    }
                    if let Err(error) = job::run(folder, index, &stop) {
                        super::write_stderr(&format!("fullsend: job {index}: {error}\n"));
                    }
                }
            });
        }
    });
    let mut code = if stop.is_cancelled() { Exit::Terminated.code() } else { Exit::Done.code() };
    for index in 0..count {
        let exit = folder.result(index).map_err(unusable)?.map_or(0, |result| result.exit);
        if code == Exit::Done.code() {
            code = u8::try_from(exit).unwrap_or(Exit::Failed.code());
        }
    }
    status(folder, false)?;
    Ok(code)
}

fn status(folder: &DispatchFolder, as_json: bool) -> Result<Exit, Failure> {
    let manifest = folder.manifest().map_err(unusable)?;
    let mut done = 0;
    let mut failed = 0;
    for index in 0..manifest.count {
        match folder.result(index).map_err(unusable)? {
            Some(result) if result.exit == 0 => done += 1,
            Some(_) => failed += 1,
            None => {}
        }
    }
    let open = manifest.count - done - failed;
    if as_json {
        let counts = json!({
            "runs": manifest.count, "job": manifest.job, "done": done, "failed": failed, "open": open,
        });
        writeln!(std::io::stdout(), "{counts}")?;
        return Ok(Exit::Done);
    }
    let job = manifest.job.map(|job| format!(" job {job}")).unwrap_or_default();
    writeln!(std::io::stdout(), "{} runs{job}: {done} done, {failed} failed, {open} open", manifest.count)?;
    Ok(Exit::Done)
}

fn logs(folder: &DispatchFolder, index: usize) -> Result<Exit, Failure> {
    let path = folder.log(index);
    let opened = std::fs::File::open(&path);
    let mut file = opened.map_err(|error| {
        Failure::new(Exit::Missing, format!("cannot read {}: {error}", path.display())).help(
            "local jobs write to the terminal of `dispatch send`; `dispatch collect` names their records",
        )
    })?;
    std::io::copy(&mut file, &mut std::io::stdout().lock())?;
    Ok(Exit::Done)
}

fn cancel(folder: &DispatchFolder) -> Result<Exit, Failure> {
    let manifest = folder.manifest().map_err(unusable)?;
    let Some(job) = manifest.job.filter(|_| manifest.engine == EngineName::Slurm) else {
        return Err(Failure::new(Exit::Usage, "only jobs of Slurm can be cancelled from here")
            .help("stop a local dispatch with Ctrl-C, and a Job of Kubernetes with `kubectl delete job`"));
    };
    let ran = Command::new("scancel").arg(&job).stdin(Stdio::null()).status();
    match ran {
        Ok(status) if status.success() => Ok(Exit::Done),
        Ok(_) => Err(Failure::new(Exit::Failed, format!("scancel {job} failed"))),
        Err(error) => Err(Failure::new(Exit::Missing, format!("cannot run scancel: {error}"))),
    }
}

fn collect(folder: &DispatchFolder) -> Result<Exit, Failure> {
    let manifest = folder.manifest().map_err(unusable)?;
    let mut out = std::io::stdout().lock();
    for index in 0..manifest.count {
        let result = folder.result(index).map_err(unusable)?;
        let request = folder.request(index).map_err(unusable)?;
        let output = result.as_ref().and_then(|result| std::fs::read_to_string(&result.output).ok());
        let output = output.map(|text| serde_json::from_str(&text).unwrap_or_else(|_| json!(text)));
        let line = match result {
            Some(result) => json!({
                "index": index, "state": "ended", "exit": result.exit, "attempt": result.attempt,
                "run": result.run, "output": output, "request": request,
            }),
            None => json!({ "index": index, "state": "open", "request": request }),
        };
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Done)
}

fn run_job(arguments: &RunJobArguments) -> Result<u8, Failure> {
    let engine = ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"].into_iter().find_map(variable);
    let index = arguments.index.or_else(|| engine.and_then(|text| text.parse().ok()));
    let Some(index) = index else {
        return Err(Failure::new(Exit::Usage, "name the number of the job"));
    };
    let folder = match &arguments.requests {
        // On a Kubernetes volume the first job creates the folder.
        Some(requests) => {
            let path = arguments.folder.join("dispatch");
            let requests = read_requests(requests, RelativePaths::Here)?;
            let created = Moment::now().rfc3339();
            match DispatchFolder::create(&path, EngineName::Kubernetes, &requests, created) {
                Ok(folder) => folder,
                Err(_) => open(&path)?,
            }
        }
        None => open(&arguments.folder)?,
    };
    let executor = executor::start(1)?;
    let stop = Cancel::default();
    signals::watch(executor.handle(), &stop)?;
    job::run(&folder, index, &stop).map_err(|error| Failure::new(Exit::Missing, error.to_string()))
}

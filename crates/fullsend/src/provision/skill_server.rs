//! Fetches skills for a running agent. A request is a URL; the skill is fetched under the harness's rules, scanned on the host, and
//! only then moved to where the agent can read it. Every request is an event of the run.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use scan::Origin;
use yaml::{Decoder, ParseLimits, Shape, Sources};

use super::RunContext;
use crate::event::log::{Emitter, sha256};
use crate::event::{InputKind, RunEvent, SkillFetchEvent};
use crate::guard::Guard;
use crate::guard::run_socket::RunSocket;
use crate::harness::frontmatter::{self, SkillFrontmatter};
use crate::harness::reference::{PinnedUrl, UrlPrefix};
use crate::remote::skill_request::{MAX_REQUEST, SkillReply};
use crate::remote::{FileTree, RemoteError, RemoteResources, RemoteSettings};

const NAME: &str = "skills.sock";
/// For reading a request and writing its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most requests, refused ones included: more refusals tell the agent nothing new.
const MAX_REQUESTS: u64 = 1_000;

/// The rules for a run's requests.
pub struct SkillRules {
    pub allowed: Vec<UrlPrefix>,
    /// How many skills may be fetched.
    pub most: u64,
    pub remote: RemoteSettings,
    pub staging: PathBuf,
    /// Where the skills are in the sandbox.
    pub inside: String,
}

/// A server that listens. Dropping it removes the socket.
pub struct SkillServer {
    socket: RunSocket,
}

impl SkillServer {
    /// Starts to listen in `directory`, which must be private to its owner.
    pub fn start(directory: &Path, rules: SkillRules, context: &RunContext<'_>) -> io::Result<Self> {
        let (socket, listener) = RunSocket::bind(directory, NAME)?;
        let guard = context.guard.clone();
        let emit = context.emit.clone();
        let fetches = Arc::clone(&rules.remote.skill_fetches);
        let serve = move || {
            let remote = RemoteResources::of_thread(&rules.remote);
            let mut service =
                SkillService { rules, remote, guard, emit, fetches, requests: 0, known: BTreeMap::new() };
            while let Some(stream) = listener.next() {
                // A client that went away gets no answer.
                drop(service.serve(&stream));
            }
        };
        std::thread::Builder::new().name("skills".to_owned()).spawn(serve)?;
        Ok(Self { socket })
    }

    /// The socket on the host.
    pub fn path(&self) -> &Path {
        self.socket.path()
    }
}

/// The state that one thread needs to answer.
struct SkillService {
    rules: SkillRules,
    remote: RemoteResources,
    guard: Guard,
    emit: Emitter,
    /// Counted over the whole run: a new sandbox does not reset it.
    fetches: Arc<AtomicU64>,
    requests: u64,
    /// The digests of the skills that were fetched, by their names.
    known: BTreeMap<String, String>,
}

/// Why a skill was not fetched, and what the agent can do.
struct Refusal {
    why: String,
    instead: &'static str,
}

/// A skill that passed every check.
struct FetchedSkill {
    name: String,
    sha256: String,
}

impl SkillService {
    fn serve(&mut self, stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut text = String::new();
        stream.take(MAX_REQUEST).read_to_string(&mut text)?;
        let url = text.trim();
        let fetched = self.fetch(url);
        let shown: String = url.split(['?', '#']).next().unwrap_or_default().chars().take(500).collect();
        let mut event = SkillFetchEvent { url: shown, ..SkillFetchEvent::default() };
        match &fetched {
            Ok(FetchedSkill { name, sha256 }) => {
                event.name.clone_from(name);
                event.sha256.clone_from(sha256);
            }
            Err(refusal) => event.refused.clone_from(&refusal.why),
        }
        self.emit.emit(RunEvent::SkillFetch(event));
        let reply = match fetched {
            Ok(FetchedSkill { name, .. }) => {
                let path = format!("{}/{name}/SKILL.md", self.rules.inside);
                SkillReply::Fetched { name, path }
            }
            Err(Refusal { why, instead }) => SkillReply::Refused { why, instead: instead.to_owned() },
        };
        let mut stream = stream;
        stream.write_all(&serde_json::to_vec(&reply)?)
    }

    fn fetch(&mut self, text: &str) -> Result<FetchedSkill, Refusal> {
        self.requests += 1;
        if self.requests > MAX_REQUESTS {
            let why = format!("there were {MAX_REQUESTS} requests already");
            return Err(Refusal { why, instead: "continue without more skills" });
        }
        let url = self.pinned(text)?;
        if self.fetches.fetch_add(1, Ordering::SeqCst) >= self.rules.most {
            let why =
                format!("{} skills were requested already, and the harness allows no more", self.rules.most);
            return Err(Refusal { why, instead: "continue with the skills that you have" });
        }
        let url = match url {
            Request::Pinned(url) => url,
            Request::Any(url) => {
                self.remote.pin(&url, &self.rules.allowed).map_err(|error| not_fetched(&error))?
            }
        };
        let tree = self.remote.skill(&url).map_err(|error| not_fetched(&error))?;
        let name = name_of(&tree)?;
        for (path, file) in tree.files() {
            let place = format!("{url}//{path}");
            self.emit.emit(RunEvent::Input {
                kind: InputKind::Skill,
                name: place.clone(),
                sha256: sha256(&file.bytes),
            });
            self.guard.inspect(&file.bytes, Origin::Instruction, &place).map_err(|blocked| Refusal {
                why: format!("the guard refuses it: {blocked}"),
                instead: "do not use this skill; continue without it",
            })?;
        }
        let sha256 = tree.digest();
        self.install(&name, &sha256, &tree)?;
        Ok(FetchedSkill { name, sha256 })
    }

    /// The parsed URL, if a prefix covers it.
    fn pinned(&self, text: &str) -> Result<Request, Refusal> {
        let wrong = |why: String| Refusal {
            why: format!("the URL {why}"),
            instead: "give an https URL of a SKILL.md or a .tar.gz, or git+https://HOST/REPOSITORY@COMMIT//PATH",
        };
        let is_pinned = text.contains('#') || text.starts_with("git+");
        let (request, url) = if is_pinned {
            let url = PinnedUrl::parse(text).map_err(wrong)?;
            (Request::Pinned(url.clone()), url)
        } else {
            // A placeholder digest, only to compare the URL with the prefixes: the real digest comes with the answer.
            let url = PinnedUrl::parse(&format!("{text}#sha256={}", "0".repeat(64))).map_err(wrong)?;
            (Request::Any(url.url.clone()), url)
        };
        if self.rules.allowed.iter().any(|prefix| url.is_under(prefix)) {
            return Ok(request);
        }
        Err(Refusal {
            why: format!("no allowed prefix covers {url}"),
            instead: "only what the harness lists in `allowed_remote_resources` can be fetched",
        })
    }

    /// Moves the skill to where the sandbox sees it, whole.
    fn install(&mut self, name: &str, digest: &str, tree: &FileTree) -> Result<(), Refusal> {
        let target = self.rules.staging.join("config/skills").join(name);
        if target.symlink_metadata().is_ok() {
            let is_same = self.known.get(name).is_some_and(|known| known == digest);
            return if is_same {
                Ok(())
            } else {
                let why = format!("there is another skill called `{name}`");
                Err(Refusal { why, instead: "use the existing skill of this name" })
            };
        }
        let incoming = self.rules.staging.join("incoming");
        drop(std::fs::remove_dir_all(&incoming));
        let moved = tree.write(&incoming).and_then(|()| std::fs::rename(&incoming, &target));
        moved.map_err(|error| Refusal {
            why: format!("the host cannot write it: {error}"),
            instead: "continue without it",
        })?;
        self.known.insert(name.to_owned(), digest.to_owned());
        Ok(())
    }
}

/// A request for a skill.
enum Request {
    Pinned(PinnedUrl),
    /// Without a digest: the answer has one.
    Any(String),
}

fn not_fetched(error: &RemoteError) -> Refusal {
    let instead = match error {
        RemoteError::Digest { .. } => "do not use this skill: it does not match its digest",
        RemoteError::NotCached { .. } => "this run is offline: continue without it",
        RemoteError::Files { .. } => "the skill cannot be used as it is: continue without it",
        _ => "check the URL and try once more, or continue without it",
    };
    Refusal { why: error.to_string(), instead }
}

/// The name in the skill's frontmatter.
fn name_of(tree: &FileTree) -> Result<String, Refusal> {
    let wrong = |why: &str| Refusal {
        why: format!("it is not a skill: {why}"),
        instead: "give the URL of a directory or file with a SKILL.md that has `name` and `description`",
    };
    let bytes = tree.files().find(|(path, _)| *path == "SKILL.md").map(|(_, file)| &file.bytes);
    let bytes = bytes.ok_or_else(|| wrong("it has no SKILL.md"))?;
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("its SKILL.md is not UTF-8 text"))?;
    let mut sources = Sources::default();
    let source = sources.add("SKILL.md", text);
    let parts = frontmatter::split(text, source).map_err(|problem| wrong(&problem.message))?;
    let range = parts.frontmatter.ok_or_else(|| wrong("its SKILL.md has no frontmatter"))?;
    let tree = yaml::parse_part(&sources, source, range, ParseLimits::default());
    let tree = tree.map_err(|problem| wrong(&problem.message))?;
    let mut decoder = Decoder::whole();
    let frontmatter = SkillFrontmatter::decode(&tree, &mut decoder);
    let error = decoder.diagnostics.iter().find(|problem| problem.is_error());
    match (frontmatter, error) {
        (Some(frontmatter), None) => Ok(frontmatter.name.as_str().to_owned()),
        (_, Some(problem)) => Err(wrong(&problem.message)),
        (None, None) => Err(wrong("its frontmatter cannot be read")),
    }
}

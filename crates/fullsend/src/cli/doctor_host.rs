//! What a run uses of this machine beside its sandbox: programs, keys, space, time, network. It contacts only an
//! OpenShell gateway and an object store, if they are configured. It shows no key, and each line with a problem says
//! what to do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use egress::dial::HostProxy;
use sandbox::doctor::{Check, CheckState};
use sandbox::{HostPrograms, MemoryBound};
use yaml::{Node, ParseLimits, Sources};

use super::configuration::{variable, xdg_directory};
use super::session::store::StoreOptions;
use crate::backend::openshell;
use crate::backend::openshell::endpoint::{self, OpenshellEndpoint};
use crate::cancel::Cancel;
use crate::event::clock::Moment;
use crate::runtime::ALL;
use crate::runtime::programs::ProgramSearch;
use crate::scripts::{self, Script, memory};

/// Far more than a program needs to say its version.
const TIME: Duration = Duration::from_secs(10);

/// Below this a run may not fit.
const LITTLE_SPACE: u64 = 2 << 30;

/// All checks, in the order of a run.
pub fn checks() -> Vec<Check> {
    let mut all = vec![
        program("git", "install git; changes of the agent are compared and applied with it"),
        program("npm", "install Node.js, which has npm; only `fullsend runtimes install` uses it"),
    ];
    all.extend(runtimes());
    all.push(host_memory());
    all.push(keys());
    all.push(disk());
    all.push(clock());
    all.push(network());
    all.push(proxies());
    all.extend(openshell());
    all.extend(objects());
    all
}

fn good(name: &'static str, found: String) -> Check {
    Check { name, state: CheckState::Good, found, fix: None }
}

fn weak(name: &'static str, found: String, fix: &str) -> Check {
    Check { name, state: CheckState::Weak, found, fix: Some(fix.to_owned()) }
}

/// A program of the host, by what it says about itself.
fn program(name: &'static str, fix: &str) -> Check {
    let path = variable("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).filter(|place| place.is_absolute());
    let Some(program) = places.find_map(|place| Some(place.join(name)).filter(|path| path.is_file())) else {
        return weak(name, "not found in PATH".to_owned(), fix);
    };
    let ran = scripts::run(&Script {
        program: &program,
        arguments: &["--version".to_owned()],
        working_directory: Path::new("/"),
        environment: BTreeMap::from([("PATH".to_owned(), path)]),
        time: TIME,
        cancel: &Cancel::default(),
    });
    match ran {
        Ok(ended) if ended.code() == 0 => {
            let version = ended.output.lines().next().unwrap_or_default().trim();
            good(name, format!("{version} ({})", program.display()))
        }
        Ok(ended) => weak(name, format!("{} ended with {}", program.display(), ended.code()), fix),
        Err(error) => weak(name, error.to_string(), fix),
    }
}

/// The agent programs that are not built in.
fn runtimes() -> Vec<Check> {
    let search = ProgramSearch::new(&variable);
    let found = ALL.iter().filter_map(|runtime| {
        let name = runtime.name.word();
        match runtime.find_program(&search) {
            Ok(None) => None,
            Ok(Some(program)) => {
                let path = program.directory.join(&program.executable);
                Some(good(name, format!("{} {}", program.version, path.display())))
            }
            Err(error) => {
                let fix = format!("fullsend runtimes install {name}; the runtime `native` needs nothing");
                Some(weak(name, error.to_string(), &fix))
            }
        }
    });
    found.collect()
}

/// The names of the variables that hold a key for a model, as the built-in profiles list them.
fn key_names() -> Vec<String> {
    let profiles = crate::defaults::FILES.iter().filter(|(path, _)| path.starts_with("profiles/"));
    let trees = profiles.filter_map(|(path, text)| {
        let mut sources = Sources::default();
        let id = sources.add(*path, *text);
        yaml::parse(&sources, id, ParseLimits::default()).ok()
    });
    let models = trees.filter(|tree| tree.get("category").and_then(Node::scalar) == Some("inference"));
    let mut names: Vec<String> = Vec::new();
    for tree in models {
        let credentials = tree.get("credentials").map_or(&[][..], Node::items);
        let variables = credentials.iter().filter_map(|one| one.get("env_vars")).flat_map(Node::items);
        for name in variables.filter_map(Node::scalar) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

fn keys() -> Check {
    let set: Vec<String> = key_names().into_iter().filter(|name| variable(name).is_some()).collect();
    if set.is_empty() {
        let fix = "export ANTHROPIC_API_KEY or OPENAI_API_KEY; docs/models.md lists the other services";
        return weak("keys", "no variable with a key for a model is set".to_owned(), fix);
    }
    good("keys", format!("{} set; `fullsend doctor --model HARNESS` tries it", set.join(", ")))
}

/// What bounds the programs that a run starts on the host.
fn host_memory() -> Check {
    let name = "host memory";
    let fix = "start it with systemd-run --user --scope -p Delegate=yes, or as root";
    let bytes = match memory::bytes(&super::run::environment()) {
        Ok(bytes) => bytes,
        Err(error) => return weak(name, error.to_string(), &format!("unset {}", memory::VARIABLE)),
    };
    let mebibytes = bytes >> 20;
    match HostPrograms::with_cgroup(bytes).bound() {
        MemoryBound::Together { how } => {
            good(name, format!("scripts, git and servers have {mebibytes} MiB together, by {how}"))
        }
        MemoryBound::Each { why } => {
            let found =
                format!("scripts, git and servers have {mebibytes} MiB each, by a resource limit: {why}");
            weak(name, found, fix)
        }
    }
}

/// The nearest directory above a path that exists.
fn existing(path: &Path) -> Option<&Path> {
    path.ancestors().find(|place| place.is_dir())
}

fn disk() -> Check {
    let state = xdg_directory("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    let places = [state, Some(std::env::temp_dir())];
    let mut least: Option<(u64, PathBuf)> = None;
    for place in places.into_iter().flatten() {
        let Some(place) = existing(&place) else { continue };
        let Ok(about) = rustix::fs::statvfs(place) else { continue };
        let free = about.f_bavail.saturating_mul(about.f_frsize);
        if least.as_ref().is_none_or(|(known, _)| free < *known) {
            least = Some((free, place.to_owned()));
        }
    }
    let Some((free, place)) = least else {
        let fix = "set HOME or XDG_STATE_HOME to a directory that can be written";
        return weak("disk", "no directory for runs".to_owned(), fix);
    };
    let found = format!("{:.1} GiB free in {}", free as f64 / f64::from(1 << 30), place.display());
    if free < LITTLE_SPACE {
        let fix = "free space, remove runs with `fullsend runs rm`, or set FULLSEND_KEEP_MB";
        return weak("disk", found, fix);
    }
    good("disk", found)
}

/// A clock from before this program was made is wrong, and certificates are not valid yet.
fn clock() -> Check {
    let now = Moment::now();
    let made = std::env::current_exe().and_then(std::fs::metadata).and_then(|about| about.modified());
    let made = made.ok().and_then(|made| made.duration_since(std::time::UNIX_EPOCH).ok());
    let made = made.and_then(|made| u64::try_from(made.as_millis()).ok()).unwrap_or_default();
    let found = now.rfc3339();
    if now.millis() < made {
        let found = format!("{found} is before this program was installed");
        return weak(
            "clock",
            found,
            "set the clock (timedatectl set-ntp true); TLS refuses certificates otherwise",
        );
    }
    good("clock", found)
}

/// Whether the host has a default route and a name server. `doctor --model` tests a real connection.
fn network() -> Check {
    let resolvers = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let resolver = resolvers.lines().find_map(|line| line.trim().strip_prefix("nameserver"));
    let fix =
        "connect the machine, or name a proxy in HTTPS_PROXY; runs without a model on the network still work";
    match (has_route(), resolver) {
        (true, Some(resolver)) => good("network", format!("a route, and names from {}", resolver.trim())),
        (false, _) => weak("network", "no default route".to_owned(), fix),
        (true, None) => weak("network", "/etc/resolv.conf names no server".to_owned(), fix),
    }
}

/// The OpenShell gateway, where one is named: `sandbox.backend: openshell` runs on it.
fn openshell() -> Option<Check> {
    let is_named = [endpoint::ENDPOINT, endpoint::GATEWAY].iter().any(|name| variable(name).is_some());
    let fix = "start the gateway, and set OPENSHELL_GATEWAY_ENDPOINT and OPENSHELL_TOKEN";
    let endpoint = match OpenshellEndpoint::of_host(&variable).map_err(|why| weak("openshell", why, fix)) {
        Ok(endpoint) => endpoint,
        Err(check) => return is_named.then_some(check),
    };
    let place = endpoint.to_string();
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    Some(match executor.block_on(openshell::version(endpoint)) {
        Ok(version) => good("openshell", format!("gateway {version} ({place})")),
        Err(error) => weak("openshell", error.to_string(), fix),
    })
}

/// The object store of sessions, where one is named: whether an object can be written, read and removed.
fn objects() -> Option<Check> {
    match StoreOptions::default().probe_objects() {
        Ok(address) => Some(good("objects", format!("{}: written, read and removed", address?))),
        Err(failure) => {
            Some(weak("objects", failure.message, "docs/objects.md says what a bucket and its key need"))
        }
    }
}

/// A default route of either family, from the kernel's tables.
fn has_route() -> bool {
    let is_default_4 = |line: &str| line.split_whitespace().nth(1) == Some("00000000");
    let is_default_6 = |line: &str| {
        let mut words = line.split_whitespace();
        let target = words.next().is_some_and(|address| address.chars().all(|digit| digit == '0'));
        target && words.next() == Some("00") && !line.ends_with(" lo")
    };
    let table = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    table("/proc/net/route").lines().any(is_default_4)
        || table("/proc/net/ipv6_route").lines().any(is_default_6)
}

fn proxies() -> Check {
    let used = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let set = |names: &[&'static str]| names.iter().copied().find(|name| variable(name).is_some());
    match HostProxy::from_variables(&variable) {
        Err(error) => weak("proxies", error.to_string(), "write it as HTTPS_PROXY=http://HOST:PORT"),
        Ok(Some(_)) => {
            let name = set(&used).unwrap_or("HTTPS_PROXY");
            good("proxies", format!("{name} is used, except for what NO_PROXY names"))
        }
        Ok(None) => match set(&["HTTP_PROXY", "http_proxy"]) {
            Some(name) => {
                let found = format!("{name} is set and HTTPS_PROXY is not");
                weak("proxies", found, "set HTTPS_PROXY too: requests to models use TLS")
            }
            None => good("proxies", "none".to_owned()),
        },
    }
}

//! Packages from outside the registry: archives and repositories by URL, other indexes, unverified sources. Installing a package
//! runs its code.

use redact::{Severity, rule};

use super::{Harm, harm};
use crate::script::Call;

const ADVICE: &str = "Install an exact version, such as `name==1.2.3`, from the registry. If you cannot, say in your result that the image needs the package.";
/// Forges, where a repository has a known owner.
const FORGES: &[&str] = &["github.com", "gitlab.com", "bitbucket.org", "codeberg.org"];

pub(super) fn judge(call: &Call) -> Option<Harm> {
    let words: Vec<&str> = call.words().collect();
    let installs = words.iter().any(|word| matches!(*word, "install" | "i" | "add" | "get" | "exec" | "dlx"));
    let index = [
        "--index-url",
        "-i",
        "--extra-index-url",
        "--trusted-host",
        "--find-links",
        "-f",
        "--registry",
        "--source",
        "-s",
        "--index",
        "--default-index",
    ];
    let manager = match call.program() {
        "pip" | "pip3" | "pipx" | "uv" | "easy_install" | "conda" | "poetry" => installs,
        "npm" | "pnpm" | "yarn" | "bun" | "gem" | "cargo" => installs,
        "npx" | "bunx" | "uvx" => true,
        "python" | "python3" => words.starts_with(&["-m", "pip", "install"]),
        "dpkg" | "rpm" => return local(call),
        "apt-key" => {
            return harm(rule::command::PACKAGE_SOURCE, Severity::High, "trusts a new signing key", ADVICE);
        }
        "add-apt-repository" => {
            return harm(rule::command::PACKAGE_SOURCE, Severity::Medium, "adds a package source", ADVICE);
        }
        _ => false,
    };
    if !manager {
        return None;
    }
    let elsewhere = call.value_of(&index).filter(|value| value.contains("://") && !is_registry(value));
    if let Some(value) = elsewhere {
        return harm(
            rule::command::PACKAGE_SOURCE,
            Severity::High,
            format!("installs from the index `{}`", host(value)),
            ADVICE,
        );
    }
    let is_address =
        |word: &&str| word.contains("://") || word.starts_with("git+") || word.starts_with("git@");
    let address = packages(call).into_iter().find(is_address)?;
    let host = host(address);
    let severity = if FORGES.contains(&host.as_str()) || is_registry(address) {
        Severity::Medium
    } else {
        Severity::High
    };
    harm(
        rule::command::PACKAGE_SOURCE,
        severity,
        format!("installs a package straight from `{host}`"),
        ADVICE,
    )
}

/// The words that name what is installed. A program that is installed and run at once gets the words after its name.
fn packages(call: &Call) -> Vec<&str> {
    let operands = call.operands().map(|word| word.text.as_str());
    let runs_it =
        call.is(&["npx", "bunx", "uvx", "pipx"]) || call.words().any(|word| matches!(word, "exec" | "dlx"));
    if !runs_it {
        return operands.collect();
    }
    let is_verb = |word: &&str| matches!(*word, "exec" | "dlx" | "run" | "x");
    let named = call.value_of(&["-p", "--package", "--from", "--with", "--spec"]);
    operands.skip_while(is_verb).take(1).chain(named).collect()
}

fn local(call: &Call) -> Option<Harm> {
    let from_temporary =
        call.operands().find(|word| word.text.starts_with("/tmp/") || word.text.contains("://"))?;
    harm(
        rule::command::PACKAGE_SOURCE,
        Severity::High,
        format!("installs `{}`, which is not from a registry", from_temporary.text),
        ADVICE,
    )
}

fn host(address: &str) -> String {
    let plain = address.trim_start_matches("git+");
    scan::ssrf::url::parse(plain).map(|url| url.host).unwrap_or_default()
}

fn is_registry(address: &str) -> bool {
    let registries = [
        "pypi.org",
        "files.pythonhosted.org",
        "registry.npmjs.org",
        "registry.yarnpkg.com",
        "rubygems.org",
        "crates.io",
        "index.crates.io",
        "npm.pkg.github.com",
        "download.pytorch.org",
    ];
    registries.contains(&host(address).as_str())
}

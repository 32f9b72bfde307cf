//! Where a worker fetches the repositories of sessions from, and with which token.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use egress::credentials::Secret;

use super::configuration::{variable, xdg_directory};
use super::exit::{Exit, Failure};
use super::forge_options::TrackerName;
use super::session::store::StoreOptions;
use crate::git::checkout::{CheckoutRoot, Checkouts};

#[derive(Args, Debug)]
pub struct CheckoutOptions {
    /// Run the sessions of all repositories below this address, each in a fresh checkout of its default branch or of
    /// the session's --ref; can be repeated
    #[arg(long, value_name = "URL", value_parser = CheckoutRoot::parse, conflicts_with_all = ["repo", "fullsend_dir", "config_ref"])]
    checkout: Vec<CheckoutRoot>,
    /// Use the token in this variable for checkouts, all from one server [default: GH_TOKEN for github.com or GH_HOST,
    /// GITLAB_TOKEN for gitlab.com or GITLAB_HOST]
    #[arg(long, value_name = "NAME", requires = "checkout")]
    checkout_token: Option<String>,
}

impl CheckoutOptions {
    /// The repositories that the worker fetches, or `None` if it works in the one where it was started.
    pub fn checkouts(&self, store: &StoreOptions) -> Result<Option<Checkouts>, Failure> {
        if self.checkout.is_empty() {
            return Ok(None);
        }
        if store.store.is_none() && variable("FULLSEND_SESSION_STORE").is_none() {
            return Err(Failure::new(Exit::Usage, "--checkout needs a store that the repositories share")
                .help(
                    "name it with --store or FULLSEND_SESSION_STORE, here and where sessions are created",
                ));
        }
        let origins: BTreeSet<&str> =
            self.checkout.iter().map(|root| root.transport.origin.as_str()).collect();
        if self.checkout_token.is_some() && origins.len() > 1 {
            return Err(Failure::new(
                Exit::Usage,
                "--checkout-token is for one server, and --checkout names more",
            )
            .help("start one worker for each server, so that no server gets another one's token"));
        }
        let home = || variable("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = xdg_directory("XDG_CACHE_HOME").or_else(home);
        let cache =
            cache.ok_or_else(|| Failure::new(Exit::Missing, "neither XDG_CACHE_HOME nor HOME is set"))?;
        let roots = self.checkout.iter().map(|root| self.with_access(root));
        Ok(Some(Checkouts::new(roots.collect::<Result<_, _>>()?, cache.join("fullsend/checkouts"))))
    }

    fn with_access(&self, root: &CheckoutRoot) -> Result<CheckoutRoot, Failure> {
        let mut root = root.clone();
        // A token goes to the server that it was made for, and to no other.
        let is_host = |name: &str, other: &str| {
            root.host() == name || variable(other).is_some_and(|host| host.eq_ignore_ascii_case(root.host()))
        };
        let tracker = if is_host("github.com", "GH_HOST") {
            Some(TrackerName::Github)
        } else if is_host("gitlab.com", "GITLAB_HOST") {
            Some(TrackerName::Gitlab)
        } else {
            None
        };
        let token = match &self.checkout_token {
            Some(name) => Some(variable(name).ok_or_else(|| {
                Failure::new(Exit::Missing, format!("{name} is not set"))
                    .help("--checkout-token names the variable with the token")
            })?),
            None => {
                tracker.and_then(|tracker| tracker.token_variables().iter().find_map(|name| variable(name)))
            }
        };
        // Every service accepts the token as the password; GitHub App tokens need this user name.
        let user = if tracker == Some(TrackerName::Github) { "x-access-token" } else { "oauth2" };
        root.transport.authorization =
            token.map(|token| Secret::new(format!("Basic {}", STANDARD.encode(format!("{user}:{token}")))));
        root.transport.variables = network_variables();
        Ok(root)
    }
}

/// The host's settings for proxies and certificates, as git reads them.
fn network_variables() -> BTreeMap<String, String> {
    let names = [
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
        "NO_PROXY",
        "no_proxy",
    ];
    let given = |name: &str| variable(name).map(|value| (name.to_owned(), value));
    let mut variables: BTreeMap<String, String> = names.iter().filter_map(|name| given(name)).collect();
    variables.extend(variable("SSL_CERT_FILE").map(|path| ("GIT_SSL_CAINFO".to_owned(), path)));
    variables.extend(variable("SSL_CERT_DIR").map(|path| ("GIT_SSL_CAPATH".to_owned(), path)));
    variables
}

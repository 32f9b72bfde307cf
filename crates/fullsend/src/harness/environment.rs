//! `environments/<id>.yaml`: where sessions run, defined once and used by name. A session remembers which one and its digest,
//! and never edits it.

use yaml::{Spanned, record};

use super::reference::Ref;
use super::template::Template;
use super::{Env, Limits};

record! {
    /// Where sessions run. Its values override the harness; the organisation's pins override both.
    layered pub struct Environment {
        /// What it is for, in a sentence.
        description: Option<String>,
        /// The sandbox policy, in the OpenShell format.
        policy: Option<Spanned<Ref>>,
        /// An image whose files are the sandbox's root. `${VAR}` is expanded.
        image: Option<Spanned<Template>>,
        /// Variables for the scripts on the host and for the agent.
        env: Option<Env>,
        /// What the agent and its children may use.
        limits: Option<yaml::Partial<Limits>>,
    }
}

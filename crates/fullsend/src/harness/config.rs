//! `config.yaml` of a layer: what the organisation pins for all its repositories, and what a repository chooses for
//! itself.

use yaml::{Partial, Spanned, Unmerged, record};

use super::Budget;
use super::image::ImagePrefix;
use super::names::{
    Fetches, FormatVersion, Iterations, Minutes, ModelName, Positive, ReadySeconds, RuntimeName, TokenPrice,
};
use super::reference::{InternalHost, LocalPath, UrlPrefix};
use super::security::Security;

record! {
    /// The configuration of one layer.
    layered pub struct Config {
        /// Version of this format. Absent means 1.
        version: Option<FormatVersion>,
        /// The organisation's directory, from the repository's root. Only in a repository's configuration.
        org: Option<Spanned<String>>,
        /// The runtime of harnesses that name none.
        runtime: Option<Spanned<RuntimeName>>,
        /// Whether repositories' own skills may be given to agents. Only the organisation can turn it on.
        allow_repo_skills: Option<Spanned<bool>>,
        /// Whether a harness without an output schema is an error.
        require_output_schema: Option<Spanned<bool>>,
        /// Settings for every harness; what the organisation turns on here stays on.
        security: Option<Partial<Security>>,
        /// The most that a run may spend.
        budget: Option<Budget>,
        /// Prices of models that are not in the built-in list, or that replace its prices.
        prices: Vec<ModelPrice>,
        /// The most that a harness may ask for.
        caps: Option<HarnessCaps>,
        /// A policy that every policy must be a subset of.
        policy_ceiling: Option<Spanned<LocalPath>>,
        /// URL prefixes from which resources may come.
        allowed_remote_resources: Unmerged<Vec<Spanned<UrlPrefix>>>,
        /// Hosts of internal networks, with their ports, from which resources may come. Only in the organisation's.
        internal_hosts: Vec<Spanned<InternalHost>>,
        /// Whether agents may fetch skills while they run.
        allow_runtime_fetch: Option<Spanned<bool>>,
        /// The most that they may fetch.
        max_runtime_fetches: Option<Spanned<Fetches>>,
        /// Which images may be pulled, and from where.
        images: Option<ImageSettings>,
        /// Exceptions to what the organisation pins. Each use is recorded.
        overrides: Vec<Override>,
        /// Findings that the organisation has reviewed and accepts, for a time. They are still shown.
        suppressions: Vec<Suppression>,
    }
    refuse {
        "kill_switch" => "there is no switch for everything: turn single scanners and hooks off by name in `security`",
    }
}

record! {
    /// The most that a harness may ask for.
    layered pub struct HarnessCaps {
        timeout_minutes: Option<Spanned<Minutes>>,
        sandbox_timeout_seconds: Option<Spanned<ReadySeconds>>,
        max_iterations: Option<Spanned<Iterations>>,
    }
}

record! {
    /// Which images may be pulled, and from where.
    pub struct ImageSettings {
        /// Registries, parts of them or repositories from which images may come, such as `quay.io/acme`. Default: every one.
        allow: Option<Vec<Spanned<ImagePrefix>>>,
        /// Whether an image must be named by its digest.
        require_digest: Option<Spanned<bool>>,
        /// Places that are asked before a registry itself.
        mirrors: Vec<ImageMirror>,
        /// Registries that may use plain http. This machine needs no entry.
        plain_http: Vec<Spanned<ImagePrefix>>,
    }
}

record! {
    /// A place that has the images of another.
    pub struct ImageMirror {
        /// The registry, or the part of it, that is mirrored, such as `docker.io`.
        of: Spanned<ImagePrefix>,
        /// Where the same images are, such as `mirror.example/hub`.
        at: Spanned<ImagePrefix>,
    }
}

record! {
    /// What a model costs, in dollars for a million tokens.
    pub struct ModelPrice {
        /// The model's name, without its date.
        model: Spanned<ModelName>,
        /// Tokens of a request.
        input: Spanned<TokenPrice>,
        /// Tokens of an answer.
        output: Spanned<TokenPrice>,
        /// Tokens that the service has in its cache. Default: as `input`.
        cache_read: Option<Spanned<TokenPrice>>,
        /// Tokens that the service puts into its cache. Default: as `input`.
        cache_write: Option<Spanned<TokenPrice>>,
        /// The same, for a cache of one hour. Default: as `cache_write`.
        cache_write_hour: Option<Spanned<TokenPrice>>,
        /// The longest answer of the model.
        max_output_tokens: Option<Spanned<Positive>>,
    }
}

record! {
    /// An exception to what the organisation pins.
    pub struct Override {
        /// `owner/name`, or `*` for every repository.
        repo: Spanned<String>,
        /// The field that may be weaker, and all below it. `security` is the full bypass.
        field: Spanned<String>,
        /// Why.
        reason: Spanned<String>,
        /// The last day on which it applies, as YYYY-MM-DD.
        until: Spanned<String>,
    }
}

record! {
    /// A finding that the organisation accepts.
    pub struct Suppression {
        /// The rule's name, as the finding shows it.
        rule: Spanned<String>,
        /// Where it is accepted, as a glob over the finding's place. Default: everywhere.
        path: Option<Spanned<String>>,
        /// Why.
        reason: Spanned<String>,
        /// The last day on which it applies, as YYYY-MM-DD.
        until: Spanned<String>,
    }
}

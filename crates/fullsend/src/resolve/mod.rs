//! Merges the layers into one harness: built-in defaults, then the layers' configuration, then the chain of harness
//! files, then the block of the forge. Every value keeps the file and line that set it and what it replaced.

pub(crate) mod chain;
pub(crate) mod command_line;
mod commit;
pub(crate) mod environment;
pub(crate) mod explained;
pub(crate) mod layers;
pub(crate) mod library;
mod merge;
pub(crate) mod original_config;
pub(crate) mod pinned_values;
pub(crate) mod pins;
pub(crate) mod registries;
pub(crate) mod trusted;
pub(crate) mod variables;

use std::collections::BTreeSet;
use std::rc::Rc;

use sha2::{Digest as _, Sha256};
use yaml::{Decoder, Diagnostic, MapEntry, Node, Shape, Span, Value};

use crate::harness::Harness;
use crate::harness::config::{Config, ImageSettings, ModelPrice};
use crate::harness::image::PullMode;
use crate::harness::names::ForgeName;
use crate::harness::reference::LocalPath;
use crate::remote::RemoteRules;
use crate::remote::lock::{self, HarnessLock, LockFile};
use command_line::CommandLineValue;
use layers::{LayerKind, LayerPath, Layers};
use library::Library;
use pins::{Exception, OverrideScope};
use registries::Registry;

/// The caller's choices and identity.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    pub forge: Option<ForgeName>,
    /// `owner/name` of the repository, where it is known.
    pub repo: Option<String>,
    /// YYYY-MM-DD.
    pub today: String,
    /// The environment of a session, by name.
    pub environment: Option<String>,
    /// What the command line sets for one run.
    pub command_line: Vec<CommandLineValue>,
    /// The variables that the command line sets, by name.
    pub variables: Vec<String>,
    /// The registries that the host's package managers are set to.
    pub registries: Vec<Registry>,
    /// When an image in a registry is pulled.
    pub pull: PullMode,
    /// Whether only what `fullsend.lock` has may be used.
    pub is_locked: bool,
}

/// One harness, with everything decided and every decision traceable.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub name: String,
    pub harness: Harness,
    /// The merged tree: each node has its origin.
    pub tree: Node,
    /// The harness file, then what it extends.
    pub files: Vec<LayerPath>,
    /// The organisation's exceptions that were used.
    pub exceptions: Vec<Exception>,
    /// Security settings that are weaker than the built-in ones and not pinned.
    pub toggles: Vec<ChangedToggle>,
    pub require_output_schema: bool,
    pub policy_ceiling: Option<(LocalPath, Span)>,
    /// The policies that the organisation's own files for this harness ask for.
    pub organisation_policies: Vec<(LocalPath, Span)>,
    /// The organisation's configuration, for its overrides.
    pub organisation: Option<Rc<Config>>,
    /// Prices of the layers' configurations; a later one replaces an earlier one.
    pub prices: Vec<ModelPrice>,
    /// Which images may be pulled, and from where: the organisation's rules, or the repository's if it has none.
    pub images: Option<ImageSettings>,
    /// What `fullsend.lock` has for this harness, if nothing else may be used.
    pub lock: Option<Rc<HarnessLock>>,
    /// The tools of MCP servers that `fullsend.lock` has for this harness, with their digests.
    pub locked_tools: Vec<(String, String)>,
    /// Only the built-in defaults set the validation loop.
    loop_is_built_in: bool,
    /// The blocks of forges, where none of them was chosen.
    forge: Option<Node>,
    choices: Choices,
}

impl Resolved {
    /// SHA-256 over the harness file and what it extends.
    pub fn digest(&self, library: &mut Library) -> Option<[u8; 32]> {
        let mut hasher = Sha256::new();
        for found in &self.files {
            let source = library.source(found).ok()?;
            let text = library.text(source);
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        }
        Some(hasher.finalize().into())
    }

    /// The repository and the day of this resolution.
    pub fn override_scope(&self) -> OverrideScope<'_> {
        OverrideScope { repo: self.choices.repo.as_deref(), today: &self.choices.today }
    }

    /// The host's registries for one network.
    pub fn registries(&self, network: &str) -> Vec<&Registry> {
        self.choices.registries.iter().filter(|registry| registry.network == network).collect()
    }

    /// When an image in a registry is pulled.
    pub fn pull_mode(&self) -> PullMode {
        self.choices.pull
    }

    /// What the command line set for this run: fields with their values, and names of variables.
    pub fn overrides(&self) -> Vec<(String, String)> {
        let values = self.choices.command_line.iter().map(|one| (one.field.to_owned(), one.value.clone()));
        let variables = self.choices.variables.iter().map(|name| (format!("${{{name}}}"), "set".to_owned()));
        values.chain(variables).collect()
    }
}

/// A security setting that a layer made weaker than the built-in default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedToggle {
    pub field: String,
    pub value: String,
    pub at: Span,
}

/// Resolves one harness by name. Problems are collected; the harness is returned unless one of them prevents it.
pub fn resolve(
    library: &mut Library,
    name: &str,
    choices: &Choices,
    problems: &mut Vec<Diagnostic>,
) -> Option<Resolved> {
    let found = find_harness(library, name, problems)?;
    let configs = Configs::load(library, problems);
    let lock = Rc::new(locked(library, name, problems));
    let locked_tools = lock.tools.clone();
    let lock = choices.is_locked.then_some(lock);
    library.remote.set_rules(configs.remote_rules(choices, lock.clone()));
    let links = chain::load(library, found, LayerKind::Repository, problems);
    // Only files that were read completely are merged, so the result has the bounds of each file.
    if problems.iter().any(Diagnostic::is_error) {
        return None;
    }
    let floors = pinned_values::pinned_values(
        library,
        configs.values_for_all_harnesses(),
        &links,
        choices.forge,
        problems,
    );
    problems.extend(foreign_prices(configs.repository.as_ref(), &floors));
    let (tree, forge) = merge::merge(library, &configs, &links, choices, problems)?;
    if problems.iter().any(Diagnostic::is_error) {
        return None;
    }
    let mut decoder = Decoder::whole();
    let harness = Harness::decode(&tree, &mut decoder);
    problems.extend(decoder.diagnostics.into_iter().filter(Diagnostic::is_error));
    let harness = harness?;

    let loop_is_built_in = all_built_in(library, tree.get("validation_loop"));
    let weakenings = pins::weakenings(library, &floors, configs.caps(), &tree);
    let override_scope = OverrideScope { repo: choices.repo.as_deref(), today: &choices.today };
    let exceptions = pins::judge(weakenings, configs.organisation.as_deref(), &override_scope, problems);
    problems.extend(pins::repo_skills(library, &floors, &tree));

    Some(Resolved {
        name: name.to_owned(),
        toggles: toggles(library, &tree),
        harness,
        tree,
        files: links.into_iter().map(|link| link.found).collect(),
        exceptions,
        require_output_schema: configs.requires_output_schema(),
        policy_ceiling: configs.policy_ceiling(),
        organisation_policies: floors.iter().filter_map(|floor| local_path(floor.get("policy"))).collect(),
        prices: configs.prices(),
        images: configs.images(),
        lock,
        locked_tools,
        organisation: configs.organisation,
        loop_is_built_in,
        forge: forge.filter(|_| choices.forge.is_none()),
        choices: choices.clone(),
    })
}

fn find_harness(library: &mut Library, name: &str, problems: &mut Vec<Diagnostic>) -> Option<LayerPath> {
    if !crate::harness::names::is_identifier(name) {
        let shown: String = name.chars().take(64).flat_map(char::escape_default).collect();
        let at = Span::start_of(library.add("harness/", "", LayerKind::Repository));
        let message = format!("`{shown}` cannot be the name of a harness");
        let help = "a name has letters, digits, `-` and `_`; its file is harness/NAME.yaml";
        problems.push(Diagnostic::error("no-harness", at, message).help(help));
        return None;
    }
    let path = LocalPath::parse(&format!("harness/{name}.yaml")).ok();
    let found = path.and_then(|path| library.layers.find(&path));
    if found.is_none() {
        let at = Span::start_of(library.add(&format!("harness/{name}.yaml"), "", LayerKind::Repository));
        let problem = Diagnostic::error("no-harness", at, format!("there is no harness `{name}`"));
        let start = "run `fullsend init` to create a `.fullsend` directory";
        problems.push(problem.help(instead(&library.layers, "harness", name, start)));
    }
    found
}

/// What to try instead of a name that is not in `directory`; `start` if the directory is empty.
fn instead(layers: &Layers, directory: &str, name: &str, start: &str) -> String {
    if let Some(file) = layers.misnamed(&format!("{directory}/{name}")) {
        return format!("`{file}` is not read: its name must end in `.yaml`");
    }
    let known = layers.names(directory);
    match yaml::closest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => start.to_owned(),
        None => format!("there are: {}", known.join(", ")),
    }
}

/// The prices of all configurations, for commands that are not about a harness.
pub fn prices(library: &mut Library, problems: &mut Vec<Diagnostic>) -> Vec<ModelPrice> {
    Configs::load(library, problems).prices()
}

/// The settings for images, for commands that are not about a harness.
pub fn image_settings(library: &mut Library, problems: &mut Vec<Diagnostic>) -> Option<ImageSettings> {
    Configs::load(library, problems).images()
}

/// The organisation's own configuration, for commands that are not about a harness.
pub fn organisation(library: &mut Library, problems: &mut Vec<Diagnostic>) -> Option<Rc<Config>> {
    Configs::load(library, problems).organisation
}

/// Models that have two prices in one file.
fn duplicate_prices(config: &Config) -> Vec<Diagnostic> {
    let mut seen = BTreeSet::new();
    let duplicates = config.prices.iter().filter(|price| !seen.insert(price.model.to_string()));
    let problem = |price: &ModelPrice| {
        let message = format!("the model `{}` has two prices in this file", price.model.value);
        Diagnostic::error("duplicate-price", price.model.at, message).help("keep one of them")
    };
    duplicates.map(problem).collect()
}

/// The lock file of the repository's layer.
pub fn lock_file(library: &mut Library, problems: &mut Vec<Diagnostic>) -> Option<LockFile> {
    let found = library.layers.get(LayerKind::Repository)?.find(lock::FILE_NAME)?;
    let (file, mut found_problems) = library.decode::<LockFile>(&found);
    problems.append(&mut found_problems);
    file
}

/// What the lock file has for a harness. A missing entry means no resources.
fn locked(library: &mut Library, name: &str, problems: &mut Vec<Diagnostic>) -> HarnessLock {
    let file = lock_file(library, problems);
    let found = file.and_then(|file| file.harnesses().find(|locked| locked.name == name));
    found.unwrap_or_else(|| HarnessLock { name: name.to_owned(), ..HarnessLock::default() })
}

/// The `config.yaml` files of the layers.
struct Configs {
    organisation: Option<Rc<Config>>,
    repository: Option<Config>,
    organisation_tree: Option<Rc<Node>>,
    repository_tree: Option<Rc<Node>>,
}

impl Configs {
    fn load(library: &mut Library, problems: &mut Vec<Diagnostic>) -> Self {
        problems.extend(library.layers.misnamed("config").map(|file| {
            let at = Span::start_of(library.add(&file, "", LayerKind::Repository));
            Diagnostic::error("misnamed", at, "this file is ignored").help("rename it to `config.yaml`")
        }));
        let (organisation, organisation_tree) = load_config(library, LayerKind::Organisation, problems);
        let (repository, repository_tree) = load_config(library, LayerKind::Repository, problems);
        if let Some(config) = &organisation {
            problems.extend(pins::check_overrides(config));
            problems.extend(check_waivers(config));
        }
        if let Some(org) = organisation.as_ref().and_then(|config| config.org.as_ref()) {
            problems.push(misplaced("org", org.at, "a repository's"));
        }
        problems.extend([&organisation, &repository].into_iter().flatten().flat_map(duplicate_prices));
        if let Some(config) = &repository {
            problems.extend(only_for_the_organisation(config, repository_tree.as_deref()));
        }
        let both = organisation.as_ref().and_then(|config| config.images.as_ref()).is_some();
        let twice = repository_tree.as_ref().filter(|_| both).and_then(|tree| tree.get("images"));
        problems.extend(twice.map(|images| {
            let message = "the organisation sets `images`, so only its config.yaml may have it";
            Diagnostic::error("misplaced", images.at, message).help("remove it here")
        }));
        let organisation = organisation.map(Rc::new);
        Self { organisation, repository, organisation_tree, repository_tree }
    }

    /// The organisation's prices have precedence.
    fn prices(&self) -> Vec<ModelPrice> {
        let repository = self.repository.iter().flat_map(|config| config.prices.clone());
        let organisation = self.organisation.iter().flat_map(|config| config.prices.clone());
        repository.chain(organisation).collect()
    }

    /// The organisation's, or the repository's where it has none.
    fn images(&self) -> Option<ImageSettings> {
        let organisation = self.organisation.as_ref().and_then(|config| config.images.clone());
        organisation.or_else(|| self.repository.as_ref().and_then(|config| config.images.clone()))
    }

    /// The rules for remote resources before the harness itself is known.
    fn remote_rules(&self, choices: &Choices, lock: Option<Rc<HarnessLock>>) -> RemoteRules {
        let prefixes = |config: &Config, tree: Option<&Rc<Node>>| {
            let is_set = tree?.get("allowed_remote_resources").is_some_and(|node| !node.is_null());
            let list = config.allowed_remote_resources.iter().map(|prefix| prefix.value.clone());
            is_set.then(|| list.collect::<Vec<_>>())
        };
        let organisation = self.organisation.as_deref();
        let ceiling = organisation.and_then(|config| prefixes(config, self.organisation_tree.as_ref()));
        let own = self.repository.as_ref().and_then(|it| prefixes(it, self.repository_tree.as_ref()));
        let internal_hosts = organisation.into_iter().flat_map(|config| &config.internal_hosts);
        RemoteRules {
            allowed: own.or_else(|| ceiling.clone()).unwrap_or_default(),
            ceiling,
            internal_hosts: internal_hosts.map(|host| host.as_str().to_owned()).collect(),
            is_offline: choices.pull == PullMode::Never,
            lock,
        }
    }

    /// The organisation's settings for every harness.
    fn values_for_all_harnesses(&self) -> Option<Node> {
        self.organisation_tree.as_ref().map(|tree| merge::shared(tree))
    }

    fn caps(&self) -> Option<&Node> {
        self.organisation_tree.as_ref()?.get("caps")
    }

    fn requires_output_schema(&self) -> bool {
        self.organisation
            .as_ref()
            .and_then(|config| config.require_output_schema.as_ref())
            .is_some_and(|set| set.value)
    }

    fn policy_ceiling(&self) -> Option<(LocalPath, Span)> {
        let ceiling = self.organisation.as_ref()?.policy_ceiling.as_ref()?;
        Some((ceiling.value.clone(), ceiling.at))
    }
}

fn load_config(
    library: &mut Library,
    layer: LayerKind,
    problems: &mut Vec<Diagnostic>,
) -> (Option<Config>, Option<Rc<Node>>) {
    let Some(found) = library.layers.get(layer).and_then(|layer| layer.find("config.yaml")) else {
        return (None, None);
    };
    match library.tree(&found) {
        Ok(tree) if tree.is_null() => (None, None),
        Ok(tree) => {
            let (tree, warnings) = original_config::without_original_keys(&tree);
            problems.extend(warnings);
            let mut decoder = Decoder::part();
            let config = Config::decode(&tree, &mut decoder);
            problems.append(&mut decoder.diagnostics);
            (config, Some(Rc::new(tree)))
        }
        Err(problem) => {
            problems.push((*problem).clone());
            (None, None)
        }
    }
}

/// Only the organisation may set pins, ceilings and exceptions.
fn only_for_the_organisation(config: &Config, tree: Option<&Node>) -> Vec<Diagnostic> {
    let places = [
        ("policy_ceiling", config.policy_ceiling.as_ref().map(|set| set.at)),
        ("overrides", config.overrides.first().map(|entry| entry.field.at)),
        ("suppressions", config.suppressions.first().map(|entry| entry.rule.at)),
        ("require_output_schema", config.require_output_schema.as_ref().map(|set| set.at)),
        ("internal_hosts", config.internal_hosts.first().map(|host| host.at)),
        ("caps", tree.and_then(|tree| tree.get("caps")).map(|caps| caps.at)),
    ];
    let found = places.into_iter().filter_map(|(key, at)| at.map(|at| (key, at)));
    found.map(|(key, at)| misplaced(key, at, "the organisation's")).collect()
}

/// If the organisation sets a budget, only it may set prices: a low price would raise the budget.
fn foreign_prices(repository: Option<&Config>, floors: &[Node]) -> Option<Diagnostic> {
    let price = repository?.prices.first()?;
    let counts_dollars =
        floors.iter().any(|floor| floor.get("budget").is_some_and(|it| it.get("usd").is_some()));
    let message = "the organisation sets `budget.usd`, so only its config.yaml may have `prices`";
    counts_dollars.then(|| Diagnostic::error("misplaced", price.model.at, message).help("remove it here"))
}

/// A waiver without a reason, a date or a valid pattern has no effect, so it is an error.
fn check_waivers(config: &Config) -> Vec<Diagnostic> {
    let wrong = config.suppressions.iter().filter_map(|entry| {
        let path = entry.path.as_ref().map_or("**", |path| path.value.as_str());
        let problem = scan::Waiver::new(&entry.rule, path, &entry.reason, &entry.until).err()?;
        Some(Diagnostic::error("suppression", entry.rule.at, problem.to_string()))
    });
    wrong.collect()
}

fn misplaced(key: &str, at: Span, whose: &str) -> Diagnostic {
    let message = format!("`{key}` is only allowed in {whose} config.yaml");
    Diagnostic::error("misplaced", at, message).help("remove it here")
}

/// Security settings that a layer made weaker than the built-in default.
fn toggles(library: &mut Library, tree: &Node) -> Vec<ChangedToggle> {
    let defaults = LayerPath { layer: LayerKind::Builtin, path: "defaults.yaml".to_owned() };
    let Ok(builtin) = library.tree(&defaults) else { return Vec::new() };
    let rules = tree.find(pins::RULES).map_or(&[][..], |rules| rules.entries());
    let changed_toggles = pins::weakenings(library, &[(*builtin).clone()], None, tree)
        .into_iter()
        .filter(|weakening| weakening.field.starts_with("security."))
        .filter_map(|weakening| {
            let value = tree.find(&weakening.field)?.scalar()?.to_owned();
            Some(ChangedToggle { field: weakening.field, value, at: weakening.at })
        });
    changed_toggles.chain(rules.iter().filter_map(changed_rule)).collect()
}

/// A rule of the guard that a layer turned down or off, with its reason.
fn changed_rule(rule: &MapEntry) -> Option<ChangedToggle> {
    let action = rule.node.get("action")?.scalar().filter(|action| *action != "on")?;
    let reason = rule.node.get("reason").and_then(Node::scalar).unwrap_or_default();
    let field = format!("{}.{}", pins::RULES, rule.key);
    Some(ChangedToggle { field, value: format!("{action}: {reason}"), at: rule.key_at })
}

fn local_path(node: Option<&Node>) -> Option<(LocalPath, Span)> {
    let node = node?;
    Some((LocalPath::parse(node.scalar()?).ok()?, node.at))
}

fn all_built_in(library: &Library, node: Option<&Node>) -> bool {
    node.is_some_and(|node| {
        node.entries().iter().all(|entry| library.layer_of(entry.node.at) == LayerKind::Builtin)
    })
}

/// The keys in a fixed order, without what resolution consumed: the document of `explain --resolved`. Blocks of forges
/// stay if none was chosen. A built-in validation loop that checks nothing is left out.
pub fn self_contained(resolved: &Resolved) -> Node {
    let mut entries: Vec<MapEntry> = resolved.tree.entries().to_vec();
    if resolved.loop_is_built_in {
        entries.retain(|entry| entry.key != "validation_loop");
    }
    entries.extend(resolved.forge.clone().map(|node| MapEntry {
        key: "forge".to_owned(),
        key_at: node.at,
        node,
    }));
    ordered(&Node { value: Value::Map(entries), ..resolved.tree.clone() })
}

/// The keys in the order of the documentation.
pub fn ordered(tree: &Node) -> Node {
    let mut entries: Vec<MapEntry> = tree.entries().to_vec();
    entries.sort_by_key(|entry| Harness::KEYS.iter().position(|key| *key == entry.key));
    Node { value: Value::Map(entries), ..tree.clone() }
}

//! Reads each file of a command once, and keeps its text, its tree and its problems.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use yaml::{Decoder, Diagnostic, Node, ParseLimits, Shape, SourceId, Sources, Span};

use super::layers::{LayerKind, LayerPath, Layers};
use crate::harness::reference::{LocalPath, PinnedUrl};
use crate::remote::{RemoteError, RemoteResources, RemoteUse};

/// The layers and what was read from them so far.
#[derive(Debug)]
pub struct Library {
    pub layers: Layers,
    pub sources: Sources,
    texts: HashMap<LayerPath, Result<SourceId, Rc<Diagnostic>>>,
    trees: HashMap<LayerPath, Result<Rc<Node>, Rc<Diagnostic>>>,
    policies: HashMap<LayerPath, PolicyResult>,
    schemas: HashMap<LayerPath, CompiledSchema>,
    remarks: HashMap<LayerPath, Rc<Vec<Diagnostic>>>,
    layer_of: HashMap<SourceId, LayerKind>,
    found_of: HashMap<SourceId, LayerPath>,
    pub remote: RemoteResources,
    /// For each directory of the remote layer with a `base`: where the files are that it names.
    companions: RefCell<HashMap<String, Option<String>>>,
}

/// A schema as JSON and compiled.
pub type CompiledSchema = (Arc<serde_json::Value>, Arc<jsonschema::Validator>);

type PolicyResult = Result<Rc<policy::Parsed>, Rc<Vec<Diagnostic>>>;

impl Library {
    pub fn new(layers: Layers) -> Self {
        Self {
            layers,
            sources: Sources::default(),
            texts: HashMap::new(),
            trees: HashMap::new(),
            policies: HashMap::new(),
            schemas: HashMap::new(),
            remarks: HashMap::new(),
            layer_of: HashMap::new(),
            found_of: HashMap::new(),
            remote: RemoteResources::default(),
            companions: RefCell::default(),
        }
    }

    /// Lets the library fetch resources that harnesses name by URL.
    #[must_use]
    pub fn with_remote(self, remote: RemoteResources) -> Self {
        Self { remote, ..self }
    }

    /// A remote resource, fetched unless it is in the cache. The caller has checked that it is allowed.
    pub fn fetch(&self, url: &PinnedUrl, needed: RemoteUse) -> Result<LayerPath, RemoteError> {
        let placed = self.remote.place(url, needed)?;
        let directory = self.remote.directory().ok_or(RemoteError::NoCache)?;
        let failed = |source| RemoteError::Store { path: directory.to_owned(), source };
        let found = self.layers.add_remote(directory, &placed).map_err(failed)?;
        if needed == RemoteUse::Base {
            self.companions.borrow_mut().insert(placed.key, placed.companions);
        }
        Ok(found)
    }

    /// The layer of the file that contains this place.
    pub fn layer_of(&self, at: Span) -> LayerKind {
        self.layer_of.get(&at.source).copied().unwrap_or(LayerKind::Builtin)
    }

    /// Adds a text that is in no layer, such as the command line.
    pub fn add(&mut self, name: &str, text: &str, layer: LayerKind) -> SourceId {
        let id = self.sources.add(name, text);
        self.layer_of.insert(id, layer);
        id
    }

    pub fn text(&self, id: SourceId) -> Arc<str> {
        self.sources.get(id).text.clone()
    }

    /// Reads a file once. A file that cannot be read is a diagnostic at its own start.
    pub fn source(&mut self, found: &LayerPath) -> Result<SourceId, Rc<Diagnostic>> {
        if let Some(known) = self.texts.get(found) {
            return known.clone();
        }
        let layer = self.layers.layer(found);
        let name = layer.shown(&found.path);
        let read = layer.read(&found.path);
        let result = match read {
            Ok(text) => Ok(self.sources.add(name, text)),
            Err(error) => {
                let id = self.sources.add(name.clone(), "");
                Err(Rc::new(Diagnostic::error("unreadable", Span::start_of(id), format!("`{name}` {error}"))))
            }
        };
        if let Ok(id) = &result {
            // A remote file has no more rights than the repository that names it.
            self.layer_of.insert(*id, found.layer.min(LayerKind::Repository));
            self.found_of.insert(*id, found.clone());
        }
        self.texts.insert(found.clone(), result.clone());
        result
    }

    /// The tree of a YAML file, parsed once.
    pub fn tree(&mut self, found: &LayerPath) -> Result<Rc<Node>, Rc<Diagnostic>> {
        if let Some(known) = self.trees.get(found) {
            return known.clone();
        }
        let result = self.source(found).and_then(|id| {
            yaml::parse(&self.sources, id, ParseLimits::default())
                .map(Rc::new)
                .map_err(|problem| Rc::new(*problem))
        });
        self.trees.insert(found.clone(), result.clone());
        result
    }

    /// A policy file, read once.
    pub fn policy(&mut self, found: &LayerPath) -> PolicyResult {
        if let Some(known) = self.policies.get(found) {
            return known.clone();
        }
        let result = match self.tree(found) {
            Ok(tree) => policy::Policy::from_node(&tree).map(Rc::new).map_err(Rc::new),
            Err(problem) => Err(Rc::new(vec![(*problem).clone()])),
        };
        self.policies.insert(found.clone(), result.clone());
        result
    }

    /// A schema that was compiled before.
    pub fn schema(&self, found: &LayerPath) -> Option<CompiledSchema> {
        self.schemas.get(found).cloned()
    }

    pub fn keep_schema(&mut self, found: &LayerPath, compiled: CompiledSchema) {
        self.schemas.insert(found.clone(), compiled);
    }

    /// Calls `look` with a file's tree once, and caches its result.
    pub fn diagnostics(
        &mut self,
        found: &LayerPath,
        look: impl FnOnce(&Node) -> Vec<Diagnostic>,
    ) -> Rc<Vec<Diagnostic>> {
        if let Some(known) = self.remarks.get(found) {
            return Rc::clone(known);
        }
        let found_problems = Rc::new(self.tree(found).map(|tree| look(&tree)).unwrap_or_default());
        self.remarks.insert(found.clone(), Rc::clone(&found_problems));
        found_problems
    }

    /// Reads and decodes a single file.
    pub fn decode<T: Shape>(&mut self, found: &LayerPath) -> (Option<T>, Vec<Diagnostic>) {
        match self.tree(found) {
            Ok(node) => {
                let mut decoder = Decoder::whole();
                let value = T::decode(&node, &mut decoder);
                (value, decoder.diagnostics)
            }
            Err(problem) => (None, vec![(*problem).clone()]),
        }
    }

    /// Finds a referenced file; its absence is a diagnostic at the reference. Files that a remote file names are beside
    /// it.
    pub fn find(&self, path: &LocalPath, at: Span, field: &str) -> Result<LayerPath, Box<Diagnostic>> {
        match self.found_of.get(&at.source).filter(|found| found.layer == LayerKind::Remote) {
            Some(named_by) => self.companion(named_by, path, at, field),
            None => self.layers.find(path).ok_or_else(|| self.missing(path, at, field).into()),
        }
    }

    /// A file that a remote one names: from the same archive or commit, or of a layer.
    fn companion(
        &self,
        named_by: &LayerPath,
        path: &LocalPath,
        at: Span,
        field: &str,
    ) -> Result<LayerPath, Box<Diagnostic>> {
        let key = named_by.path.split('/').next().unwrap_or_default();
        let root = self.companions.borrow().get(key).cloned().flatten();
        let beside = root.and_then(|root| {
            let parts = [key, &root, path.as_str()].into_iter().filter(|part| !part.is_empty());
            let place = parts.collect::<Vec<_>>().join("/");
            self.layers.get(LayerKind::Remote)?.find(&place)
        });
        beside.or_else(|| self.layers.find(path)).ok_or_else(|| {
            let url = self.layers.layer(named_by).shown(&named_by.path);
            let message = format!("`{field}` names `{}`, which neither {url} nor a layer has", path.as_str());
            let help = "name the base in an archive or a commit that also has the files that it names";
            Box::new(Diagnostic::error("missing-file", at, message).help(help))
        })
    }

    fn missing(&self, path: &LocalPath, at: Span, field: &str) -> Diagnostic {
        let places: Vec<String> = self
            .layers
            .iter()
            .rev()
            .filter(|layer| layer.kind != LayerKind::Builtin)
            .map(|layer| layer.shown(path.as_str()))
            .collect();
        let message = format!("`{field}` names `{}`, which no layer has", path.as_str());
        let help = match self.nearest_name(path) {
            Some(near) => format!("did you mean `{near}`?"),
            None if places.is_empty() => "run `fullsend init` to create a `.fullsend` directory".to_owned(),
            None => format!("looked for {}", places.join(" and ")),
        };
        Diagnostic::error("missing-file", at, message).help(help)
    }

    /// A file in the same directory whose name is close.
    fn nearest_name(&self, path: &LocalPath) -> Option<String> {
        let (directory, name) = path.as_str().rsplit_once('/')?;
        let mut names = Vec::new();
        for root in self.layers.iter().filter_map(|layer| layer.path()) {
            let entries = std::fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
            names.extend(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        }
        names.sort();
        yaml::closest(name, names.iter().map(String::as_str)).map(|near| format!("{directory}/{near}"))
    }
}

//! The model gateway of one run: which provider, which upstream, which budget.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::gateway::{BudgetLimits, Gateway, GatewayConfig, ModelRules, RequestRules, RetryLimits};
use model::recording::{Recorder, RecordingError, Redact, Replay};
use model::scripted::{Scenario, ScenarioError, ScriptedModel};
use model::upstream::{LearnSecret, Upstream};
use model::wire::Wire;
use model::{AllowedFeatures, ModelEvent, Money, PriceList};

use super::RunContext;
use super::prices::{self, PriceFileError};
use super::service::{self, ServiceInputs};
use crate::check::Checked;
use crate::check::providers::ProviderFile;
use crate::check::services::{self, ServedWires};
use crate::event::RunEvent;
use crate::harness::names::RuntimeName;
use crate::harness::reference::LocalPath;
use crate::resolve::library::Library;
use crate::resolve::variables::VariableLookup;
use crate::runtime;
use crate::runtime::contract::Hook;

/// Whether requests and responses of the model are recorded or replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Record them in this directory.
    Record(PathBuf),
    /// Answer from those in this directory, and ask no model.
    Replay(PathBuf),
}

#[derive(Debug)]
pub enum ModelSetupError {
    NoProvider,
    Recording(RecordingError),
    Prices(PriceFileError),
    /// Models without a price, with which a budget in dollars cannot be enforced.
    Unpriced {
        models: Vec<String>,
        list: String,
    },
    Scenario {
        name: String,
        why: String,
    },
    Read(ScenarioError),
    Upstream {
        provider: String,
        why: String,
    },
    /// The runtime and the service have no wire format in common.
    Wires {
        provider: String,
        runtime: RuntimeName,
        takes: String,
        help: &'static str,
    },
    /// No model is named, so the runtime would ask for a model of its own vendor.
    NoModelName {
        provider: String,
        runtime: RuntimeName,
    },
}

impl std::fmt::Display for ModelSetupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoProvider => f.write_str(
                "no provider of the harness can serve the model: add one of type anthropic, openai, azure-openai, vertex or bedrock",
            ),
            Self::Recording(error) => write!(f, "the recording {error}"),
            Self::Prices(error) => write!(f, "the prices of models: {error}"),
            Self::Unpriced { models, list } => {
                let (who, have) = if models.len() == 1 { ("model", "has") } else { ("models", "have") };
                write!(
                    f,
                    "a budget in dollars is set, and the {who} `{}` {have} no price in the list of {list}: use a priced model, \
                     or `budget.tokens`",
                    models.join("`, `")
                )
            }
            Self::Scenario { name, why } => write!(f, "the scenario `{name}` {why}"),
            Self::Read(error) => error.fmt(f),
            Self::Upstream { provider, why } => {
                write!(f, "the provider `{provider}` cannot serve the model: {why}")
            }
            Self::Wires { provider, runtime, takes, help } => write!(
                f,
                "the provider `{provider}` cannot serve the runtime `{runtime}`: it takes requests to {takes}, which \
                 this runtime does not send{help}"
            ),
            Self::NoModelName { provider, runtime } => write!(
                f,
                "the provider `{provider}` is not the vendor of the runtime `{runtime}`: name the model that it serves in \
                 `model`"
            ),
        }
    }
}

impl std::error::Error for ModelSetupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Recording(error) => Some(error),
            Self::Read(error) => Some(error),
            Self::Prices(error) => Some(error),
            Self::NoProvider
            | Self::Unpriced { .. }
            | Self::Scenario { .. }
            | Self::Upstream { .. }
            | Self::NoModelName { .. }
            | Self::Wires { .. } => None,
        }
    }
}

/// Whether the model can be served, as far as this is known before a credential is loaded or a request is sent.
pub fn check(
    checked: &Checked,
    library: &Library,
    variables: VariableLookup<'_>,
    recording: Option<&Recording>,
) -> Result<(), ModelSetupError> {
    let provider = provider(checked)?;
    let prices = prices(checked, provider, variables)?;
    match recording {
        Some(Recording::Replay(directory)) => {
            Replay::load(directory, Arc::new(str::to_owned)).map(drop).map_err(ModelSetupError::Recording)?;
        }
        Some(Recording::Record(_)) | None => {
            let inputs = ServiceInputs { variables, credentials: Vec::new(), learn: None };
            drop(upstream(provider, library, inputs)?);
        }
    }
    served_wires(checked, provider)?;
    priced(checked, &prices)
}

/// The provider that serves the model.
pub fn provider(checked: &Checked) -> Result<&ProviderFile, ModelSetupError> {
    checked.providers.iter().find(|file| file.inference_capable()).ok_or(ModelSetupError::NoProvider)
}

pub fn open(checked: &Checked, around: &RunContext<'_>) -> Result<Arc<Gateway>, ModelSetupError> {
    let provider = provider(checked)?;
    let emit = around.emit.clone();
    let guard = around.guard.clone();
    let on_event = Arc::new(move |event| {
        if let ModelEvent::Stop { reason, .. } = &event {
            guard.stop(reason);
        }
        emit.emit(RunEvent::Model { event });
    });
    let budget = budget(checked);
    let inspect = around.guard.gateway_inspect();
    let runtime = runtime::of(checked.resolved.harness.runtime.value);
    let start = runtime.hooked(Hook::Start).then(|| around.guard.start_signal());
    let upstream = recorded(provider, around)?;
    let chunk_format = around.guard.chunk_format();
    let hold_back = around.guard.hold_back();
    let rules = rules(checked, served_wires(checked, provider)?);
    for feature in allowed_features(checked) {
        around.emit.emit(RunEvent::Exception {
            field: "gateway.allow".to_owned(),
            what: format!("passes `{feature}`"),
            reason: "the harness names it".to_owned(),
            until: String::new(),
        });
    }
    let config = GatewayConfig {
        prices: prices(checked, provider, around.variables)?,
        retry: retry(checked, around),
        fallback: fallback(checked),
        credential: Some(credential(provider)),
        rules,
        budget,
        shared_budgets: around.shared_budgets.clone(),
        inspect,
        hold_back,
        chunk_format,
        start,
        ..GatewayConfig::new(upstream, on_event)
    };
    priced(checked, &config.prices)?;
    Ok(Arc::new(Gateway::new(config)))
}

/// Retries end shortly before the run's deadline, so that the outcome names the reason.
fn retry(checked: &Checked, around: &RunContext<'_>) -> RetryLimits {
    let time = Duration::from_secs(checked.resolved.harness.timeout_minutes.get() * 60);
    let margin = (time / 10).min(RETRY_MARGIN);
    let options = checked.resolved.harness.gateway.as_ref();
    let own = options.and_then(|options| options.retry_seconds.as_ref());
    let own = own.map(|seconds| Duration::from_secs(seconds.get()));
    let request_time = own.or(around.model_retry_timeout).unwrap_or(Duration::MAX);
    RetryLimits { until: Some(Instant::now() + (time - margin)), request_time, ..RetryLimits::default() }
}

fn fallback(checked: &Checked) -> Vec<String> {
    let options = checked.resolved.harness.gateway.as_ref();
    options.into_iter().flat_map(|options| &options.fallback).map(|model| model.to_string()).collect()
}

const RETRY_MARGIN: Duration = Duration::from_secs(20);

/// The prices of the provider's service first.
fn prices(
    checked: &Checked,
    provider: &ProviderFile,
    variables: VariableLookup<'_>,
) -> Result<PriceList, ModelSetupError> {
    let list = prices::load(&checked.resolved.prices, variables).map_err(ModelSetupError::Prices)?;
    Ok(match services::service(provider) {
        Ok(service) => list.of_service(service.name),
        Err(_) => list,
    })
}

/// The name of the credential in an error about a refused key.
pub fn credential(provider: &ProviderFile) -> String {
    let names: Vec<&str> =
        provider.provider.credentials.iter().map(|(name, _)| name.value.as_str()).collect();
    let name = &provider.provider.name.value;
    if names.is_empty() {
        return format!("the provider `{name}`, which names no credential");
    }
    format!("the provider `{name}`, credential {}", names.join(", "))
}

fn allowed_features(checked: &Checked) -> Vec<String> {
    let options = checked.resolved.harness.gateway.as_ref();
    options.into_iter().flat_map(|options| &options.allow).map(|feature| feature.to_string()).collect()
}

/// The wire formats that the runtime sends and the service takes, as they are or translated.
fn served_wires(checked: &Checked, provider: &ProviderFile) -> Result<Vec<Wire>, ModelSetupError> {
    let runtime = runtime::of(checked.resolved.harness.runtime.value);
    let name = provider.provider.name.to_string();
    let help = match services::served_wires(provider, runtime.wires) {
        ServedWires::Common(wires) => return Ok(wires),
        ServedWires::Translated(_) if runtime::options::model(checked).is_none() => {
            return Err(ModelSetupError::NoModelName { provider: name, runtime: runtime.name });
        }
        ServedWires::Translated(wires) => return Ok(wires),
        ServedWires::Unnamed => {
            "; with `wire: chat` in the provider's `config`, the gateway translates its requests"
        }
        ServedWires::None => "",
    };
    let takes: Vec<&str> = services::wires(provider).iter().map(|wire| wire.path()).collect();
    let takes = takes.join(" and ");
    Err(ModelSetupError::Wires { provider: name, runtime: runtime.name, takes, help })
}

/// The run's wire formats and models.
fn rules(checked: &Checked, wires: Vec<Wire>) -> RequestRules {
    let runtime = runtime::of(checked.resolved.harness.runtime.value);
    let beside: Vec<String> = runtime.side_models.iter().map(|&family| family.to_owned()).collect();
    let models = match runtime::options::model(checked) {
        // Names with which the runtime chooses a model itself.
        None | Some("default" | "best") => ModelRules::First { beside },
        Some("opusplan") => {
            ModelRules::Named([vec!["opus".to_owned(), "sonnet".to_owned()], beside].concat())
        }
        Some(model) => ModelRules::Named([vec![model.to_owned()], beside].concat()),
    };
    let features = AllowedFeatures::new(allowed_features(checked));
    RequestRules { wires, models, features }
}

/// If there is a budget in dollars, the model that the harness or the agent names must have a price. If neither names
/// one, the gateway sees the model in the first request.
fn priced(checked: &Checked, prices: &PriceList) -> Result<(), ModelSetupError> {
    let harness = &checked.resolved.harness;
    let counts_dollars = harness.budget.as_ref().is_some_and(|budget| {
        let fields = [&budget.usd, &budget.session_usd, &budget.day_usd, &budget.organisation_day_usd];
        fields.into_iter().any(Option::is_some)
    });
    let has_aliases = provider(checked).is_ok_and(|file| services::wires(file).contains(&Wire::Messages));
    let is_alias = |name: &str| has_aliases && ALIASES.contains(&name.strip_suffix("[1m]").unwrap_or(name));
    let named = runtime::options::model(checked).filter(|name| !is_alias(name)).map(str::to_owned);
    let mut models: Vec<String> = named.into_iter().chain(fallback(checked)).collect();
    models.retain(|model| prices.price(model).is_none());
    models.dedup();
    if models.is_empty() || !counts_dollars {
        return Ok(());
    }
    Err(ModelSetupError::Unpriced { models, list: prices.version.clone() })
}

/// Names with which Claude Code chooses a model of its vendor, all of which have prices.
const ALIASES: &[&str] = &["best", "default", "fable", "haiku", "opus", "opusplan", "sonnet"];

/// The provider's upstream, recorded or replayed if the operator wants that.
fn recorded(provider: &ProviderFile, around: &RunContext<'_>) -> Result<Upstream, ModelSetupError> {
    let guard = around.guard.clone();
    let redact: Redact = Arc::new(move |text| guard.redact_json(text).into_owned());
    let credentials = around.credentials.of(provider.provider.name.as_str()).collect();
    let learning = around.guard.clone();
    let learn: LearnSecret = Arc::new(move |token| {
        // Every token that a service makes is long enough to be masked.
        drop(learning.add_known_value("token", token));
    });
    let inputs = ServiceInputs { variables: around.variables, credentials, learn: Some(learn) };
    let upstream = || upstream(provider, around.library, inputs);
    match around.recording {
        None => upstream(),
        Some(Recording::Record(directory)) => {
            let recorder = Recorder::create(directory, redact).map_err(ModelSetupError::Recording)?;
            Ok(upstream()?.recorded(recorder))
        }
        Some(Recording::Replay(directory)) => {
            Replay::load(directory, redact).map(Upstream::replayed).map_err(ModelSetupError::Recording)
        }
    }
}

/// The scripted model, in this process, serves a provider with a scenario. Its vendor or a compatible service serves
/// any other provider.
fn upstream(
    provider: &ProviderFile,
    library: &Library,
    inputs: ServiceInputs<'_>,
) -> Result<Upstream, ModelSetupError> {
    match provider.provider.config.get("scenario") {
        Some(scenario) => scripted(scenario.raw(), library),
        None => service::open(provider, inputs)
            .map_err(|why| ModelSetupError::Upstream { provider: provider.provider.name.to_string(), why }),
    }
}

fn scripted(name: &str, library: &Library) -> Result<Upstream, ModelSetupError> {
    let wrong = |why: String| ModelSetupError::Scenario { name: name.to_owned(), why };
    let path = LocalPath::parse(name).map_err(wrong)?;
    let found = library.layers.find(&path).ok_or_else(|| wrong("does not exist in any layer".to_owned()))?;
    let text = library.layers.layer(&found).read(&found.path).map_err(|error| wrong(error.to_string()))?;
    let scenario = Scenario::parse(name, text.as_bytes()).map_err(ModelSetupError::Read)?;
    Ok(Upstream::scripted(ScriptedModel::new(scenario)))
}

fn budget(checked: &Checked) -> BudgetLimits {
    let budget = checked.resolved.harness.budget.as_ref();
    BudgetLimits {
        usd: budget.and_then(|budget| budget.usd.as_ref()).and_then(|usd| Money::from_usd(usd.get())),
        tokens: budget.and_then(|budget| budget.tokens.as_ref()).map(|tokens| tokens.get()),
        turns: budget.and_then(|budget| budget.turns.as_ref()).map(|turns| turns.get()),
    }
}

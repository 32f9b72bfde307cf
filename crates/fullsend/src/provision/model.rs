//! The model's door of one run: which provider, which upstream, which budget.

use std::sync::Arc;

use egress::door::{Budget, Door, DoorConfig, Money, Upstream};
use egress::event::EgressEvent;
use egress::scripted::{Scenario, ScenarioError, ScriptedModel};

use super::Surroundings;
use crate::check::Checked;
use crate::check::providers::ProviderFile;
use crate::event::RunEvent;
use crate::harness::reference::LocalPath;

#[derive(Debug)]
pub enum ModelError {
    NoProvider,
    Scenario { name: String, why: String },
    Read(ScenarioError),
    NoUpstream { provider: String },
}

impl std::fmt::Display for ModelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoProvider => f.write_str(
                "no provider of the harness can serve the model: add one of type anthropic or openai",
            ),
            Self::Scenario { name, why } => write!(f, "the scenario `{name}` {why}"),
            Self::Read(error) => error.fmt(f),
            Self::NoUpstream { provider } => {
                write!(
                    f,
                    "the provider `{provider}` needs the network, and the door reaches only scripted models yet: set `config.scenario`"
                )
            }
        }
    }
}

impl std::error::Error for ModelError {}

pub fn door(checked: &Checked, around: &Surroundings<'_>) -> Result<Arc<Door>, ModelError> {
    let provider =
        checked.providers.iter().find(|file| file.inference_capable).ok_or(ModelError::NoProvider)?;
    let (emit, guard) = (around.emit.clone(), around.guard.clone());
    let on_event = Arc::new(move |event| {
        if let EgressEvent::Stop { reason, .. } = &event {
            guard.stop(reason);
        }
        emit.emit(RunEvent::Model { event: serde_json::to_value(event).unwrap_or_default() });
    });
    let (budget, judge) = (budget(checked), around.guard.door_judge());
    let start = Some(around.guard.start_signal());
    let config =
        DoorConfig { budget, judge, start, ..DoorConfig::new(upstream(provider, around)?, on_event) };
    Ok(Arc::new(Door::new(config)))
}

/// A provider with a scenario is served by the scripted model, in this process.
fn upstream(provider: &ProviderFile, around: &Surroundings<'_>) -> Result<Upstream, ModelError> {
    let Some(scenario) = provider.provider.config.get("scenario") else {
        return Err(ModelError::NoUpstream { provider: provider.provider.name.to_string() });
    };
    let name = scenario.raw().to_owned();
    let wrong = |why: String| ModelError::Scenario { name: name.clone(), why };
    let path = LocalPath::parse(&name).map_err(wrong)?;
    let found =
        around.library.layers.find(&path).ok_or_else(|| wrong("does not exist in any layer".to_owned()))?;
    let text =
        around.library.layers.layer(&found).read(&found.path).map_err(|error| wrong(error.to_string()))?;
    let scenario = Scenario::parse(&name, text.as_bytes()).map_err(ModelError::Read)?;
    Ok(Upstream::scripted(ScriptedModel::new(scenario)))
}

fn budget(checked: &Checked) -> Budget {
    let budget = checked.resolved.harness.budget.as_ref();
    Budget {
        usd: budget.and_then(|budget| budget.usd.as_ref()).and_then(|usd| Money::from_usd(usd.get())),
        tokens: budget.and_then(|budget| budget.tokens.as_ref()).map(|tokens| tokens.get()),
        turns: budget.and_then(|budget| budget.turns.as_ref()).map(|turns| turns.get()),
    }
}

//! Looks for canary tokens in everything that leaves the sandbox, except to the model. Only the model gets the token:
//! if it leaves, something made the agent send it.

use std::sync::{Arc, PoisonError};

use egress::proxy::LeakWatcher;
use redact::{Canary, CanaryWatcher};
use scan::Origin;

use super::judge::describe;
use super::report::{self, TextAction};
use super::{Guard, key};
use crate::event::finding::FindingAction;

impl Guard {
    /// This guard as the proxy uses it. `None`: the run has no canary token.
    pub fn leak_watcher(&self) -> Option<LeakWatcher> {
        let watcher = CanaryWatcher::new(self.judge.canary.as_deref()?)?;
        let guard = self.clone();
        Some(Arc::new(move |destination| {
            let mut watch = watcher.watch();
            let guard = guard.clone();
            let destination = destination.to_owned();
            Box::new(move |portion| watch.sees(portion).then(|| guard.repeated(&destination)).flatten())
        }))
    }

    /// The same for names that are resolved: a name can carry the token.
    pub fn watch_name(&self, name: &str) {
        if self.judge.canary.as_ref().is_some_and(|canary| canary.find(name).is_some()) {
            self.repeated(name);
        }
    }

    /// Reports a canary token on its way to `destination`, and returns why it is stopped.
    fn repeated(&self, destination: &str) -> Option<String> {
        let place = format!("egress to {destination}");
        let findings = self.judge.apply_waivers(vec![Canary::leak_finding()], &place);
        let stops = self.judge.blocking_finding(&findings, Origin::Output).map(describe);
        let action = if stops.is_some() { TextAction::Stopped } else { TextAction::Reported };
        // Each destination is reported once: a program that tries again tells nothing new.
        let key =
            key(&report::event(&place, Origin::Output, &Canary::leak_finding(), FindingAction::None, None));
        if self.reported.lock().unwrap_or_else(PoisonError::into_inner).insert(key) {
            self.report(&place, Origin::Output, &findings, action);
        }
        let reason = format!("{place}: {}", stops?);
        self.stop(&reason);
        Some(reason)
    }
}

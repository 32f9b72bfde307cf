//! What the guard looks for in everything that leaves the sandbox on its way to other places than the model: the planted
//! word, which only the model is reported. Whoever sends it elsewhere was made to.

use std::sync::{Arc, PoisonError};

use egress::proxy::LeakWatcher;
use redact::{Canary, CanaryWatcher};
use scan::Origin;

use super::judge::describe;
use super::report::{self, Action};
use super::{Guard, key};
use crate::event::finding::FindingAction;

impl Guard {
    /// The same guard, as the proxy shows it what leaves. Nothing to look for where nothing was planted.
    pub fn leak_watcher(&self) -> Option<LeakWatcher> {
        let watcher = CanaryWatcher::new(self.judge.canary.as_deref()?)?;
        let guard = self.clone();
        Some(Arc::new(move |destination| {
            let (mut watch, guard, destination) = (watcher.watch(), guard.clone(), destination.to_owned());
            Box::new(move |portion| watch.sees(portion).then(|| guard.repeated(&destination)).flatten())
        }))
    }

    /// A name that was asked for is sent to nobody yet, but is asked for in order to be.
    pub fn watch_name(&self, name: &str) {
        if self.judge.canary.as_ref().is_some_and(|canary| canary.find(name).is_some()) {
            self.repeated(name);
        }
    }

    /// The canary token was on its way there; says why it may not go on.
    fn repeated(&self, destination: &str) -> Option<String> {
        let place = format!("egress to {destination}");
        let findings = self.judge.sorted(vec![Canary::sighting()], &place);
        let stops = self.judge.blocks(&findings).map(describe);
        let action = if stops.is_some() { Action::Stopped } else { Action::Reported };
        // Confirmation once of each place: a program that tries again has nothing new to say.
        let key = key(&report::event(&place, Origin::Output, &Canary::sighting(), FindingAction::None, None));
        if self.reported.lock().unwrap_or_else(PoisonError::into_inner).insert(key) {
            self.report(&place, Origin::Output, &findings, action);
        }
        let reason = format!("{place}: {}", stops?);
        self.stop(&reason);
        Some(reason)
    }
}

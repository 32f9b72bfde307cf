//! The doctor: it reports what works, and leaves nothing behind.

use crate::runner::Case;
use crate::world::{Who, World};
use sandbox::doctor::{TrialSandbox, doctor};
use sandbox::{InitProgram, IsolationMechanism, SandboxPart, Status};

pub(crate) const CASES: &[Case] = &[
    Case { name: "the_doctor_tries_a_sandbox_and_leaves_nothing", run: healthy },
    Case { name: "the_doctor_says_why_a_sandbox_fails", run: broken },
];

fn healthy(world: &World) {
    let report = doctor(&world.directory, InitProgram::default());
    match &report.trial {
        TrialSandbox::Works { description, proof, .. } => {
            assert_eq!(
                description.status(SandboxPart::Mechanism(IsolationMechanism::Seccomp)),
                Some(Status::Enforced)
            );
            assert!(proof.results.iter().all(|result| result.held));
        }
        TrialSandbox::Fails { message } => panic!("{message}"),
    }
    assert!(report.is_healthy(), "{:?}", report.checks);
    assert_eq!(report.facts.uid == 0, world.who == Who::Root);
    assert_eq!(std::fs::read_dir(&world.directory).unwrap().count(), 0);
}

fn broken(world: &World) {
    let init = InitProgram { path: "/no/such/init".into(), ..InitProgram::default() };
    let report = doctor(&world.directory, init);
    assert!(!report.is_healthy());
    assert!(matches!(report.trial, TrialSandbox::Fails { message } if message.contains("/no/such/init")));
    assert_eq!(std::fs::read_dir(&world.directory).unwrap().count(), 0);
}

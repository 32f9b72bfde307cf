//! The attack suite of the proxy, with the numbers of the sandbox's suite. Each attack runs once against the proxy as it
//! is, where it must fail, and once without the layer that stops it, where it must work. As root both halves run, the
//! second in a copy of this program under another uid.

use super::attack_methods as methods;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;

/// An uid that owns nothing on any usual machine.
const ORDINARY_UID: u32 = 4242;
const USER_HALF: &str = "FULLSEND_TEST_USER_HALF";
const THIS: &str = "proxy::tests::suite::attacks_hold_and_bite_without_their_layer";

/// Whether the defence that stops an attack is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    There,
    LeftOut,
}

pub(super) enum Outcome {
    Worked,
    Failed,
    /// Cannot be shown, and why.
    Reason(&'static str),
}

impl From<bool> for Outcome {
    fn from(worked: bool) -> Self {
        if worked { Self::Worked } else { Self::Failed }
    }
}

pub(super) type AttackFuture = Pin<Box<dyn Future<Output = Outcome>>>;
type Attack = (u32, &'static str, fn(Presence) -> AttackFuture);

const ALL: &[Attack] = &[
    (38, "odd spellings of hosts", |layer| Box::pin(methods::odd_hosts(layer))),
    (39, "plain requests unread", |layer| Box::pin(methods::plain_requests(layer))),
    (40, "tunnel to another host", |layer| Box::pin(methods::another_host(layer))),
    (41, "lookup before the decision", |layer| Box::pin(methods::early_lookup(layer))),
    (42, "another answer at the dial", |layer| Box::pin(methods::rebinding(layer))),
    (43, "private in disguise", |layer| Box::pin(methods::disguised_addresses(layer))),
    (44, "redirect to elsewhere", |layer| Box::pin(methods::redirect(layer))),
    (45, "two readings of a head", |layer| Box::pin(methods::smuggling(layer))),
    (46, "spellings of a path", |layer| Box::pin(methods::path_spellings(layer))),
    (47, "another host inside", |layer| Box::pin(methods::another_host_inside(layer))),
    (48, "second request unread", |layer| Box::pin(methods::second_request(layer))),
    (49, "a program's own name", |layer| Box::pin(methods::own_name(layer))),
    (50, "credential to elsewhere", |layer| Box::pin(methods::credential_elsewhere(layer))),
    (53, "allowed host as relay", |layer| Box::pin(methods::allowed_relay(layer))),
    (54, "the authority's key", |layer| Box::pin(methods::authority_key(layer))),
    (55, "slow heads", |layer| Box::pin(methods::slow_heads(layer))),
];

struct Cell {
    number: u32,
    name: &'static str,
    who: &'static str,
    question: &'static str,
    answer: String,
}

async fn half(who: &'static str) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (number, name, attack) in ALL {
        let cell =
            |question, answer: &str| Cell { number: *number, name, who, question, answer: answer.to_owned() };
        cells.push(cell(
            "held",
            match attack(Presence::There).await {
                Outcome::Worked => "NO",
                Outcome::Failed => "yes",
                Outcome::Reason(reason) => reason,
            },
        ));
        cells.push(cell(
            "bit",
            match attack(Presence::LeftOut).await {
                Outcome::Worked => "yes",
                Outcome::Failed => "NO",
                Outcome::Reason(reason) => reason,
            },
        ));
    }
    cells
}

/// Rows that the gate prints with those of the sandbox.
fn written(cells: &[Cell]) -> String {
    cells
        .iter()
        .map(|Cell { number, name, who, question, answer }| {
            format!("{number}\t{name}\t{who}\t{question}\t{answer}\n")
        })
        .collect()
}

/// The same test in a copy of this program that the other user can start.
fn user_half() -> String {
    let directory = std::env::temp_dir().join(format!("egress-attacks-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let copy = directory.join("egress-tests");
    std::fs::copy("/proc/self/exe", &copy).unwrap();
    for path in [&directory, &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(&copy);
    command.args([THIS, "--exact", "--nocapture"]).env(USER_HALF, "1").current_dir("/");
    let output = command.uid(ORDINARY_UID).gid(ORDINARY_UID).output().unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output_text}{}", String::from_utf8_lossy(&output.stderr));
    let cells = output_text.lines().filter(|line| line.contains("\tuser\t"));
    cells.map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn attacks_hold_and_bite_without_their_layer() {
    let root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    let own = written(&half(if root { "root" } else { "user" }).await);
    if std::env::var_os(USER_HALF).is_some() {
        print!("\n{own}");
    } else {
        let other = if root {
            tokio::task::spawn_blocking(user_half).await.unwrap()
        } else {
            crate::skip("attacks", "the root half: not started as root");
            String::new()
        };
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/attacks");
        std::fs::create_dir_all(&directory).unwrap();
        let mut file = std::fs::File::create(directory.join("egress.tsv")).unwrap();
        write!(file, "{own}{other}").unwrap();
        assert!(!other.contains("\tNO\n"), "{other}");
    }
    assert!(!own.contains("\tNO\n"), "{own}");
}

//! The resolver inside.

use super::lab::{LabConfig, start_lab};
use crate::dns::{DnsQuestion, DnsReply, QuestionType, ReplyCode, read_reply, write_question};
use crate::event::EgressEvent;
use std::net::SocketAddr;
use tokio::net::UdpSocket;

async fn ask(resolver: SocketAddr, name: &str, kind: QuestionType) -> DnsReply {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let question = DnsQuestion { id: 77, name: name.to_owned(), kind };
    socket.send_to(&write_question(&question).unwrap(), resolver).await.unwrap();
    let mut buffer = [0; 1500];
    let length = socket.recv(&mut buffer).await.unwrap();
    read_reply(&buffer[..length], &question).unwrap()
}

#[tokio::test]
async fn only_names_of_the_policy_exist_and_each_has_its_own_address() {
    let policy = "version: 1\nnetwork_policies:\n  wild:\n    endpoints:\n      - host: \"*.wild.test\"\n        port: 443\n      - host: api.test\n        port: 443\n    binaries:\n      - path: \"/**\"\n";
    let lab = start_lab(LabConfig::new(policy)).await;
    let exact = ask(lab.resolver, "API.test", QuestionType::A).await;
    assert_eq!((exact.code, exact.addresses), (ReplyCode::Fine, vec![lab.direct.ip()]));
    let six = ask(lab.resolver, "api.test", QuestionType::Aaaa).await;
    assert_eq!((six.code, six.addresses.len()), (ReplyCode::Fine, 0));
    let pooled = ask(lab.resolver, "a.wild.test", QuestionType::A).await;
    assert_eq!(pooled.addresses, ["127.0.9.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(ask(lab.resolver, "a.wild.test", QuestionType::A).await.addresses, pooled.addresses);
    assert_eq!(ask(lab.resolver, "b.wild.test", QuestionType::A).await.code, ReplyCode::Failure(2));
    for name in ["evil.test", "c2lnbmf0dxjl.evil.test", "wild.test", "a.b.wild.test"] {
        for kind in [QuestionType::A, QuestionType::Aaaa, QuestionType::Other(16)] {
            assert_eq!(ask(lab.resolver, name, kind).await.code, ReplyCode::NoSuchName, "{name}");
        }
    }
    let events = lab.events.lock().unwrap();
    let refused: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            EgressEvent::NameRefused { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(refused, ["b.wild.test", "evil.test", "c2lnbmf0dxjl.evil.test", "wild.test", "a.b.wild.test"]);
}

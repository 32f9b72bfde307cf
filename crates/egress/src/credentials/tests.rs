//! Placeholders in every part of a request: replaced where they are bound, refused everywhere else.

use super::*;
use crate::http1::RequestHead;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use policy::Host;
use proptest::prelude::*;

const VALUE: &str = "s3cr&t \"é\"";

fn endpoint(host: &str, path: &str) -> policy::model::Endpoint {
    let text = format!(
        "version: 1\nnetwork_policies:\n  a:\n    endpoints:\n      - host: {host}\n        port: 443\n        protocol: rest\n        \
         access: full\n        path: \"{path}\"\n    binaries:\n      - path: \"/**\"\n"
    );
    let mut sources = yaml::Sources::default();
    let source = sources.add("p.yaml", text.as_str());
    let parsed = policy::Policy::parse(&sources, source).unwrap();
    parsed.policy.networks[0].endpoints[0].clone()
}

fn store(value: &str) -> (CredentialStore, String) {
    let credential = Credential {
        provider: "github".into(),
        key: "TOKEN".into(),
        source: CredentialSource::fixed(Secret::new(value.to_owned())),
        endpoints: vec![endpoint("api.test", "/api/**")],
        placements: vec![
            header("Authorization"),
            header("X-Two"),
            CredentialPlacement::QueryParameter("key".to_owned()),
            CredentialPlacement::Path { template: None },
        ],
        plain: false,
    };
    let store = CredentialStore::new(vec![credential]).unwrap();
    let placeholder = store.placeholders()[0].1.clone();
    (store, placeholder)
}

fn header(name: &str) -> CredentialPlacement {
    CredentialPlacement::Header(name.to_owned())
}

fn place<'a>(host: &'a Host, path: &'a str) -> CredentialScope<'a> {
    CredentialScope { host, port: 443, path, readings: &[], provider: None, tls: true }
}

fn api() -> Host {
    Host::parse("api.test").unwrap()
}

async fn field(
    store: &CredentialStore,
    place: &CredentialScope<'_>,
    name: &str,
    value: &str,
) -> Result<String, SubstituteError> {
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: {value}\r\n\r\n");
    let mut fields = RequestHead::parse(head.as_bytes()).unwrap().fields;
    store.substitute_fields(&mut fields, place).await?;
    let value = fields.all(name).next().unwrap().to_vec();
    Ok(String::from_utf8(value).unwrap())
}

#[tokio::test]
async fn placeholders_are_replaced_in_every_allowed_part_of_a_bound_request() {
    let (store, placeholder) = store(VALUE);
    assert!(placeholder.starts_with("openshell:resolve:env:v") && placeholder.ends_with("_TOKEN"));
    let host = api();
    let place = place(&host, "/api/x");
    let bearer = field(&store, &place, "Authorization", &format!("Bearer {placeholder}")).await;
    assert_eq!(bearer.unwrap(), format!("Bearer {VALUE}"));
    let basic = format!("Basic {}", STANDARD.encode(format!("user:{placeholder}")));
    let filled = field(&store, &place, "authorization", &basic).await.unwrap();
    assert_eq!(STANDARD.decode(&filled[6..]).unwrap(), format!("user:{VALUE}").into_bytes());
    let twice = field(&store, &place, "X-Two", &format!("{placeholder},{placeholder}")).await;
    assert_eq!(twice.unwrap(), format!("{VALUE},{VALUE}"));
    let encoded = placeholder.replace(':', "%3a");
    let target = format!("/api/bot{placeholder}/x%20y?a=b%20c&key={encoded}");
    let expected = "/api/bots3cr%26t%20%22%C3%A9%22/x%20y?a=b%20c&key=s3cr%26t%20%22%C3%A9%22";
    assert_eq!(store.substitute_target(&target, &place).await.unwrap(), expected);
    let json = format!(r#"{{"a":"{placeholder}"}}"#);
    let filled = store.substitute_body(json.as_bytes(), BodyFormat::Json, &place).await.unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&filled).unwrap()["a"], VALUE);
    let form =
        store.substitute_body(format!("k={encoded}&b=1").as_bytes(), BodyFormat::Form, &place).await.unwrap();
    assert_eq!(&**form, b"k=s3cr%26t%20%22%C3%A9%22&b=1");
}

#[tokio::test]
async fn elsewhere_they_are_refused() {
    let (store, placeholder) = store(VALUE);
    let host = api();
    let other = Host::parse("evil.test").unwrap();
    let not_bound = SubstituteError::NotBound { key: "TOKEN".into() };
    for place in [
        place(&other, "/api/x"),
        place(&host, "/elsewhere"),
        CredentialScope { port: 80, ..place(&host, "/api/x") },
    ] {
        let sent = field(&store, &place, "Authorization", &placeholder).await;
        assert_eq!(sent, Err(not_bound.clone()), "{place:?}");
        assert_eq!(
            store.substitute_target(&format!("/a/{placeholder}"), &place).await,
            Err(not_bound.clone())
        );
    }
    let bound = place(&host, "/api/x");
    for strange in [
        "openshell:resolve:env:TOKEN",
        "openshell:resolve:env:v1_TOKEN",
        "openshell:resolve:env:",
        "xOPENSHELL-RESOLVE-ENV-TOKEN",
    ] {
        assert_eq!(field(&store, &bound, "X", strange).await, Err(SubstituteError::Unknown), "{strange}");
    }
}

#[tokio::test]
async fn other_parts_than_the_profile_names_are_refused() {
    let (store, placeholder) = store(VALUE);
    let host = api();
    let place = place(&host, "/api/x");
    let wrong = |part: &str| SubstituteError::WrongPart {
        key: "TOKEN".into(),
        part: part.to_owned(),
        allowed: "the header `Authorization`, the header `X-Two`, the query parameter `key`, the path".into(),
    };
    for name in ["X-Echo", "Cookie", "User-Agent", "Referer", "X-Forwarded-For"] {
        let sent = field(&store, &place, name, &placeholder).await;
        assert_eq!(sent, Err(wrong(&format!("the header `{name}`"))));
    }
    for (query, expected) in [
        (format!("echo={placeholder}"), wrong("the query parameter `echo`")),
        (format!("KEY={placeholder}"), wrong("the query parameter `KEY`")),
        (format!("key=1&k%65y2={placeholder}"), wrong("the query parameter `key2`")),
        (placeholder.clone(), SubstituteError::Misplaced { part: "names of query parameters" }),
    ] {
        assert_eq!(store.substitute_target(&format!("/api/x?{query}"), &place).await, Err(expected));
    }
}

#[tokio::test]
async fn nothing_is_sent_without_tls_unless_the_profile_says_so() {
    let (store, placeholder) = store(VALUE);
    let host = api();
    let unencrypted = CredentialScope { tls: false, ..place(&host, "/api/x") };
    let refused = SubstituteError::NotEncrypted { key: "TOKEN".into() };
    assert_eq!(field(&store, &unencrypted, "Authorization", &placeholder).await, Err(refused.clone()));
    let target = store.substitute_target(&format!("/api/x?key={placeholder}"), &unencrypted).await;
    assert_eq!(target, Err(refused.clone()));
    let body = store.substitute_body(placeholder.as_bytes(), BodyFormat::Text, &unencrypted).await;
    assert_eq!(body.map(|_| ()), Err(refused));
}

#[tokio::test]
async fn values_that_would_change_the_request_are_refused() {
    let host = api();
    let place = place(&host, "/api/x");
    for value in ["a\r\nX: y", "a\nb", "a\0"] {
        let (store, placeholder) = store(value);
        assert!(
            matches!(
                field(&store, &place, "X-Two", &placeholder).await,
                Err(SubstituteError::Unsuitable { .. })
            ),
            "{value:?}"
        );
        let basic = format!("Basic {}", STANDARD.encode(format!("u:{placeholder}")));
        let filled = field(&store, &place, "Authorization", &basic).await;
        assert!(value == "a\0" || filled.is_err(), "{value:?}");
    }
    for value in ["../admin", "a/b", "a\\b", "x\n"] {
        let (store, placeholder) = store(value);
        let filled = store.substitute_target(&format!("/api/{placeholder}"), &place).await;
        assert!(matches!(filled, Err(SubstituteError::Unsuitable { part: "path", .. })), "{value:?}");
    }
}

#[tokio::test]
async fn a_provider_without_endpoints_goes_where_the_policy_binds_it() {
    let source = CredentialSource::fixed(Secret::new("v".to_owned()));
    let credential = Credential {
        provider: "own".into(),
        key: "K".into(),
        source,
        endpoints: vec![],
        placements: vec![header("X")],
        plain: false,
    };
    let store = CredentialStore::new(vec![credential]).unwrap();
    let placeholder = store.placeholders()[0].1.clone();
    let host = api();
    let unbound = place(&host, "/");
    assert!(field(&store, &unbound, "X", &placeholder).await.is_err());
    let bound = CredentialScope { provider: Some("own"), ..unbound };
    assert_eq!(field(&store, &bound, "X", &placeholder).await.unwrap(), "v");
    assert!(store.is_bound(&host, 443, Some("own")) && !store.is_bound(&host, 443, Some("other")));
}

#[tokio::test]
async fn an_endpoint_with_a_token_gets_only_the_token() {
    let (mut store, placeholder) = store(VALUE);
    store.authorize("tool.api.test", 8080, Secret::new("the-token".to_owned()));
    let host = Host::parse("tool.api.test").unwrap();
    let there =
        CredentialScope { host: &host, port: 8080, path: "/", readings: &[], provider: None, tls: false };
    let sent = field(&store, &there, "authorization", "Bearer my-own").await;
    assert_eq!(sent.unwrap(), "Bearer the-token");
    assert!(field(&store, &there, "Authorization", &placeholder).await.is_err());
    let elsewhere = CredentialScope { port: 8081, ..there };
    assert_eq!(field(&store, &elsewhere, "Authorization", "Bearer my-own").await.unwrap(), "Bearer my-own");
    assert!(store.is_bound(&host, 8080, None) && !store.is_bound(&host, 8081, None));
}

proptest! {
    #[test]
    fn a_stream_is_watched_across_its_portions(before in "[a-z:]{0,60}", after in "[a-z]{0,60}", size in 1usize..40) {
        let text = format!("{before}openshell:resolve:env:v1_K{after}");
        let mut watch = PlaceholderScanner::default();
        let seen = text.as_bytes().chunks(size).filter(|portion| watch.finds(portion)).count();
        prop_assert!(seen >= 1);
        let mut watch = PlaceholderScanner::default();
        prop_assert!(!before.as_bytes().chunks(size).any(|portion| watch.finds(portion)));
    }
}

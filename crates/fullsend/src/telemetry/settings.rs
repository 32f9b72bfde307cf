//! The variables of OpenTelemetry, read as its specification says. A wrong one is an error that names the variable and never its
//! value, which may hold a credential.

use std::fmt;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};

use super::CollectorEndpoint;
use crate::fetch::WebAddress;
use crate::render::otlp::{OtlpOptions, Temporality, TraceParent};

/// All requests of one run together. The specification's ten seconds are long for somebody who waits for a command to end.
const TIMEOUT: Duration = Duration::from_secs(3);
const MAX_TIMEOUT: Duration = Duration::from_secs(10);

/// What is sent, and where.
pub struct TelemetrySettings {
    pub traces: Option<CollectorEndpoint>,
    pub metrics: Option<CollectorEndpoint>,
    pub timeout: Duration,
    pub options: OtlpOptions,
}

#[derive(Debug, PartialEq, Eq)]
pub struct SettingsError {
    variable: String,
    why: &'static str,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.variable, self.why)
    }
}

impl std::error::Error for SettingsError {}

type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl TelemetrySettings {
    /// `None`: nothing is to be sent.
    pub fn from_variables(variables: Variables<'_>) -> Result<Option<Self>, SettingsError> {
        if is_word(variables("OTEL_SDK_DISABLED").as_deref(), "true") {
            return Ok(None);
        }
        let traces = endpoint(variables, "TRACES", "/v1/traces")?;
        let metrics = endpoint(variables, "METRICS", "/v1/metrics")?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        Ok(Some(Self { traces, metrics, timeout: timeout(variables)?, options: options(variables)? }))
    }
}

/// Settings that do not depend on a collector.
pub fn options(variables: Variables<'_>) -> Result<OtlpOptions, SettingsError> {
    const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let mut resource = pairs(ATTRIBUTES, variables(ATTRIBUTES).as_deref().unwrap_or_default())?;
    if let Some(name) = variables("OTEL_SERVICE_NAME").filter(|name| !name.is_empty()) {
        resource.retain(|(key, _)| key != "service.name");
        resource.push(("service.name".to_owned(), name));
    }
    let captured = variables("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
    let captured = captured.as_deref();
    let delta = variables("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE");
    Ok(OtlpOptions {
        resource,
        parent: variables("TRACEPARENT").and_then(|text| TraceParent::parse(&text)),
        captures_content: ["true", "span_only", "span_and_event"].iter().any(|word| is_word(captured, word)),
        temporality: if is_word(delta.as_deref(), "delta") {
            Temporality::Delta
        } else {
            Temporality::Cumulative
        },
    })
}

fn is_word(value: Option<&str>, word: &str) -> bool {
    value.is_some_and(|value| value.trim().eq_ignore_ascii_case(word))
}

/// The variable of one signal, or else that of all.
fn of_signal(variables: Variables<'_>, signal: &str, what: &str) -> Option<(String, String)> {
    let names = [format!("OTEL_EXPORTER_OTLP_{signal}_{what}"), format!("OTEL_EXPORTER_OTLP_{what}")];
    names
        .into_iter()
        .find_map(|name| variables(&name).filter(|value| !value.is_empty()).map(|value| (name, value)))
}

/// The address of one signal is used as it is; that of all gets the signal's path.
fn endpoint(
    variables: Variables<'_>,
    signal: &str,
    path: &str,
) -> Result<Option<CollectorEndpoint>, SettingsError> {
    if is_word(variables(&format!("OTEL_{signal}_EXPORTER")).as_deref(), "none") {
        return Ok(None);
    }
    let Some((name, text)) = of_signal(variables, signal, "ENDPOINT") else { return Ok(None) };
    if let Some((variable, protocol)) = of_signal(variables, signal, "PROTOCOL")
        && is_word(Some(&protocol), "grpc")
    {
        return Err(SettingsError { variable, why: "is grpc, and fullsend sends http/json: use port 4318" });
    }
    let is_general = name == "OTEL_EXPORTER_OTLP_ENDPOINT";
    let text = if is_general { format!("{}{path}", text.trim_end_matches('/')) } else { text };
    let wrong = |_| SettingsError { variable: name, why: "is not an address such as http://localhost:4318" };
    let address = WebAddress::parse(&text).map_err(wrong)?;
    let headers = of_signal(variables, signal, "HEADERS").map(|(name, text)| headers(&name, &text));
    Ok(Some(CollectorEndpoint { address, headers: headers.transpose()?.unwrap_or_default() }))
}

fn headers(variable: &str, text: &str) -> Result<Vec<(HeaderName, String)>, SettingsError> {
    let wrong = || SettingsError { variable: variable.to_owned(), why: "must be `name=value,name=value`" };
    let header = |(name, value): (String, String)| {
        let name = HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes()).map_err(|_| wrong())?;
        HeaderValue::from_str(&value).map_err(|_| wrong())?;
        Ok((name, value))
    };
    pairs(variable, text)?.into_iter().map(header).collect()
}

/// `key=value,key=value`, with values in the percent encoding of W3C's baggage.
fn pairs(variable: &str, text: &str) -> Result<Vec<(String, String)>, SettingsError> {
    let wrong = || SettingsError { variable: variable.to_owned(), why: "must be `name=value,name=value`" };
    let pair = |part: &str| {
        let (key, value) = part.split_once('=').ok_or_else(wrong)?;
        let key = key.trim();
        if key.is_empty() {
            return Err(wrong());
        }
        Ok((key.to_owned(), percent_decoded(value.trim()).ok_or_else(wrong)?))
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

fn timeout(variables: Variables<'_>) -> Result<Duration, SettingsError> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
    let Some(text) = variables(NAME).filter(|text| !text.is_empty()) else { return Ok(TIMEOUT) };
    let wrong = |_| SettingsError { variable: NAME.to_owned(), why: "must be a number of milliseconds" };
    Ok(Duration::from_millis(text.trim().parse().map_err(wrong)?).min(MAX_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Option<TelemetrySettings>, SettingsError> {
        let find =
            |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        TelemetrySettings::from_variables(&find)
    }

    fn addresses(set: &[(&str, &str)]) -> [String; 2] {
        let shown = |endpoint: Option<CollectorEndpoint>| {
            endpoint.map(|it| it.address.to_string()).unwrap_or_default()
        };
        read(set).unwrap().map_or_else(Default::default, |found| [shown(found.traces), shown(found.metrics)])
    }

    #[test]
    fn endpoints_are_those_of_the_specification() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base/");
        assert_eq!(addresses(&[]), ["", ""]);
        assert_eq!(
            addresses(&[general]),
            ["http://collector:4318/base/v1/traces", "http://collector:4318/base/v1/metrics"]
        );
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces.example/x");
        assert_eq!(addresses(&[own]), ["https://traces.example/x", ""]);
        assert_eq!(addresses(&[general, own])[0], "https://traces.example/x");
        assert_eq!(addresses(&[general, ("OTEL_SDK_DISABLED", "True")]), ["", ""]);
        assert_eq!(addresses(&[general, ("OTEL_METRICS_EXPORTER", "none")])[1], "");
    }

    #[test]
    fn wrong_values_are_named_and_not_shown() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        for (set, expected) in [
            (
                vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "https://me:secret@c")],
                "OTEL_EXPORTER_OTLP_ENDPOINT is not an address",
            ),
            (vec![general, ("OTEL_EXPORTER_OTLP_HEADERS", "secret")], "OTEL_EXPORTER_OTLP_HEADERS must be"),
            (
                vec![general, ("OTEL_EXPORTER_OTLP_HEADERS", "a=secret%0d%0ab: c")],
                "OTEL_EXPORTER_OTLP_HEADERS must be",
            ),
            (vec![general, ("OTEL_RESOURCE_ATTRIBUTES", "a=%zzsecret")], "OTEL_RESOURCE_ATTRIBUTES must be"),
            (vec![general, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "OTEL_EXPORTER_OTLP_PROTOCOL is grpc"),
            (
                vec![general, ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")],
                "OTEL_EXPORTER_OTLP_TIMEOUT must be a number",
            ),
        ] {
            let message = read(&set).err().map(|error| error.to_string()).unwrap();
            assert!(message.starts_with(expected) && !message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn headers_and_attributes_are_decoded() {
        let found = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20abc, x-team=a"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-team=b"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=a%2Cb"),
            ("OTEL_SERVICE_NAME", "ci"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "60000"),
        ]);
        let found = found.unwrap().unwrap();
        let shown = |endpoint: &CollectorEndpoint| {
            endpoint.headers.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(shown(found.traces.as_ref().unwrap()), ["authorization=Bearer abc", "x-team=a"]);
        assert_eq!(shown(found.metrics.as_ref().unwrap()), ["x-team=b"]);
        let resource: Vec<_> =
            found.options.resource.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(resource, ["deployment.environment.name=a,b", "service.name=ci"]);
        assert_eq!(found.timeout, MAX_TIMEOUT);
        assert!(!found.options.captures_content);
    }
}

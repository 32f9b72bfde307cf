//! The one way in which the host fetches from the web: GET with bounded redirects, over TLS, to allowed addresses. A
//! credential is sent only to its own origin, not after a redirect elsewhere.

mod address;
mod error;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use egress::credentials::Secret;
use egress::dial::{Dialer, HostProxy, Roots};
use egress::resolver::SystemResolver;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use policy::address::{Class, classify};
use tokio::io::{AsyncRead, AsyncWrite};

pub use address::WebAddress;
pub use error::FetchError;

/// The default timeout until the head of an answer, and between two parts of its body.
const TIME: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 5;

/// How requests leave this host: its resolver, its proxy, the roots that it trusts.
#[derive(Clone)]
pub struct HostNetwork {
    dialer: Arc<Dialer>,
    /// Hosts, with their ports, that may use plain http. This machine needs no entry.
    plain_http: Arc<Vec<String>>,
}

impl HostNetwork {
    pub fn of_host(
        variables: &dyn Fn(&str) -> Option<String>,
        plain_http: Vec<String>,
    ) -> Result<Self, FetchError> {
        let unusable = |why: String| FetchError::Host { why };
        let roots = Roots::load().map_err(|error| unusable(error.to_string()))?;
        let proxy = HostProxy::from_variables(variables).map_err(|error| unusable(error.to_string()))?;
        let dialer = Dialer::new(Arc::new(SystemResolver::load()), roots).with_proxy(proxy);
        Ok(Self { dialer: Arc::new(dialer), plain_http: Arc::new(plain_http) })
    }

    /// How connections are made, for code that fetches a credential.
    pub fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Whether an address is allowed, as far as this is known before its host is resolved.
    pub fn check(&self, address: &WebAddress) -> Result<(), FetchError> {
        if !address.is_tls && !self.is_plain(&address.authority()) {
            return Err(FetchError::Plain { address: address.to_string() });
        }
        let literal: Vec<IpAddr> = address.host.parse().into_iter().collect();
        judge(address, &literal, None).map(drop)
    }

    /// Whether a host is reached over plain http.
    pub fn is_plain(&self, authority: &str) -> bool {
        self.plain_http.iter().any(|host| host == authority)
            || WebAddress::parse(&format!("http://{authority}"))
                .is_ok_and(|address| address.is_this_machine())
    }
}

/// Whether an address may be connected to; `Err` says why not.
pub type PermitAddress<'a> = &'a (dyn Fn(&WebAddress, NetworkPlace) -> Result<(), String> + 'a);

/// One request.
pub struct FetchRequest<'a> {
    pub address: &'a WebAddress,
    pub headers: &'a [(HeaderName, String)],
    /// The value of `Authorization`.
    pub authorization: Option<&'a Secret>,
    /// The network scope of the server that sent us to this address, if there is one.
    pub named_by: Option<NetworkPlace>,
    /// A form to post; it may contain a credential, so no redirect is followed.
    pub form: Option<&'a Secret>,
    /// A body to post, or to send with another method; no redirect is followed.
    pub post: Option<Post<'a>>,
    /// A method other than those of a GET or a POST. A signature covers it, so no redirect is followed.
    pub method: Option<Method>,
    /// Is called for every address before connecting, redirects included; `Err` says why it is not allowed.
    pub permit: Option<PermitAddress<'a>>,
    /// Until the head of an answer, and between two parts of its body.
    pub timeout: Duration,
}

/// The body of a request, and its media type.
#[derive(Clone, Copy)]
pub struct Post<'a> {
    pub content_type: &'static str,
    pub bytes: &'a [u8],
}

impl<'a> FetchRequest<'a> {
    pub fn new(address: &'a WebAddress) -> Self {
        Self {
            address,
            headers: &[],
            authorization: None,
            named_by: None,
            form: None,
            post: None,
            method: None,
            permit: None,
            timeout: TIME,
        }
    }
}

/// Sends requests, one at a time.
pub struct Fetcher {
    network: HostNetwork,
    executor: tokio::runtime::Runtime,
}

/// The head of an answer; its body is read from it.
pub struct Answer<'a> {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Where it came from, after redirects.
    pub address: WebAddress,
    /// The network scope of the first server.
    pub place: NetworkPlace,
    body: Incoming,
    timeout: Duration,
    executor: &'a tokio::runtime::Runtime,
}

impl Fetcher {
    pub fn new(network: HostNetwork) -> Result<Self, FetchError> {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|error| FetchError::Host { why: error.to_string() })?;
        Ok(Self { network, executor })
    }

    /// The answer after at most five redirects.
    pub fn send(&self, ask: &FetchRequest<'_>) -> Result<Answer<'_>, FetchError> {
        let mut address = ask.address.clone();
        let mut origin = ask.named_by;
        let mut first = None;
        for _ in 0..=MAX_REDIRECTS {
            let authorization = ask.authorization.filter(|_| address.has_same_origin(ask.address));
            let request = request(&address, ask, authorization)?;
            let (response, place) = self.executor.block_on(self.send_once(&address, request, origin, ask))?;
            let first_place = *first.get_or_insert(place);
            let is_final = ask.form.is_some() || ask.post.is_some() || ask.method.is_some();
            let next = if is_final { None } else { redirect(&response, &address)? };
            let Some(next) = next else {
                let (head, body) = response.into_parts();
                let executor = &self.executor;
                let place = first_place;
                return Ok(Answer {
                    status: head.status,
                    headers: head.headers,
                    address,
                    place,
                    body,
                    timeout: ask.timeout,
                    executor,
                });
            };
            origin = origin.or(Some(place));
            address = next;
        }
        Err(FetchError::Redirects { address: ask.address.to_string() })
    }

    /// `origin` is where a redirect comes from.
    async fn send_once(
        &self,
        address: &WebAddress,
        request: Request<Full<Bytes>>,
        origin: Option<NetworkPlace>,
        ask: &FetchRequest<'_>,
    ) -> Result<(Response<Incoming>, NetworkPlace), FetchError> {
        let dialer = &self.network.dialer;
        let deadline = tokio::time::Instant::now() + ask.timeout;
        let timeout = |_| FetchError::Timeout { address: address.to_string() };
        self.network.check(address)?;
        let addresses = match address.host.parse::<IpAddr>() {
            Ok(literal) => vec![literal],
            Err(_) if address.host == "localhost" => vec![IpAddr::from([127, 0, 0, 1])],
            Err(_) if dialer.is_proxied(&address.host, address.port) => Vec::new(),
            Err(_) => {
                let resolved = tokio::time::timeout_at(deadline, dialer.resolve(&address.host)).await;
                resolved.map_err(timeout)?.map_err(FetchError::Dial)?
            }
        };
        let place = judge(address, &addresses, origin)?;
        if let Some(permit) = ask.permit {
            permit(address, place)
                .map_err(|why| FetchError::Refused { address: address.to_string(), why })?;
        }
        let exchange = async {
            let stream = dialer.connect(&address.host, &addresses, address.port).await;
            let stream = stream.map_err(FetchError::Dial)?;
            if address.is_tls {
                let stream = dialer.secure(stream, &address.host, &[b"http/1.1"]).await;
                return exchange_on(stream.map_err(FetchError::Dial)?, request).await;
            }
            exchange_on(stream, request).await
        };
        let response = tokio::time::timeout_at(deadline, exchange).await.map_err(timeout)??;
        Ok((response, place))
    }
}

/// How far an address is from the public internet. A redirect never leads closer to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkPlace {
    ThisMachine,
    Internal,
    Public,
}

/// Whether these addresses are allowed for a redirect from `origin`.
fn judge(
    address: &WebAddress,
    addresses: &[IpAddr],
    origin: Option<NetworkPlace>,
) -> Result<NetworkPlace, FetchError> {
    let mut place = NetworkPlace::Public;
    for one in addresses {
        let class = classify(*one);
        let refused = |why: &str| {
            let address = address.to_string();
            Err(FetchError::Refused { address, why: format!("{one} is a {} address{why}", class.word()) })
        };
        let here = match class {
            Class::Public => NetworkPlace::Public,
            Class::Loopback => NetworkPlace::ThisMachine,
            Class::Metadata | Class::LinkLocal | Class::Unspecified | Class::Multicast | Class::Broadcast => {
                return refused("");
            }
            _ => NetworkPlace::Internal,
        };
        if origin.is_some_and(|origin| here < origin) {
            return refused(", and a redirect must not lead there");
        }
        place = place.min(here);
    }
    Ok(place)
}

fn request(
    address: &WebAddress,
    ask: &FetchRequest<'_>,
    authorization: Option<&Secret>,
) -> Result<Request<Full<Bytes>>, FetchError> {
    let wrong = |why: &str| FetchError::Address { why: format!("{address} cannot be used: {why}") };
    let mut request = Request::builder()
        .uri(&address.target)
        .header(HOST, address.authority())
        .header(USER_AGENT, concat!("fullsend/", env!("CARGO_PKG_VERSION")));
    for (name, value) in ask.headers {
        request = request.header(name, value);
    }
    if let Some(secret) = authorization {
        let mut value = HeaderValue::from_str(secret.reveal())
            .map_err(|_| wrong("the credential has characters that no header holds"))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    let mut body = Bytes::new();
    if let Some(form) = ask.form {
        request = request.method(Method::POST).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        body = Bytes::from(form.reveal().to_owned());
    }
    if let Some(post) = ask.post {
        request = request.method(Method::POST).header(CONTENT_TYPE, post.content_type);
        body = Bytes::copy_from_slice(post.bytes);
    }
    if let Some(method) = &ask.method {
        request = request.method(method);
    }
    request.body(Full::new(body)).map_err(|error| wrong(&error.to_string()))
}

fn redirect(response: &Response<Incoming>, address: &WebAddress) -> Result<Option<WebAddress>, FetchError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    let location = location
        .ok_or_else(|| FetchError::Address { why: format!("{address} redirects without saying where") })?;
    address.redirected(location).map(Some).map_err(|why| FetchError::Address { why })
}

async fn exchange_on<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(FetchError::Http)?;
    // The task ends with the connection. The sender reports its errors.
    tokio::spawn(async move { drop(connection.await) });
    sender.send_request(request).await.map_err(FetchError::Http)
}

impl Answer<'_> {
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The next bytes of the body; `None` at its end.
    pub fn next(&mut self) -> Result<Option<Bytes>, FetchError> {
        loop {
            let frame = async { tokio::time::timeout(self.timeout, self.body.frame()).await };
            let frame = self.executor.block_on(frame);
            let frame = frame.map_err(|_| FetchError::Timeout { address: self.address.to_string() })?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(FetchError::Http(error)),
                Some(Ok(frame)) => {
                    // Trailers are not used.
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The same, with a deadline for the whole body: a server may not delay us by sending byte by byte.
    pub fn whole_before(mut self, max_bytes: usize, deadline: Instant) -> Result<Vec<u8>, FetchError> {
        let mut bytes = Vec::new();
        loop {
            self.timeout = deadline.saturating_duration_since(Instant::now());
            let Some(part) = self.next()? else { return Ok(bytes) };
            if bytes.len() + part.len() > max_bytes {
                return Err(FetchError::TooLarge { address: self.address.to_string(), max_bytes });
            }
            bytes.extend_from_slice(&part);
        }
    }

    /// The whole body, if it has at most this many bytes.
    pub fn read_all(mut self, max_bytes: usize) -> Result<Vec<u8>, FetchError> {
        let mut bytes = Vec::new();
        while let Some(part) = self.next()? {
            if bytes.len() + part.len() > max_bytes {
                return Err(FetchError::TooLarge { address: self.address.to_string(), max_bytes });
            }
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_never_leads_nearer_to_this_host() {
        let check = |address: &str, origin: Option<NetworkPlace>, allowed: bool| {
            let named = WebAddress::parse("https://a.example/").unwrap();
            let judged = judge(&named, &[address.parse().unwrap()], origin);
            assert_eq!(judged.is_ok(), allowed, "{address} from {origin:?}: {judged:?}");
        };
        for address in ["169.254.169.254", "0.0.0.0", "fe80::1", "fd00:ec2::254", "224.0.0.1"] {
            check(address, None, false);
            check(address, Some(NetworkPlace::ThisMachine), false);
        }
        check("10.0.0.1", None, true);
        check("10.0.0.1", Some(NetworkPlace::Public), false);
        check("10.0.0.1", Some(NetworkPlace::Internal), true);
        check("127.0.0.1", Some(NetworkPlace::Internal), false);
        check("127.0.0.1", Some(NetworkPlace::ThisMachine), true);
        check("::ffff:10.0.0.1", Some(NetworkPlace::Public), false);
        check("8.8.8.8", Some(NetworkPlace::ThisMachine), true);
        check("8.8.8.8", Some(NetworkPlace::Public), true);
    }
}

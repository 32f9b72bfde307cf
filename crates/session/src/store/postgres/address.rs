//! The address of a PostgreSQL server: a URL, a service file, a password file and the variables that its own clients use too.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::{TlsSettings, TlsVerification};
use crate::store::StoreError;

/// How long one call may take unless the caller says otherwise. It is shorter than a lease.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What a connection needs from the process around it.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// How long one call may take: shorter than a lease, so that a worker notices a server that hangs.
    pub call_timeout: Duration,
    /// An environment variable.
    pub variable: fn(&str) -> Option<String>,
    /// The addresses of a host name.
    pub resolve: fn(&str) -> Result<Vec<IpAddr>, String>,
    /// Whether the tables may be migrated when a store is opened.
    pub migrate: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            call_timeout: CALL_TIMEOUT,
            variable: |_| None,
            resolve: |_| Err("this program resolves no host names; add ?hostaddr=ADDRESS".to_owned()),
            migrate: true,
        }
    }
}

/// A parsed address.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) tls: TlsSettings,
    pub(crate) options: PostgresOptions,
}

/// The parameters that this module reads itself.
const OWN: &[&str] = &["sslmode", "sslrootcert", "sslcert", "sslkey", "passfile", "service"];

impl Address {
    pub(crate) fn parse(url: &str, options: &PostgresOptions) -> Result<Self, StoreError> {
        let (rest, mut own) = split_parameters(url);
        let variable = options.variable;
        if let Some(service) = own.get("service").cloned().or_else(|| variable("PGSERVICE")) {
            for (key, value) in read_service(&service, variable)? {
                own.entry(key).or_insert(value);
            }
        }
        let mut config: Config = rest.parse().map_err(|error| refuse(&format!("is not valid: {error}")))?;
        complete(&mut config, &own)?;
        let tls = tls_settings(&mut config, &own, variable)?;
        if config.get_password().is_none() {
            let file = own.get("passfile").cloned().or_else(|| variable("PGPASSFILE"));
            let password = variable("PGPASSWORD").or_else(|| password_from_file(&config, file, variable));
            password.map(|password| config.password(password));
        }
        config
            .connect_timeout(options.call_timeout)
            .tcp_user_timeout(options.call_timeout)
            .keepalives_idle(Duration::from_secs(30))
            .application_name("fullsend");
        Ok(Self { config, tls, options: options.clone() })
    }

    /// The configuration of one connection. Names are resolved again for each, because a server can move.
    pub(crate) fn resolved(&self) -> Result<Config, String> {
        let mut config = self.config.clone();
        if !config.get_hostaddrs().is_empty() {
            return Ok(config);
        }
        let is_name = |host: &Host| matches!(host, Host::Tcp(name) if name.parse::<IpAddr>().is_err());
        if !config.get_hosts().iter().any(is_name) {
            return Ok(config);
        }
        let mut addresses = Vec::new();
        for host in config.get_hosts() {
            let Host::Tcp(name) = host else {
                return Err("a socket and a host name cannot be mixed".to_owned());
            };
            let found = match name.parse() {
                Ok(address) => vec![address],
                Err(_) => (self.options.resolve)(name)
                    .map_err(|error| format!("cannot resolve the host name `{name}`: {error}"))?,
            };
            let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
            addresses.push(*first.ok_or_else(|| format!("the host name `{name}` has no address"))?);
        }
        for address in addresses {
            config.hostaddr(address);
        }
        Ok(config)
    }
}

fn refuse(what: &str) -> StoreError {
    StoreError::Location { what: format!("the address of the session store {what}") }
}

/// The address without the parameters that this module reads itself, and those.
fn split_parameters(url: &str) -> (String, BTreeMap<String, String>) {
    let mut own = BTreeMap::new();
    let Some((base, query)) = url.split_once('?').filter(|_| url.contains("://")) else {
        return (url.to_owned(), own);
    };
    let mut rest = Vec::new();
    for part in query.split('&') {
        match part.split_once('=') {
            Some((key, value)) if OWN.contains(&key) => {
                own.insert(key.to_owned(), decode(value));
            }
            _ => rest.push(part),
        }
    }
    let rest = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    (rest, own)
}

/// Undoes percent-encoding.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Fills missing parts of the URL from the service file, and checks that nothing else is missing.
fn complete(config: &mut Config, own: &BTreeMap<String, String>) -> Result<(), StoreError> {
    let missing = "write postgres://USER@HOST/DATABASE";
    if config.get_user().is_none() {
        let user = own.get("user").ok_or_else(|| refuse(&format!("has no user; {missing}")))?;
        config.user(user);
    }
    if config.get_dbname().is_none()
        && let Some(database) = own.get("dbname")
    {
        config.dbname(database);
    }
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let host = own.get("host").ok_or_else(|| refuse(&format!("has no host; {missing}")))?;
        config.host(host);
        if let Some(port) = own.get("port") {
            config.port(port.parse().map_err(|_| refuse("has a port that is not a number"))?);
        }
    }
    if config.get_password().is_none()
        && let Some(password) = own.get("password")
    {
        config.password(password);
    }
    Ok(())
}

fn tls_settings(
    config: &mut Config,
    own: &BTreeMap<String, String>,
    variable: fn(&str) -> Option<String>,
) -> Result<TlsSettings, StoreError> {
    let setting = |key: &str, name: &str| own.get(key).cloned().or_else(|| variable(name));
    let mode = setting("sslmode", "PGSSLMODE").unwrap_or_else(|| "prefer".to_owned());
    let root_certificates =
        setting("sslrootcert", "PGSSLROOTCERT").filter(|path| path != "system").map(PathBuf::from);
    let (ssl_mode, verification) = match mode.as_str() {
        "disable" => (SslMode::Disable, TlsVerification::None),
        "prefer" | "allow" => (SslMode::Prefer, TlsVerification::None),
        // As in the server's own clients, named authorities imply that the certificate is checked.
        "require" if root_certificates.is_some() => (SslMode::Require, TlsVerification::Authority),
        "require" => (SslMode::Require, TlsVerification::None),
        "verify-ca" => (SslMode::Require, TlsVerification::Authority),
        "verify-full" => (SslMode::Require, TlsVerification::Full),
        other => {
            let modes = "disable, prefer, require, verify-ca or verify-full";
            return Err(refuse(&format!("has sslmode `{other}`; use {modes}")));
        }
    };
    config.ssl_mode(ssl_mode);
    Ok(TlsSettings {
        verification,
        root_certificates,
        certificate: setting("sslcert", "PGSSLCERT").map(PathBuf::from),
        key: setting("sslkey", "PGSSLKEY").map(PathBuf::from),
    })
}

/// The lines of one section of the service file.
fn read_service(
    name: &str,
    variable: fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, StoreError> {
    let path = variable("PGSERVICEFILE").map(PathBuf::from).or_else(|| home(variable, ".pg_service.conf"));
    let path = path.ok_or_else(|| refuse("names a service, and there is no service file"))?;
    let text = std::fs::read_to_string(&path).map_err(|error| {
        refuse(&format!("names a service, but {} cannot be read: {error}", path.display()))
    })?;
    let heading = format!("[{name}]");
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != heading);
    if lines.next().is_none() {
        return Err(refuse(&format!("names service `{name}`, which is not in {}", path.display())));
    }
    let section = lines.take_while(|line| !line.starts_with('['));
    let pairs = section.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
}

/// The password of the first line of the password file that fits. As with the server's own clients, a file that others can
/// read is not used.
fn password_from_file(
    config: &Config,
    file: Option<String>,
    variable: fn(&str) -> Option<String>,
) -> Option<String> {
    let path = file.map(PathBuf::from).or_else(|| home(variable, ".pgpass"))?;
    let about = std::fs::metadata(&path).ok()?;
    if !about.is_file() || about.permissions().mode() & 0o077 != 0 {
        return None;
    }
    let text = std::fs::read_to_string(&path).ok()?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = split_fields(line);
        let [found_host, found_port, found_database, found_user, password] = &fields[..] else { return None };
        let fits = |pattern: &str, value: &str| pattern == "*" || pattern == value;
        let all = fits(found_host, &host)
            && fits(found_port, &port)
            && fits(found_database, database)
            && fits(found_user, user);
        all.then(|| password.clone())
    })
}

/// The fields of a line, which colons separate. A backslash escapes the next character.
fn split_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let last = fields.len() - 1;
        match character {
            '\\' => fields[last].extend(characters.next()),
            ':' => fields.push(String::new()),
            other => fields[last].push(other),
        }
    }
    fields
}

fn home(variable: fn(&str) -> Option<String>, name: &str) -> Option<PathBuf> {
    variable("HOME").map(|home| Path::new(&home).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, StoreError> {
        Address::parse(url, &PostgresOptions::default())
    }

    #[test]
    fn an_address_needs_a_user_and_a_host() {
        for good in [
            "postgres://me@127.0.0.1/db",
            "postgres://me@[::1]:5433/db",
            "postgres://me@%2Frun%2Fpostgresql/db",
            "postgres://me@db.example.test/db?hostaddr=10.0.0.7",
            "postgres://me@db.example.test/db",
            "host=/run/postgresql user=me dbname=db",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("postgres://127.0.0.1/db", "has no user"),
            ("postgres://me@/db", "has no host"),
            ("mysql://me@127.0.0.1/db", "is not valid"),
            ("postgres://me@127.0.0.1/db?sslmode=full", "sslmode `full`"),
        ] {
            let error = parse(bad).err().unwrap().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn a_name_is_resolved_for_each_connection() {
        let resolve = |name: &str| match name {
            "db.example.test" => Ok(vec!["::1".parse().unwrap(), "10.0.0.7".parse().unwrap()]),
            other => Err(format!("no {other}")),
        };
        let options = PostgresOptions { resolve, ..PostgresOptions::default() };
        let known = Address::parse("postgres://me@db.example.test/db", &options).unwrap().resolved().unwrap();
        assert_eq!(known.get_hostaddrs(), ["10.0.0.7".parse::<IpAddr>().unwrap()]);
        assert_eq!(known.get_hosts(), [Host::Tcp("db.example.test".to_owned())]);
        let unknown = Address::parse("postgres://me@other.test/db", &options).unwrap().resolved();
        assert_eq!(unknown.err().unwrap(), "cannot resolve the host name `other.test`: no other.test");
    }

    #[test]
    fn a_password_is_not_in_the_message() {
        let error = parse("postgres://me:hunter2@127.0.0.1/db?sslmode=x").err().unwrap().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn modes_of_tls() {
        for (mode, ssl_mode, verification) in [
            ("", SslMode::Prefer, TlsVerification::None),
            ("?sslmode=disable", SslMode::Disable, TlsVerification::None),
            ("?sslmode=require", SslMode::Require, TlsVerification::None),
            ("?sslmode=require&sslrootcert=%2Fca.pem", SslMode::Require, TlsVerification::Authority),
            ("?sslmode=verify-ca", SslMode::Require, TlsVerification::Authority),
            ("?connect_timeout=3&sslmode=verify-full", SslMode::Require, TlsVerification::Full),
        ] {
            let address = parse(&format!("postgres://me@127.0.0.1/db{mode}")).unwrap();
            assert_eq!(
                (address.config.get_ssl_mode(), address.tls.verification),
                (ssl_mode, verification),
                "{mode}"
            );
        }
    }

    #[test]
    fn fields_of_a_password_file() {
        assert_eq!(split_fields(r"a:*:b\:c:d:e\\f"), ["a", "*", "b:c", "d", r"e\f"]);
    }
}

//! The registries of a host's package managers, from the text of their configuration, so that private mirrors work
//! without further settings. It reads no file itself.

/// One registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    /// The network that it belongs to: `npm`, `pip`, …
    pub network: &'static str,
    /// In lower case.
    pub host: String,
    pub port: u16,
}

/// How a package manager writes the addresses of its registries.
#[derive(Clone, Copy, Debug)]
pub enum RegistryFormat {
    /// `key = url` or `key=url`, for one of the keys; also TOML, with quotes.
    Keys(&'static [&'static str]),
    /// `<url>…</url>`.
    UrlElement,
    /// Words that are URLs, anywhere in lines that are not comments.
    Words,
}

/// The registries in a text.
pub fn read(network: &'static str, format: RegistryFormat, text: &str) -> Vec<Registry> {
    let mut found: Vec<Registry> = Vec::new();
    for url in urls(format, text) {
        let registry = registry(network, url);
        found.extend(registry.filter(|registry| !found.contains(registry)));
    }
    found
}

fn urls(format: RegistryFormat, text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    match format {
        RegistryFormat::Keys(keys) => {
            // `@scope:registry` is npm's registry of one scope.
            let is_wanted =
                |key: &str| keys.iter().any(|known| key == *known || key.ends_with(&format!(":{known}")));
            lines
                .filter_map(|line| line.split_once('='))
                .filter(|(key, _)| is_wanted(key.trim()))
                .map(|(_, value)| value.trim().trim_matches(['"', '\'']))
                .collect()
        }
        RegistryFormat::UrlElement => text
            .split("<url>")
            .skip(1)
            .filter_map(|rest| rest.split("</url>").next())
            .map(str::trim)
            .collect(),
        RegistryFormat::Words => lines
            .flat_map(|line| line.split([' ', '\t', ',', '|', '=']))
            .filter(|word| word.contains("://"))
            .collect(),
    }
}

/// Only hosts with a name. Nothing else of a URL is used, above all no credentials.
fn registry(network: &'static str, url: &str) -> Option<Registry> {
    let url = url.strip_prefix("sparse+").unwrap_or(url);
    let (scheme, rest) = url.split_once("://")?;
    let usual = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, usual),
    };
    match policy::Host::parse(host).ok()? {
        policy::Host::Name(host) if host.contains('.') => Some(Registry { network, host, port }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: RegistryFormat, text: &str, expected: &[(&str, u16)]) {
        let found = read("npm", format, text);
        let found: Vec<(&str, u16)> = found.iter().map(|one| (one.host.as_str(), one.port)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn the_registries_of_each_package_manager_are_read() {
        let npm = "; mine\nregistry=https://npm.corp.example/a\n@acme:registry = https://other.example:8443/\n//npm.corp.example/:_authToken=x\n";
        check(
            RegistryFormat::Keys(&["registry"]),
            npm,
            &[("npm.corp.example", 443), ("other.example", 8443)],
        );
        let pip = "[global]\nindex-url = https://user:secret@pypi.corp.example/simple\n#extra-index-url = https://no.example\n";
        check(RegistryFormat::Keys(&["index-url", "extra-index-url"]), pip, &[("pypi.corp.example", 443)]);
        let cargo = "[source.mirror]\nregistry = \"sparse+https://crates.corp.example/index/\"\n";
        check(RegistryFormat::Keys(&["registry", "index"]), cargo, &[("crates.corp.example", 443)]);
        check(RegistryFormat::Words, "https://go.corp.example,direct", &[("go.corp.example", 443)]);
        check(
            RegistryFormat::UrlElement,
            "<mirror><url> https://mvn.corp.example/x </url></mirror>",
            &[("mvn.corp.example", 443)],
        );
        for nothing in [
            "registry=file:///x",
            "registry=https://10.0.0.1/",
            "registry=https://localhost/",
            "registry=https://",
        ] {
            check(RegistryFormat::Keys(&["registry"]), nothing, &[]);
        }
    }
}

//! How credentials may be sent to an endpoint, and whether the endpoint supports that.

use yaml::{Diagnostic, Span, Spanned};

use super::Reader;
use super::endpoint::is_on;
use crate::file::{EndpointFile, Protocol, Signing};
use crate::model::{CredentialUse, Signature};

impl Reader {
    /// `None` after a problem was reported.
    pub(super) fn credentials(
        &mut self,
        path: &str,
        protocol: Protocol,
        tls_skip: bool,
        file: &Spanned<EndpointFile>,
    ) -> Option<CredentialUse> {
        let websocket = file.websocket_credential_rewrite.as_ref().filter(|at| at.value);
        let body = file.request_body_credential_rewrite.as_ref().filter(|at| at.value);
        if let (Some(at), false) = (websocket, matches!(protocol, Protocol::Rest | Protocol::Websocket)) {
            self.needs_protocol(path, "websocket_credential_rewrite", at.at, protocol, "rest or websocket");
        }
        if let (Some(at), false) = (body, protocol == Protocol::Rest) {
            self.needs_protocol(path, "request_body_credential_rewrite", at.at, protocol, "rest");
        }
        let signing = self.signing(path, file);
        if let (Some(_), Some(body)) = (&signing, body) {
            let message = format!(
                "`{path}` has both `request_body_credential_rewrite` and `credential_signing`; keep one"
            );
            self.error("contradiction", body.at, message);
        }
        if let (Some(_), true, Some(at)) = (&signing, tls_skip, &file.credential_signing) {
            self.error(
                "contradiction",
                at.at,
                format!("`{path}.credential_signing` cannot be used with `tls: skip`"),
            );
        }
        let uninspected = is_on(file.allow_uninspected_credentials.as_ref());
        let unread = tls_skip || !protocol.reads_requests();
        if let (Some(binding), true, false) = (&file.credential_binding, unread, uninspected) {
            let message = format!("`{path}.credential_binding` is on an endpoint whose traffic is not read");
            let problem = Diagnostic::error("contradiction", binding.at, message);
            self.report(problem.help("give it a protocol, or write `allow_uninspected_credentials: true`"));
        }
        let provider = match &file.credential_binding {
            Some(binding) if binding.provider.is_empty() => {
                self.error(
                    "empty",
                    binding.provider.at,
                    format!("`{path}.credential_binding.provider` is empty"),
                );
                return None;
            }
            binding => binding.as_ref().map(|binding| binding.provider.value.clone()),
        };
        Some(CredentialUse {
            provider,
            rewrite_websocket: websocket.is_some(),
            rewrite_body: body.is_some(),
            allow_uninspected: uninspected,
            signing,
        })
    }

    fn needs_protocol(&mut self, path: &str, key: &str, at: Span, protocol: Protocol, wanted: &str) {
        // Protocol tcp has a message of its own.
        if protocol != Protocol::Tcp {
            self.error("misplaced", at, format!("`{path}.{key}` needs protocol {wanted}"));
        }
    }

    fn signing(&mut self, path: &str, file: &EndpointFile) -> Option<Signature> {
        let given = |text: &Option<Spanned<String>>| text.clone().filter(|at| !at.is_empty());
        let service = given(&file.signing_service);
        let region = given(&file.signing_region);
        let Some(scheme) = file.credential_signing.as_ref().filter(|at| at.value != Signing::None) else {
            for (key, text) in [("signing_service", service), ("signing_region", region)] {
                if let Some(text) = text {
                    self.warn(
                        "no-effect",
                        text.at,
                        format!("`{path}.{key}` has no effect without `credential_signing`"),
                    );
                }
            }
            return None;
        };
        let Some(service) = service else {
            self.error(
                "missing",
                scheme.at,
                format!("`{path}.signing_service` is missing; `credential_signing` needs it"),
            );
            return None;
        };
        Some(Signature { scheme: scheme.value, service: service.value, region: region.map(|at| at.value) })
    }
}

//! LiteLLM's proxy before the same server, in a process of its own.

use crate::asking::key;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ends with the bench.
pub(crate) struct LiteLlm {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for LiteLlm {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// `None` if it is not installed.
pub(crate) fn start(vendor: SocketAddr) -> Option<LiteLlm> {
    let program = std::env::var("LITELLM").unwrap_or_else(|_| "litellm".to_owned());
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let file = std::env::temp_dir().join(format!("litellm-{}.yaml", std::process::id()));
    let config = format!(
        "model_list:\n  - model_name: bench\n    litellm_params: {{model: openai/bench, api_base: 'http://{vendor}/v1', api_key: sk-bench}}\n\
         litellm_settings: {{use_chat_completions_url_for_anthropic_messages: true}}\nrouter_settings: {{disable_cooldowns: true}}\n"
    );
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(program);
    command.arg("--config").arg(&file).args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
    command
        .env("LITELLM_MASTER_KEY", key())
        .env("LITELLM_TELEMETRY", "False")
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let started = LiteLlm { process, address };
    let deadline = Instant::now() + Duration::from_secs(180);
    while TcpStream::connect(address).is_err() {
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Some(started)
}

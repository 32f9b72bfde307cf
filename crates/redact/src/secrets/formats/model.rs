//! Model providers and the services around them.

use super::super::checksum::FormatCheck::VendorMark;
use super::super::format::{Format, contains, starts};

pub(super) const FORMATS: &[Format] = &[
    starts("anthropic-api-key", "sk-ant-api", r"[0-9]{2}-[\w-]{40,120}"),
    starts("anthropic-admin-key", "sk-ant-admin", r"[0-9]{2}-[\w-]{40,120}"),
    starts("anthropic-oauth-token", "sk-ant-oat", r"[0-9]{2}-[\w-]{40,120}"),
    starts("anthropic-refresh-token", "sk-ant-ort", r"[0-9]{2}-[\w-]{40,120}"),
    starts("anthropic-session-key", "sk-ant-sid", r"[0-9]{2}-[\w-]{40,120}"),
    starts("openai-project-key", "sk-proj-", r"[\w-]{40,200}"),
    starts("openai-service-key", "sk-svcacct-", r"[\w-]{40,200}"),
    starts("openai-admin-key", "sk-admin-", r"[\w-]{40,200}"),
    Format {
        check: VendorMark,
        ..contains("openai-api-key", "T3BlbkFJ", 23, r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}")
    },
    starts("openai-style-key", "sk-", r"(?:[A-Za-z0-9]{48}|[0-9a-f]{32})"),
    starts("openrouter-api-key", "sk-or-v1-", r"[0-9a-f]{64}"),
    starts("huggingface-token", "hf_", r"[A-Za-z0-9]{34,37}"),
    starts("huggingface-organisation-token", "api_org_", r"[A-Za-z]{34}"),
    starts("perplexity-api-key", "pplx-", r"[A-Za-z0-9]{40,56}"),
    starts("groq-api-key", "gsk_", r"[A-Za-z0-9]{52}"),
    starts("xai-api-key", "xai-", r"[A-Za-z0-9]{70,84}"),
    starts("replicate-api-token", "r8_", r"[A-Za-z0-9]{37}"),
    starts("together-api-key", "tgp_v1_", r"[\w-]{43}"),
    starts("fireworks-api-key", "fw_", r"[A-Za-z0-9]{22,24}"),
    starts("cerebras-api-key", "csk-", r"[a-z0-9]{48}"),
    starts("nvidia-api-key", "nvapi-", r"[\w-]{60,70}"),
    starts("elevenlabs-api-key", "sk_", r"[0-9a-f]{48}"),
    starts("langsmith-personal-key", "lsv2_pt_", r"[0-9a-f]{32}_[0-9a-f]{10}"),
    starts("langsmith-service-key", "lsv2_sk_", r"[0-9a-f]{32}_[0-9a-f]{10}"),
    starts("langfuse-secret-key", "sk-lf-", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    starts("helicone-api-key", "sk-helicone-", r"[a-z0-9-]{30,50}"),
    starts("pinecone-api-key", "pcsk_", r"[A-Za-z0-9]{5,6}_[A-Za-z0-9]{62,65}"),
    starts("voyage-api-key", "pa-", r"[\w-]{43}"),
    starts("jina-api-key", "jina_", r"[0-9a-f]{32}[\w-]{28}"),
    starts("tavily-api-key", "tvly-", r"(?:dev-|prod-)?[A-Za-z0-9]{32}"),
    starts("firecrawl-api-key", "fc-", r"[0-9a-f]{32}"),
    starts("e2b-api-key", "e2b_", r"[0-9a-f]{40}"),
    starts("modal-token-secret", "as-", r"[A-Za-z0-9]{22}"),
    starts("mem0-api-key", "m0-", r"[A-Za-z0-9]{40}"),
    starts("cursor-api-key", "key_", r"[0-9a-f]{64}"),
    starts("anyscale-api-key", "esecret_", r"[a-z0-9]{24,28}"),
    starts("llama-cloud-key", "llx-", r"[A-Za-z0-9]{48}"),
    starts("friendli-token", "flp_", r"[A-Za-z0-9]{40,50}"),
    starts("weights-and-biases-key", "wandb_v1_", r"[\w-]{60,90}"),
];

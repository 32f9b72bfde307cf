// The server's API, as the live page asks it. The token comes with the link and stays in this tab.

export function token(): string {
  const given = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem("token") ?? "";
}

async function request(path: string, init: RequestInit): Promise<Response> {
  const headers = { Authorization: `Bearer ${token()}`, ...init.headers };
  const response = await fetch(path, { ...init, headers, cache: "no-store" });
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({}))) as { detail?: string };
  throw new Error(problem.detail ?? `the server answered ${response.status}`);
}

export async function get<T>(path: string): Promise<T> {
  return (await (await request(path, {})).json()) as T;
}

/** Each action has a key of its own, so that a repeated request happens once. */
export async function post<T>(path: string, body: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() };
  return (await (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json()) as T;
}

let role: Promise<{ role: string }> | undefined;

/** Whether the caller is an operator. A viewer is shown no buttons that would be refused. */
export async function mayAct(): Promise<boolean> {
  role ??= get<{ role: string }>("/v1/caller");
  return (await role).role === "operator";
}

/** Before a stream that broke off is asked for again. */
const RETRY_MS = 1000;

/** Calls with the data of each event after this one, until the stream ends. A server that restarts is asked for the rest. */
export async function follow(path: string, after: number, each: (data: string) => void): Promise<void> {
  let last = after;
  const take = (part: string): boolean => {
    const [, id, data] = /^id: (.*)\ndata: (.*)$/.exec(part) ?? [];
    if (id !== undefined && data !== undefined) {
      last = Number(id);
      each(data);
    }
    return part.startsWith("event: end");
  };
  for (;;) {
    try {
      if (await readStream(path, last, take)) return;
    } catch (error) {
      // The browser says so where nobody answers; an answer that refuses ends it.
      if (!(error instanceof TypeError)) throw error;
    }
    await new Promise((resolve) => { setTimeout(resolve, RETRY_MS); });
  }
}

/** Whether the stream came to its end. */
async function readStream(path: string, after: number, take: (part: string) => boolean): Promise<boolean> {
  const response = await request(path, { headers: { Accept: "text/event-stream", "Last-Event-ID": String(after) } });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (reader) {
    const { value, done } = await reader.read();
    if (done) return false;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop() ?? "";
    if (parts.map(take).includes(true)) return true;
  }
  return true;
}

// Drives a real Chromium over `fullsend serve`: `node served.mjs BROWSER LINK TASK ID [SCREENSHOTS]`. Every check is a line of the
// output; the first that fails ends the program with its reason. `go on` tells the caller that what the page waits for may happen.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [browserPath, link, task, id, screenshots] = process.argv.slice(2);
const origin = new URL(link).origin;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
const TIMEOUT = 60_000;

function check(what, holds, why = "") {
  console.log(`${holds ? "ok" : "FAILED"} ${what}${holds ? "" : `: ${why}`}`);
  if (!holds) process.exit(1);
}

async function isAccessible(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run());
  check(`axe-core is clean: ${what}`, found.violations.length === 0, JSON.stringify(found.violations.map((one) => [one.id, one.nodes.map((node) => node.html)])));
}

/** Of the docs, where the caller wants them. */
async function shoot(page, name, width, height, colorScheme = "light") {
  if (!screenshots) return;
  const before = page.viewportSize();
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme });
  await page.screenshot({ path: `${screenshots}/${name}.png` });
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(before);
}

async function narrowsTheList(page) {
  await page.goto(link);
  await page.waitForSelector(".runs a");
  await page.selectOption(".narrow select", "timeout");
  await page.waitForFunction(() => /Nothing fits/.test(document.querySelector(".runs")?.innerText ?? ""), null, { timeout: TIMEOUT });
  check("a filter stands in the address", page.url() === `${origin}/?outcome=timeout`, page.url());
  await page.selectOption(".narrow select", "completed");
  await page.waitForSelector(".runs a", { timeout: TIMEOUT });
  check("a filter finds what fits", (await page.locator(".runs a").count()) === 1);
}

async function showsCosts(page) {
  await page.click("nav >> text=Costs");
  await page.waitForSelector(".card");
  const text = await page.locator("main").innerText();
  check("costs stand by day, agent and repository", /By day[\s\S]*By agent[\s\S]*triage[\s\S]*By repository[\s\S]*repo/.test(text), text);
  check("the total has cost and runs", /Cost\s*\$0\.\d+\s*Runs\s*1/.test(text), text);
  check("a day has a column", (await page.locator("svg .column").count()) === 1);
  await isAccessible(page, "costs");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  check("costs fit the screen", wide <= 0, `${wide} pixels too wide`);
  const before = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.reload();
  await page.waitForSelector(".column");
  const inView = await page.evaluate(() => document.querySelector(".column").getBoundingClientRect().right <= innerWidth);
  check("the newest day is in view on a phone", inView);
  await shoot(page, "serve-costs", 390, 844, "dark");
  await page.setViewportSize(before);
}

async function startsARun(page) {
  await page.click("nav >> text=Runs");
  await page.waitForSelector(".start");
  await page.click(".start summary");
  await isAccessible(page, "the form that starts a run");
  await page.fill("#start-harness", "no-such-harness");
  await page.click(".start >> text=Start >> nth=-1");
  await page.waitForFunction(() => document.querySelector(".start .problem")?.textContent !== "", null, { timeout: TIMEOUT });
  const refusal = seen.findIndex((one) => one.includes("status of 422"));
  check("a run that cannot begin is refused, and the page says so", refusal >= 0, seen.join("\n"));
  seen.splice(refusal, 1);
  await page.fill("#start-harness", "triage");
  await page.fill("#start-prompt", "look at it");
  await page.setInputFiles("#start-files", { name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("read me") });
  await page.click(".start button");
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/, { timeout: TIMEOUT });
  await page.waitForFunction(() => /completed/.test(document.querySelector("header")?.innerText ?? ""), null, { timeout: TIMEOUT });
  check("a run that was started in the page is shown to its end", true);
}

const HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=\"window.hacked=1\"><!--<script>-->'\"`${window.hacked=1}\u202e\u2066\u0000javascript:window.hacked=1//{{constructor}}";

/** What the API answers, with hostile text in every field that can have any. */
const HOSTILE_ANSWERS = {
  "/v1/work": { now_ms: 0, leases: [{ worker: HOSTILE, session: HOSTILE, agent: HOSTILE, until_ms: 1 }], wakes: [{ session: HOSTILE, agent: HOSTILE, due_ms: 0, reason: HOSTILE }, { session: HOSTILE, agent: HOSTILE, due_ms: 9, reason: HOSTILE }], dead_letters: [{ session: HOSTILE, agent: HOSTILE, inputs: 1 }] },
  "/v1/workers": { now_ms: 0, workers: [{ name: HOSTILE, host: HOSTILE, repositories: [HOSTILE], agent: HOSTILE, labels: [HOSTILE], concurrency: 1, started_ms: 0, seen_ms: 0 }, { name: "idle", host: HOSTILE, repositories: [HOSTILE], agent: null, labels: [HOSTILE], concurrency: 1, started_ms: 0, seen_ms: 0 }] },
  "/v1/deliveries": { deliveries: [{ id: HOSTILE, webhook: HOSTILE, type: HOSTILE, created: HOSTILE, attempts: 1, problem: HOSTILE }] },
  "/v1/runs": { runs: [{ id: HOSTILE, owner: HOSTILE, harness: HOSTILE, runtime: HOSTILE, outcome: HOSTILE, started: HOSTILE, duration_ms: 1, usd: 1, findings: 1, refused: 1 }] },
  "/v1/sessions": { sessions: [{ id: HOSTILE, agent: HOSTILE, repository: HOSTILE, status: HOSTILE, created_ms: 0, requests: 1, dead: 1, pending: 1, held_by: HOSTILE, usd: 1 }] },
  "/v1/costs": { by: HOSTILE, since: HOSTILE, total: { key: HOSTILE, runs: 1, usd: 1, unpriced_runs: 1, input_tokens: 1, output_tokens: 1, duration_ms: 1 }, rows: [{ key: HOSTILE, runs: 1, usd: 1, unpriced_runs: 1, input_tokens: 1, output_tokens: 1, duration_ms: 1 }], unreadable_runs: 1 },
};
const HOSTILE_SESSION = {
  id: HOSTILE, agent: HOSTILE, status: HOSTILE, stop_reason: HOSTILE, head: 1, dead: [[1, 1]], held: { owner: HOSTILE }, usage: { cost_microdollars: 1 },
  requests: [{ id: HOSTILE, kind: "custom_tool", tool: HOSTILE, input: { [HOSTILE]: HOSTILE }, input_digest: HOSTILE }, { id: "2", kind: "confirmation", tool: HOSTILE, input: { [HOSTILE]: HOSTILE }, input_digest: HOSTILE }],
  wakes: [{ id: HOSTILE, due_ms: 0, reason: HOSTILE }],
};
const HOSTILE_EVENT = { seq: 1, time_ms: 0, type: HOSTILE, by: HOSTILE, run_id: HOSTILE, message: HOSTILE, title: HOSTILE, note: HOSTILE, error: HOSTILE, reason: HOSTILE, decision: HOSTILE, tool: HOSTILE, output: { [HOSTILE]: HOSTILE }, result: HOSTILE };

async function isInert(page, what) {
  await page.waitForFunction(() => document.body.innerText.includes("window.hacked"), null, { timeout: TIMEOUT });
  const found = await page.evaluate(() => ({
    hacked: globalThis.hacked ?? 0,
    stopped: globalThis.stopped,
    scripts: document.scripts.length,
    foreign: document.querySelectorAll("img, iframe, object, embed, link, base, video, audio, marquee, [onerror], [onload], [onclick]").length,
    links: [...document.querySelectorAll("a")].filter((one) => !/^\/(?!\/)/.test(one.getAttribute("href") ?? "")).length,
    hidden: /[\u202e\u2066]/.test(document.body.innerText),
  }));
  const inert = !found.hacked && !found.stopped && found.scripts === 0 && !found.foreign && !found.links && !found.hidden;
  check(`hostile text is inert: ${what}`, inert, JSON.stringify(found));
}

async function hostileAnswersAreInert(page) {
  await page.addInitScript(() => { globalThis.stopped = 0; document.addEventListener("securitypolicyviolation", () => { globalThis.stopped += 1; }); });
  const problem = { status: 409, contentType: "application/problem+json", json: { title: HOSTILE, detail: HOSTILE, status: 409, type: HOSTILE } };
  await page.route("**/v1/**", (route) => {
    const path = new URL(route.request().url()).pathname;
    if (path === "/v1/caller") return route.continue();
    if (route.request().method() === "POST") return route.fulfill(problem);
    if (HOSTILE_ANSWERS[path]) return route.fulfill({ json: HOSTILE_ANSWERS[path] });
    if (path === `/v1/sessions/${id}`) return route.fulfill({ json: HOSTILE_SESSION });
    if (path === `/v1/sessions/${id}/events`) return route.fulfill({ contentType: "text/event-stream", body: `id: 1\ndata: ${JSON.stringify(HOSTILE_EVENT)}\n\nevent: end\ndata: {}\n\n` });
    return route.fulfill(problem);
  });
  for (const path of ["/", "/sessions", "/work", "/costs", `/sessions/${id}`, `/runs/${id}`]) {
    await page.goto(`${origin}${path}`);
    await isInert(page, path.replace(id, "ID"));
  }
  const refusals = [
    ["/work", async () => page.click("td .act >> nth=0")],
    [`/sessions/${id}`, async () => page.click(".ask >> text=Allow once")],
    ["/", async () => { await page.click(".start summary"); await page.fill("#start-harness", HOSTILE); await page.click(".start button"); }],
  ];
  for (const [path, act] of refusals) {
    await page.goto(`${origin}${path}`);
    await act();
    await page.waitForFunction(() => [...document.querySelectorAll(".problem")].some((one) => one.textContent.includes("window.hacked")), null, { timeout: TIMEOUT });
    await isInert(page, `a refusal in ${path.replace(id, "ID")}`);
  }
  await page.unroute("**/v1/**");
  // The browser reports every refusal.
  seen.splice(0, seen.length, ...seen.filter((one) => !/status of 409/.test(one)));
}

async function fits(page, what) {
  const before = page.viewportSize();
  for (const width of [390, 820, 1280]) {
    await page.setViewportSize({ width, height: 844 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    check(`${what} fits ${width} pixels`, wide <= 0, `${wide} pixels too wide`);
  }
  await page.setViewportSize(before);
}

async function showsWork(page) {
  await page.click("nav >> text=Work");
  await page.waitForSelector("td .act", { timeout: TIMEOUT });
  const text = await page.locator("main").innerText();
  check("work shows workers, wakes, dead letters and webhooks", /Workers[\s\S]*idle[\s\S]*label gpu[\s\S]*Queued wakes[\s\S]*Dead letters[\s\S]*1 input[\s\S]*Webhooks/.test(text), text);
  await isAccessible(page, "work");
  await fits(page, "work");
  await shoot(page, "serve-work", 1280, 860);
  await page.route("**/v1/caller", (route) => route.fulfill({ json: { name: "victor", role: "viewer" } }));
  await page.reload();
  await page.waitForFunction(() => /1 input/.test(document.querySelector("main")?.innerText ?? ""), null, { timeout: TIMEOUT });
  check("a viewer sees no button", (await page.locator("td .act").count()) === 0);
  await page.goto(`${origin}/sessions/${id}`);
  await page.waitForSelector(".log li");
  check("a viewer has no form in a session", (await page.locator(".say").count()) === 0);
  await page.unroute("**/v1/caller");
  await page.goto(`${origin}/work`);
  await page.click("td .act");
  await page.waitForFunction(() => /No input was given up/.test(document.querySelector("main")?.innerText ?? ""), null, { timeout: TIMEOUT });
  check("a retried dead letter is no longer dead", true);
  await hostileAnswersAreInert(page);
}

async function followsARun(page) {
  await page.goto(link);
  await page.waitForSelector(".runs a");
  check("the token leaves the address", page.url() === `${origin}/`, page.url());
  await isAccessible(page, "list of runs");
  await page.click(".runs a");
  await page.waitForSelector("[role=tabpanel] > *");
  check("the run goes on", /running/i.test(await page.locator("header").innerText()));
  console.log("go on");
  await page.waitForFunction(() => /completed/.test(document.querySelector("header")?.innerText ?? ""), null, { timeout: TIMEOUT });
  await page.waitForFunction(() => /Verified/.test(document.querySelector("header")?.innerText ?? ""), null, { timeout: TIMEOUT });
  check("the run is verified at its end", true);
  await narrowsTheList(page);
  await showsCosts(page);
  await startsARun(page);
}

async function answersAQuestion(page) {
  await page.goto(link);
  await page.waitForSelector(".runs");
  await page.click("nav >> text=Sessions");
  await page.waitForSelector(`.runs a[href="/sessions/${id}"]`);
  await isAccessible(page, "list of sessions");
  await page.click(`.runs a[href="/sessions/${id}"]`);
  await page.waitForSelector(".ask");
  check("the question shows its input", /tracker\.open asks[\s\S]*Broken/.test(await page.locator(".ask").innerText()), await page.locator(".ask").innerText());
  await isAccessible(page, "a session with a question");
  await page.fill(".ask textarea", '{"ticket": 42}');
  await page.click(".ask >> text=Answer");
  await page.waitForFunction(() => document.querySelector(".ask") === null, null, { timeout: TIMEOUT });
  check("the answer is in the log with its author", /user\.custom_tool_result[\s\S]*by operator[\s\S]*42/.test(await page.locator(".log li").last().innerText()), await page.locator(".log").innerText());
  console.log("go on");
  await page.waitForFunction(() => /The ticket is 42/.test(document.querySelector(".log")?.innerText ?? ""), null, { timeout: TIMEOUT });
  check("the session has woken", true);
  await page.waitForFunction(() => /idle/.test(document.querySelector(".subject")?.innerText ?? ""), null, { timeout: TIMEOUT });
  await shoot(page, "serve-session", 1280, 860);
  await showsWork(page);
}

async function allowsACallOnce(page) {
  await page.goto(link);
  await page.waitForSelector(".runs");
  await page.click("nav >> text=Sessions");
  await page.click(`.runs a[href="/sessions/${id}"]`);
  await page.waitForSelector(".ask");
  const asked = await page.locator(".ask").innerText();
  check("the confirmation shows its exact input", /May it call Bash\?[\s\S]*"command": "echo pushed >> \/sandbox\/workspace\/session\/pushes\.md"/.test(asked), asked);
  check("it says what an answer means", /one call with exactly this input/.test(asked), asked);
  await isAccessible(page, "a session with a confirmation");
  await shoot(page, "serve-confirm", 820, 900);
  await page.click(".ask >> text=Allow once");
  await page.waitForFunction(() => document.querySelector(".ask") === null, null, { timeout: TIMEOUT });
  const last = await page.locator(".log li").last().innerText();
  check("the decision is in the log with its author", /user\.tool_confirmation[\s\S]*by operator[\s\S]*allow/.test(last), last);
  console.log("go on");
  await page.waitForSelector(".ask", { timeout: TIMEOUT });
  check("the next call is a question of its own", /May it call Bash\?/.test(await page.locator(".ask").innerText()));
}

async function cancelsARun(page) {
  await page.goto(link);
  await page.click(".runs a");
  await page.waitForSelector(".cancel");
  await page.click(".cancel");
  check("the first click asks", (await page.locator(".cancel").innerText()) === "Cancel it now?");
  await isAccessible(page, "a run that can be cancelled");
  console.log("go on");
  await page.click(".cancel");
  await page.waitForFunction(() => /interrupted/.test(document.querySelector("header")?.innerText ?? ""), null, { timeout: TIMEOUT });
  await page.waitForFunction(() => document.querySelector(".cancel") === null, null, { timeout: TIMEOUT });
  check("the run is cancelled", true);
  await page.click("text=All runs");
  await page.waitForSelector(".runs a");
  check("the page leads back to the list", page.url() === `${origin}/`, page.url());
}

const TASKS = { cancel: cancelsARun, run: followsARun, session: answersAQuestion, confirm: allowsACallOnce };
const browser = await chromium.launch({ executablePath: browserPath, args: ARGUMENTS });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
const seen = [];
page.on("request", (request) => { if (!request.url().startsWith(`${origin}/`)) seen.push(`request ${request.url()}`); });
page.on("pageerror", (error) => seen.push(`error ${error.message}`));
page.on("console", (message) => { if (message.type() === "error") seen.push(`console ${message.text()}`); });
await TASKS[task](page);
check("nothing leaves the page", seen.length === 0, seen.join("\n"));
await browser.close();

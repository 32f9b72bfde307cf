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

async function showsWork(page) {
  await page.click("nav >> text=Work");
  await page.waitForSelector("td .act", { timeout: TIMEOUT });
  const text = await page.locator("main").innerText();
  check("work shows workers, wakes, dead letters and webhooks", /Workers[\s\S]*Queued wakes[\s\S]*Dead letters[\s\S]*1 input[\s\S]*Webhooks/.test(text), text);
  await isAccessible(page, "work");
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

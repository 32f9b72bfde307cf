// Drives a real Chromium over pages of runs: `node page.mjs BROWSER DEMO HOSTILE [SCREENSHOTS]`. Every check is a line of the
// output; the first that fails ends the program with its reason.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [browserPath, demo, hostile, screenshots] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = ["conversation", "event", "changes", "result", "network", "findings", "budget", "policy"];
const SIZES = { wide: [1440, 900], tablet: [820, 1180], phone: [390, 844] };
const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

function check(what, holds, why = "") {
  console.log(`${holds ? "ok" : "FAILED"} ${what}${holds ? "" : `: ${why}`}`);
  if (!holds) process.exit(1);
}

/** A page that notes everything it should not do: requests, dialogs, errors, and what its own policy had to stop. */
async function open(browser, file, size = "wide", colorScheme = "light") {
  const [width, height] = SIZES[size];
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  const seen = [];
  page.on("request", (request) => { if (!request.url().startsWith(`file://${file}`)) seen.push(`request ${request.url()}`); });
  page.on("dialog", (dialog) => { seen.push(`dialog ${dialog.message()}`); void dialog.dismiss(); });
  page.on("pageerror", (error) => seen.push(`error ${error.message}`));
  page.on("console", (message) => seen.push(`console ${message.text()}`));
  await page.goto(`file://${file}`);
  await page.waitForSelector("[role=tabpanel] > *");
  return { page, seen };
}

async function show(page, view) {
  await page.evaluate((name) => { location.hash = name; }, view);
  await page.waitForFunction((name) => document.body.dataset.view === name || name.startsWith("e"), view);
}

async function showsTheDemo(browser) {
  const { page, seen } = await open(browser, demo);
  const text = () => page.locator("[role=tabpanel]").innerText();
  check("the header has harness and outcome", /hello[\s\S]*completed[\s\S]*Verified/.test(await page.locator("header").innerText()));
  check("the conversation has words, calls and verdicts", /I will see what the test says[\s\S]*allowed[\s\S]*sh test\.sh/.test(await text()));
  await show(page, "changes");
  check("the diff is shown", /Hello, \$\{1:-world\}/.test(await text()));
  await show(page, "result");
  check("the result stands beside its schema", /rejected: 2 violations[\s\S]*"cause" is a required property[\s\S]*additionalProperties/.test(await text()), await text());
  check("a violated line is marked", (await page.locator(".violated").count()) === 1);
  await show(page, "network");
  check("the egress map names program, host and decision", /git-remote-http[\s\S]*collector\.example:443[\s\S]*denied/.test(await text()));
  await show(page, "findings");
  check("findings have rule and span", /hidden-instruction[\s\S]*bytes \d+–\d+/.test(await text()));
  await show(page, "budget");
  check("the budget has a curve", (await page.locator("svg .line").count()) > 0);
  await show(page, "policy");
  check("values name the line that set them", /max_iterations[\s\S]*hello\.yaml:\d+/.test(await text()));
  check("the timeline has a lane for each attempt", (await page.locator(".lane .label").allInnerTexts()).join().includes("Attempt 1,Attempt 2"));
  const link = page.locator(".rows a").nth(3);
  const target = await link.getAttribute("href");
  await link.click();
  check("every event has a link", target?.startsWith("#e") && page.url().endsWith(target), page.url());
  check("a link opens its event", (await page.locator(".rows a[aria-current]").getAttribute("href")) === target);
  await link.focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  check("the list can be used by keyboard", page.url().endsWith(`#e${Number(target.slice(2)) + 1}`), page.url());
  await page.locator("#tab-event").focus();
  await page.keyboard.press("ArrowRight");
  check("the tabs can be used by keyboard", page.url().endsWith("#changes"), page.url());
  await page.keyboard.press("/");
  await page.keyboard.type("collector");
  check("events can be searched", /^\d+ of \d+ events$/.test(await page.locator(".count").innerText()), await page.locator(".count").innerText());
  check("nothing leaves the page", seen.length === 0, seen.join("\n"));
  await page.close();
}

async function isAccessible(browser) {
  const all = [...VIEWS, "e12"];
  for (const [size, scheme, views] of [["wide", "light", all], ["wide", "dark", ["conversation", "changes", "network"]], ["phone", "light", ["conversation", "result", "network", "events"]]]) {
    const { page } = await open(browser, demo, size, scheme);
    await page.evaluate(axe);
    for (const view of views) {
      await show(page, view);
      const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
      const words = violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
      check(`axe finds nothing in ${view}, ${size}, ${scheme}`, violations.length === 0, words.join("\n"));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      check(`${view} fits ${size}`, wide <= 0, `${wide} pixels too wide`);
    }
    await page.close();
  }
}

async function isInert(browser) {
  const { page, seen } = await open(browser, hostile);
  await page.evaluate(() => { window.stopped = 0; document.addEventListener("securitypolicyviolation", () => { window.stopped += 1; }); });
  const last = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).events.length);
  const events = Array.from({ length: last }, (_, index) => `e${index + 1}`);
  for (const view of [...VIEWS, ...events]) {
    await show(page, view);
    await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
    const found = await page.evaluate(() => ({
      hacked: window.hacked ?? 0,
      stopped: window.stopped,
      scripts: document.scripts.length,
      foreign: document.querySelectorAll("img, iframe, object, embed, link, form, base, video, audio, marquee, [onerror], [onload], [onclick]").length,
      links: [...document.querySelectorAll("a")].filter((one) => !/^#[a-z0-9-]+$/.test(one.getAttribute("href") ?? "")).length,
      hidden: /[\u202e\u2066]/.test(document.body.innerText),
      shown: document.body.innerText.includes("window.hacked"),
    }));
    const inert = !found.hacked && !found.stopped && found.scripts === 2 && !found.foreign && !found.links && !found.hidden;
    check(`hostile text is inert in ${view}`, inert, JSON.stringify(found));
    if (view === "conversation") check("hostile text is shown as text", found.shown);
  }
  check("nothing leaves the hostile page", seen.length === 0, seen.join("\n"));
  await page.close();
}

/** The demo's page with its events repeated. */
function withEvents(file, number) {
  const html = readFileSync(file, "utf8");
  const [, before, json, after] = /^([\s\S]*id="data">)([\s\S]*?)(<\/script>[\s\S]*)$/.exec(html);
  const data = JSON.parse(json);
  const start = Date.parse(data.events[0].time);
  const body = data.events.slice(1, -1);
  const made = Array.from({ length: number }, (_, index) => ({ ...body[index % body.length], seq: index + 1, time: new Date(start + index * 20).toISOString() }));
  const text = JSON.stringify({ ...data, events: made }).replace(/[<>&]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`);
  const path = `${file}.large.html`;
  writeFileSync(path, before + text + after);
  return path;
}

async function scrollsManyEvents(browser) {
  const { page, seen } = await open(browser, withEvents(demo, 50_000));
  check("fifty thousand events are listed", (await page.locator(".count").innerText()) === "50,000 events");
  const client = await page.context().newCDPSession(page);
  // The thread's own time: a machine that is busy with something else does not count.
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => (await client.send("Performance.getMetrics")).metrics.find((one) => one.name === "TaskDuration").value * 1000;
  let longest = 0;
  let most = 0;
  for (let step = 0; step <= 30; step += 1) {
    const before = await busy();
    await page.evaluate((part) => new Promise((resolve) => {
      const rows = document.querySelector(".rows");
      rows.scrollTop = part * (rows.scrollHeight - rows.clientHeight);
      requestAnimationFrame(() => requestAnimationFrame(resolve));
    }), step / 30);
    longest = Math.max(longest, (await busy()) - before);
    most = Math.max(most, await page.locator(".rows a").count());
  }
  console.log(`figures: longest scroll ${longest.toFixed(0)} ms, ${most} rows in the document`);
  check("the end is reached", (await page.locator(".rows a").last().getAttribute("href")) === "#e50000");
  check("only the rows in view exist", most < 120, `${most}`);
  // A busy machine says nothing about the page: only a person who measures asks for the time.
  if (process.env.FULLSEND_MEASURE) check("no task of scrolling takes 200 ms", longest < 200, `${longest}`);
  check("nothing leaves the large page", seen.length === 0, seen.join("\n"));
  await page.close();
}

async function takeScreenshots(browser) {
  for (const [name, size, scheme, view] of [["wide", "wide", "light", "conversation"], ["tablet", "tablet", "light", "network"], ["phone", "phone", "dark", "result"]]) {
    const { page } = await open(browser, demo, size, scheme);
    await show(page, view);
    await page.screenshot({ path: `${screenshots}/page-${name}.png` });
    await page.close();
  }
}

const browser = await chromium.launch({ executablePath: browserPath, args: ARGUMENTS });
await showsTheDemo(browser);
await isInert(browser);
await isAccessible(browser);
await scrollsManyEvents(browser);
if (screenshots) await takeScreenshots(browser);
await browser.close();

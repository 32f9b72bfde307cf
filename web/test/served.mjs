// Drives a real Chromium over `fullsend serve`: `node served.mjs BROWSER LINK TASK ID`. Every check is a line of the output; the
// first that fails ends the program with its reason. `run` waits on standard input until the run may go on.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [browserPath, link, task, id] = process.argv.slice(2);
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
  check("the run is verified at its end", /Verified/.test(await page.locator("header").innerText()));
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
}

const browser = await chromium.launch({ executablePath: browserPath, args: ARGUMENTS });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
const seen = [];
page.on("request", (request) => { if (!request.url().startsWith(`${origin}/`)) seen.push(`request ${request.url()}`); });
page.on("pageerror", (error) => seen.push(`error ${error.message}`));
page.on("console", (message) => { if (message.type() === "error") seen.push(`console ${message.text()}`); });
await (task === "run" ? followsARun(page) : answersAQuestion(page));
check("nothing leaves the page", seen.length === 0, seen.join("\n"));
await browser.close();

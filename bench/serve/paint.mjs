// `node paint.mjs PAGE`: milliseconds until Chromium first paints the page, until its list of events is there, and until it first paints
// an empty page; medians of some rounds.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const ROUNDS = 7;
const NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
const places = (process.env.PATH ?? "").split(":");
const executablePath = NAMES.flatMap((name) => places.map((place) => `${place}/${name}`)).find(existsSync);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });

async function paint(url, selector) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  await page.goto(url);
  const shown = selector ? await page.waitForSelector(selector).then(() => page.evaluate(() => performance.now())) : 0;
  const first = await page.evaluate(() => new Promise((resolve) => {
    const known = performance.getEntriesByName("first-contentful-paint")[0];
    if (known) return resolve(known.startTime);
    new PerformanceObserver((list) => resolve(list.getEntriesByName("first-contentful-paint")[0]?.startTime)).observe({ type: "paint", buffered: true });
  }));
  await page.close();
  return [first, shown];
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const rounds = [];
for (let round = 0; round < ROUNDS; round += 1) {
  const [first, list] = await paint(`file://${process.argv[2]}`, ".rows a");
  const [empty] = await paint("data:text/html,<p>nothing</p>");
  rounds.push([first, list, empty]);
}
console.log([0, 1, 2].map((at) => median(rounds.map((one) => one[at])).toFixed(1)).join(" "));
await browser.close();
